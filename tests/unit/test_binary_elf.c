/* Where the parts of a file lie in the process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <elf.h>
#include <string.h>
#include <unistd.h>

#include "binary/elf.h"

#if defined(__x86_64__)
#define MACHINE EM_X86_64
#else
#define MACHINE EM_AARCH64
#endif

static struct {
    Elf64_Ehdr header;
    Elf64_Phdr segments[3];
} file;

static uint64_t page;
static struct elf_file *elf;

/* As lld lays a file out: each segment begins in the page of the file where the one before ends, and
 * one page further on in memory. */
static int make_file(void **state)
{
    (void)state;
    page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t code = 5 * page + 0x800, data = 9 * page + 0x100, end = 12 * page;
    file.header = (Elf64_Ehdr){
        .e_type = ET_DYN,
        .e_machine = MACHINE,
        .e_version = EV_CURRENT,
        .e_ehsize = sizeof(Elf64_Ehdr),
        .e_phoff = sizeof(Elf64_Ehdr),
        .e_phentsize = sizeof(Elf64_Phdr),
        .e_phnum = 3,
    };
    memcpy(file.header.e_ident, ELFMAG, SELFMAG);
    file.header.e_ident[EI_CLASS] = ELFCLASS64;
    file.header.e_ident[EI_DATA] = ELFDATA2LSB;
    file.header.e_ident[EI_VERSION] = EV_CURRENT;
    file.segments[0] = (Elf64_Phdr){.p_type = PT_LOAD, .p_flags = PF_R, .p_filesz = code - 0x20};
    file.segments[1] = (Elf64_Phdr){.p_type = PT_LOAD,
                                    .p_flags = PF_R | PF_X,
                                    .p_offset = code,
                                    .p_vaddr = code + page,
                                    .p_filesz = data - code};
    file.segments[2] = (Elf64_Phdr){.p_type = PT_LOAD,
                                    .p_flags = PF_R | PF_W,
                                    .p_offset = data,
                                    .p_vaddr = data + 2 * page,
                                    .p_filesz = end - data};
    return elf_open_memory(&file, sizeof(file), &elf);
}

static int close_file(void **state)
{
    (void)state;
    elf_close(elf);
    return 0;
}

/* The bias when this page of the file is mapped so that the file lies at `base`. */
static uint64_t bias_of(uint64_t base, uint64_t file_page, uint64_t memory_page, bool exec)
{
    const struct mapping m = {
        .start = base + memory_page * page, .offset = file_page * page, .read = true, .exec = exec};
    uint64_t bias = 0;
    assert_true(elf_bias(elf, &m, &bias));
    return bias;
}

static void each_part_gives_the_same_bias(void **state)
{
    (void)state;
    const uint64_t base = 0x7f0000000000;
    assert_int_equal(bias_of(base, 0, 0, false), base);
    assert_int_equal(bias_of(base, 5, 6, true), base);
    assert_int_equal(bias_of(base, 9, 11, false), base);
}

static void parts_of_a_segment_that_was_cut_do_as_well(void **state)
{
    (void)state;
    const uint64_t base = 0x7f0000000000;
    assert_int_equal(bias_of(base, 3, 3, false), base);
    assert_int_equal(bias_of(base, 8, 9, true), base);
    assert_int_equal(bias_of(base, 10, 12, false), base);
    /* The page that code and data share, cut off from the rest of the code. */
    assert_int_equal(bias_of(base, 9, 10, true), base);
}

static void code_in_a_segment_without_that_right_is_still_found(void **state)
{
    (void)state;
    const uint64_t base = 0x7f0000000000;
    assert_int_equal(bias_of(base, 2, 2, true), base);
}

static void what_no_segment_covers_has_no_bias(void **state)
{
    (void)state;
    const struct mapping m = {.start = 0x7f0000000000, .offset = 12 * page, .read = true};
    uint64_t bias = 1;
    assert_false(elf_bias(elf, &m, &bias));
    assert_int_equal(bias, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_part_gives_the_same_bias),
        cmocka_unit_test(parts_of_a_segment_that_was_cut_do_as_well),
        cmocka_unit_test(code_in_a_segment_without_that_right_is_still_found),
        cmocka_unit_test(what_no_segment_covers_has_no_bias),
    };
    return cmocka_run_group_tests(tests, make_file, close_file);
}
