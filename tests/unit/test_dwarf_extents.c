/* Function starts from the unwind tables of this very program, whole and damaged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "binary/elf.h"
#include "dwarf/extents.h"

/* Found by its name in the symbol table. */
int known_function(int x);
__attribute__((noinline)) int known_function(int x)
{
    char text[32];
    snprintf(text, sizeof(text), "%d", x);
    return (int)strlen(text);
}

static unsigned char *image;
static size_t image_len;

static int read_own_image(void **state)
{
    (void)state;
    struct stat st;
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0)
        return -1;
    image_len = (size_t)st.st_size;
    image = malloc(image_len);
    bool whole = image && read(fd, image, image_len) == (ssize_t)image_len;
    close(fd);
    return whole ? 0 : -1;
}

static int free_image(void **state)
{
    (void)state;
    free(image);
    return 0;
}

static struct elf_file *open_copy(unsigned char *bytes)
{
    struct elf_file *elf = NULL;
    return elf_open_memory(bytes, image_len, &elf) == 0 ? elf : NULL;
}

static void finds_the_start_from_every_address(void **state)
{
    (void)state;
    struct elf_file *elf = open_copy(image);
    struct elf_place place;
    uint64_t start;
    assert_non_null(elf);
    assert_true(elf_symbol(elf, "known_function", &place));
    struct extents *e = extents_new(elf);
    assert_non_null(e);
    for (uint64_t i = 0; i < place.size; i++) {
        assert_true(extents_find(e, place.addr + i, &start));
        assert_int_equal(start, place.addr);
    }
    assert_true(!extents_find(e, place.addr + place.size, &start) || start != place.addr);
    assert_false(extents_find(e, 0, &start));
    assert_false(extents_find(e, UINT64_MAX, &start));
    extents_free(e);
    elf_close(elf);
}

/* The sanitizers see whether anything is read that is not there. */
static void survives_damage(void **state)
{
    (void)state;
    struct elf_file *elf = open_copy(image);
    struct elf_place place, table;
    assert_non_null(elf);
    assert_true(elf_symbol(elf, "known_function", &place));
    assert_true(elf_section(elf, ".eh_frame_hdr", &table));
    elf_close(elf);
    unsigned char *copy = malloc(image_len);
    assert_non_null(copy);
    srand(1);
    for (int round = 0; round < 2000; round++) {
        uint64_t start;
        memcpy(copy, image, image_len);
        for (int i = 0; i < 64; i++) /* the tables lie where they are mapped in the file */
            copy[(table.addr + (uint64_t)rand() % (16 * table.size)) % image_len] =
                (unsigned char)rand();
        elf = open_copy(copy);
        struct extents *e = elf ? extents_new(elf) : NULL;
        for (uint64_t i = 0; e && i < 4096; i += 16)
            extents_find(e, place.addr + i, &start);
        extents_free(e);
        elf_close(elf);
    }
    free(copy);
}

int main(void)
{
    if (known_function(10) != 2)
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_the_start_from_every_address),
        cmocka_unit_test(survives_damage),
    };
    return cmocka_run_group_tests(tests, read_own_image, free_image);
}
