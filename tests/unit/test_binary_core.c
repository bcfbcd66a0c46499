/* A small core file made by hand: what is read from it, and that no damage to it does harm. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <elf.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/procfs.h>
#include <cmocka.h>

#include "binary/core.h"
#include "util/buf.h"

#if defined(__aarch64__)
#define MACHINE EM_AARCH64
#else
#define MACHINE EM_X86_64
#endif

#define DATA_AT   0x10000
#define TEXT_AT   0x400000
#define DATA_TEXT "forty-two"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void add_note(struct buf *to, uint32_t type, const void *data, size_t size)
{
    Elf64_Nhdr header = {.n_namesz = 5, .n_descsz = (uint32_t)size, .n_type = type};
    buf_add(to, &header, sizeof(header));
    buf_add(to, "CORE\0\0\0", 8);
    buf_add(to, data, size);
    while (to->len % 4)
        buf_add_char(to, '\0');
}

static void add_notes(struct buf *to)
{
    struct elf_prstatus first = {.pr_pid = 71, .pr_cursig = SIGSEGV}, second = {.pr_pid = 70};
    struct elf_prpsinfo process = {.pr_pid = 70, .pr_ppid = 1, .pr_fname = "python3"};
    memcpy(process.pr_psargs, "python3 app.py  ", 16);
    siginfo_t info = {.si_signo = SIGSEGV, .si_code = 1};
    info.si_addr = (void *)(uintptr_t)0x8;
    uint64_t auxv[] = {AT_PHDR, TEXT_AT + 64, AT_NULL, 0};
    struct {
        uint64_t words[8];
        char names[48];
    } files = {{2, 4096, TEXT_AT, TEXT_AT + 4096, 0, DATA_AT, DATA_AT + 4096, 3}, ""};
    memcpy(files.names, "/usr/bin/python3\0/usr/lib/libgone.so (deleted)", 47);
    add_note(to, NT_PRSTATUS, &first, sizeof(first));
    add_note(to, NT_PRPSINFO, &process, sizeof(process));
    add_note(to, NT_SIGINFO, &info, sizeof(info));
    add_note(to, NT_AUXV, auxv, sizeof(auxv));
    add_note(to, NT_FILE, &files, sizeof(files));
    add_note(to, NT_PRSTATUS, &second, sizeof(second));
}

static int set_up(void **state)
{
    struct buf *core = calloc(1, sizeof(*core));
    struct buf notes;
    buf_init(core);
    buf_init(&notes);
    add_notes(&notes);
    uint64_t at = sizeof(Elf64_Ehdr) + 3 * sizeof(Elf64_Phdr);
    Elf64_Ehdr header = {.e_ident = ELFMAG,
                         .e_type = ET_CORE,
                         .e_machine = MACHINE,
                         .e_phoff = sizeof(header),
                         .e_phentsize = sizeof(Elf64_Phdr),
                         .e_phnum = 3};
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    Elf64_Phdr segments[] = {
        {.p_type = PT_NOTE, .p_offset = at, .p_filesz = notes.len},
        {.p_type = PT_LOAD,
         .p_flags = PF_R | PF_W,
         .p_offset = at + notes.len,
         .p_vaddr = DATA_AT,
         .p_filesz = sizeof(DATA_TEXT),
         .p_memsz = 4096},
        {.p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_vaddr = TEXT_AT, .p_memsz = 4096},
    };
    buf_add(core, &header, sizeof(header));
    buf_add(core, segments, sizeof(segments));
    buf_add(core, notes.data, notes.len);
    buf_add(core, DATA_TEXT, sizeof(DATA_TEXT));
    buf_done(&notes);
    *state = core;
    return 0;
}

static int tear_down(void **state)
{
    buf_done(*state);
    free(*state);
    return 0;
}

static void test_what_the_notes_say(void **state)
{
    const struct buf *file = *state;
    struct core c;
    assert_int_equal(core_parse(file->data, file->len, "core", &c, NULL), 0);
    assert_int_equal(c.pid, 70);
    assert_int_equal(c.parent, 1);
    assert_string_equal(c.command, "python3 app.py");
    assert_int_equal(c.signal, SIGSEGV);
    assert_true(core_died(&c));
    assert_true(c.has_fault);
    assert_int_equal(c.fault, 8);
    assert_int_equal(c.thread_count, 2);
    assert_int_equal(c.threads[0].tid, 71);
    assert_int_equal(c.program_headers, TEXT_AT + 64);
    assert_int_equal(c.missing, 0);
    core_close(&c);
}

static void test_files_are_sorted_and_told_apart(void **state)
{
    const struct buf *file = *state;
    struct core c;
    assert_int_equal(core_parse(file->data, file->len, "core", &c, NULL), 0);
    assert_int_equal(c.file_count, 2);
    assert_string_equal(c.files[0].path, "/usr/lib/libgone.so");
    assert_true(c.files[0].deleted);
    assert_int_equal(c.files[0].offset, 3 * 4096);
    assert_string_equal(c.files[1].path, "/usr/bin/python3");
    assert_false(c.files[1].deleted);
    core_close(&c);
}

/* What is not in the core comes from the file that was mapped; what was lost comes from nowhere. */
static void test_memory(void **state)
{
    const struct buf *file = *state;
    struct core c;
    char text[32] = "";
    assert_int_equal(core_parse(file->data, file->len, "core", &c, NULL), 0);
    struct mem *mem = mem_core_new();
    const struct core_segment *s = &c.segments[0];
    mem_core_add(mem, MEM_CORE_SAVED, s->start, s->saved, c.data + s->offset, s->there);
    mem_core_add(mem, MEM_CORE_FILE, DATA_AT, 4096, "AAAAAAAAAAAAAAAAAAAA", 20);
    assert_int_equal(mem_read(mem, DATA_AT, text, sizeof(DATA_TEXT)), 0);
    assert_string_equal(text, DATA_TEXT);
    assert_int_equal(mem_read(mem, DATA_AT + sizeof(DATA_TEXT) - 2, text, 4), 0);
    assert_memory_equal(text, "o\0AA", 4);
    assert_int_equal(mem_read(mem, DATA_AT + 18, text, 4), -SCRY_E_READ);
    assert_int_equal(mem_read(mem, DATA_AT - 1, text, 2), -SCRY_E_READ);
    assert_int_equal(mem_read(mem, UINT64_MAX - 1, text, 8), -SCRY_E_READ);
    mem_close(mem);
    /* The same file with its last bytes cut off: these must not be taken from elsewhere. */
    mem = mem_core_new();
    mem_core_add(mem, MEM_CORE_SAVED, s->start, s->saved, c.data + s->offset, 5);
    mem_core_add(mem, MEM_CORE_FILE, DATA_AT, 4096, "AAAAAAAAAAAAAAAAAAAA", 20);
    assert_int_equal(mem_read(mem, DATA_AT, text, 5), 0);
    assert_int_equal(mem_read(mem, DATA_AT, text, 6), -SCRY_E_READ);
    mem_close(mem);
    core_close(&c);
}

