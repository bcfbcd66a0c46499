/* Integers that carry a unit. */
#ifndef SCRY_UTIL_TYPES_H
#define SCRY_UTIL_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* An address in the target. Never converted to a pointer. */
typedef uint64_t scry_addr;

/* Nanoseconds: a CLOCK_MONOTONIC instant or a span, as the name beside it says. */
typedef uint64_t scry_nsec;

#define SCRY_NSEC_PER_SEC 1000000000ULL
#define ARRAY_LEN(a)      (sizeof(a) / sizeof((a)[0]))

#endif
