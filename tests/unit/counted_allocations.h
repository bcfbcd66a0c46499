/* Counts allocations by standing in front of the C library's own, in this program and the libraries it uses.
 * Include it in one file of a test. */
#ifndef SCRY_TESTS_COUNTED_ALLOCATIONS_H
#define SCRY_TESTS_COUNTED_ALLOCATIONS_H

#include <stddef.h>
#include <stdlib.h>

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif

static size_t allocations;

#if !defined(SANITIZED) && defined(__GLIBC__)
#define CAN_COUNT 1
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);

__attribute__((visibility("default"))) void *malloc(size_t size)
{
    allocations++;
    return __libc_malloc(size);
}

__attribute__((visibility("default"))) void *calloc(size_t count, size_t size)
{
    allocations++;
    return __libc_calloc(count, size);
}

__attribute__((visibility("default"))) void *realloc(void *old, size_t size)
{
    allocations++;
    return __libc_realloc(old, size);
}
#else
#define CAN_COUNT 0
#endif

#endif