static void test_a_cut_file_says_how_much_is_missing(void **state)
{
    const struct buf *file = *state;
    struct core c;
    assert_int_equal(core_parse(file->data, file->len - 4, "core", &c, NULL), 0);
    assert_int_equal(c.missing, 4);
    assert_int_equal(c.segments[0].there, sizeof(DATA_TEXT) - 4);
    core_close(&c);
}

/* Cut at every byte, and every byte turned over: read or refused, never more than that. */
static void test_damage_of_every_kind(void **state)
{
    const struct buf *file = *state;
    for (size_t len = 0; len <= file->len; len++) {
        uint8_t *copy = malloc(len ? len : 1); /* so that a sanitizer sees reads beyond it */
        memcpy(copy, file->data, len);
        LLVMFuzzerTestOneInput(copy, len);
        free(copy);
    }
    static const uint8_t turns[] = {0xff, 0x01, 0x80};
    for (size_t at = 0; at < file->len; at++) {
        for (size_t i = 0; i < ARRAY_LEN(turns); i++) {
            file->data[at] ^= (char)turns[i];
            LLVMFuzzerTestOneInput((const uint8_t *)file->data, file->len);
            file->data[at] ^= (char)turns[i];
        }
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_what_the_notes_say),
        TEST(test_files_are_sorted_and_told_apart),
        TEST(test_memory),
        TEST(test_a_cut_file_says_how_much_is_missing),
        TEST(test_damage_of_every_kind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
