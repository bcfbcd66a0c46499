/* Functions without unwind tables, as they are written by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "dwarf/prologue.h"
#include "util/types.h"

#if defined(__x86_64__)

enum { RBX = 3, RBP = 6, R12 = 12, R15 = 15 };

static const struct code_bytes nothing = {(const unsigned char *)"", 0};
static const struct code_bytes unknown;

/* Code up to the instruction that is asked for, or from there on. */
#define AFTER(...)                                                                                 \
    ((struct code_bytes){(const unsigned char[]){__VA_ARGS__},                                     \
                         sizeof((const unsigned char[]){__VA_ARGS__})})

static int place_of(const struct rule *rule, unsigned reg)
{
    for (unsigned i = 0; i < rule->saved_count; i++)
        if (rule->saved[i] == reg)
            return rule->saved_at[i];
    return 1;
}

static void assert_rule(const struct rule *rule, unsigned base, int offset)
{
    assert_int_equal(rule->kind, RULE_SIMPLE);
    assert_int_equal(rule->base, base);
    assert_int_equal(rule->offset, offset);
    assert_int_equal(place_of(rule, REGISTER_RA), -8);
}

static void a_function_that_has_done_nothing_returns_to_the_top_of_the_stack(void **state)
{
    (void)state;
    struct rule rule;
    assert_true(prologue_rule(nothing, nothing, &rule));
    assert_rule(&rule, REGISTER_SP, 8);
    /* lea 0(,%rdx,8),%rdx; cmp $8,%rdx; jne; movsd (%rsi),%xmm0; dec %rdi */
    assert_true(prologue_rule(AFTER(0x48, 0x8d, 0x14, 0xd5, 0, 0, 0, 0, 0x48, 0x83, 0xfa, 8, 0x0f,
                                    0x85, 1, 0, 0, 0, 0xf2, 0x0f, 0x10, 0x06, 0x48, 0xff, 0xcf),
                              nothing, &rule));
    assert_rule(&rule, REGISTER_SP, 8);
}

static void pushed_registers_are_found(void **state)
{
    (void)state;
    struct rule rule;
    /* push %r15, %r12, %rbp, %rbx; mov %rsi,%rax; sub $0x18,%rsp */
    struct code_bytes code =
        AFTER(0x41, 0x57, 0x41, 0x54, 0x55, 0x53, 0x48, 0x89, 0xf0, 0x48, 0x83, 0xec, 0x18);
    assert_true(prologue_rule(code, nothing, &rule));
    assert_rule(&rule, REGISTER_SP, 8 + 4 * 8 + 0x18);
    assert_int_equal(place_of(&rule, R15), -16);
    assert_int_equal(place_of(&rule, R12), -24);
    assert_int_equal(place_of(&rule, RBP), -32);
    assert_int_equal(place_of(&rule, RBX), -40);
    /* Between two of the pushes. */
    code.len = 4;
    assert_true(prologue_rule(code, nothing, &rule));
    assert_rule(&rule, REGISTER_SP, 8 + 2 * 8);
    assert_int_equal(place_of(&rule, RBP), 1);
}

/* sub $0x60,%rsp; mov %rbx,(%rsp); mov %rbp,8(%rsp); vzeroupper; mov 0x68(%rsp),%r10; mov %rsp,%rbx;
 * sub $0x7080,%rsp; and $-4096,%rsp */
#define ALIGNED                                                                                    \
    0x48, 0x83, 0xec, 0x60, 0x48, 0x89, 0x1c, 0x24, 0x48, 0x89, 0x6c, 0x24, 8, 0xc5, 0xf8, 0x77,   \
        0x4c, 0x8b, 0x54, 0x24, 0x68, 0x48, 0x89, 0xe3, 0x48, 0x81, 0xec, 0x80, 0x70, 0, 0, 0x48,  \
        0x81, 0xe4, 0, 0xf0, 0xff, 0xff

static void an_aligned_stack_is_left_by_the_register_that_keeps_it(void **state)
{
    (void)state;
    struct rule rule;
    assert_true(prologue_rule(AFTER(ALIGNED), nothing, &rule));
    assert_rule(&rule, RBX, 0x68);
    assert_int_equal(place_of(&rule, RBX), -0x68);
    assert_int_equal(place_of(&rule, RBP), -0x60);
    /* mov %rsi,0x28(%rsp) says nothing about the caller any more. */
    assert_true(prologue_rule(AFTER(ALIGNED, 0x4c, 0x89, 0x64, 0x24, 0x28), nothing, &rule));
    assert_int_equal(place_of(&rule, R12), 1);
    /* and $-64,%rsp and no register that keeps what it was */
    assert_false(prologue_rule(AFTER(0x48, 0x83, 0xe4, 0xc0), nothing, &rule));
}

static void a_frame_pointer_is_used(void **state)
{
    (void)state;
    struct rule rule;
    /* endbr64; push %rbp; mov %rsp,%rbp; sub $0x20,%rsp */
    assert_true(
        prologue_rule(AFTER(0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x20),
                      nothing, &rule));
    assert_rule(&rule, RBP, 16);
    assert_int_equal(place_of(&rule, RBP), -16);
}

static void on_the_way_out_the_rest_counts(void **state)
{
    (void)state;
    struct rule rule;
    /* after push %rbx: pop %rbx done already, ret comes */
    assert_true(prologue_rule(AFTER(0x53, 0x31, 0xc0, 0x5b), AFTER(0xc3), &rule));
    assert_rule(&rule, REGISTER_SP, 8);
    /* mov 8(%rsp),%rbp; add $0x60,%rsp; vzeroupper; ret */
    assert_true(prologue_rule(
        AFTER(ALIGNED),
        AFTER(0x48, 0x8b, 0x6c, 0x24, 8, 0x48, 0x83, 0xc4, 0x60, 0xc5, 0xf8, 0x77, 0xc3), &rule));
    assert_rule(&rule, REGISTER_SP, 0x68);
    assert_int_equal(place_of(&rule, RBP), -0x60);
    assert_int_equal(place_of(&rule, RBX), 1);
    /* A jump before it: that may not be the way out. */
    assert_true(prologue_rule(AFTER(0x53), AFTER(0x74, 0x10, 0x48, 0x83, 0xc4, 0x60, 0xc3), &rule));
    assert_rule(&rule, REGISTER_SP, 16);
}

static void a_stub_is_left_where_it_leads(void **state)
{
    (void)state;
    struct rule rule;
    /* endbr64; mov 0x1000(%rip),%r10; jmp *0x1000(%rip) */
    assert_true(prologue_rule(unknown,
                              AFTER(0xf3, 0x0f, 0x1e, 0xfa, 0x4c, 0x8b, 0x15, 0, 0x10, 0, 0, 0xff,
                                    0x25, 0, 0x10, 0, 0, 0xcc),
                              &rule));
    assert_rule(&rule, REGISTER_SP, 8);
    /* call *0x1000(%rip); ret */
    assert_false(prologue_rule(unknown, AFTER(0xff, 0x15, 0, 0x10, 0, 0, 0xc3), &rule));
}

static void of_an_unknown_function_only_the_end_can_be_told(void **state)
{
    (void)state;
    struct rule rule;
    assert_false(prologue_rule(unknown, nothing, &rule));
    assert_false(prologue_rule(unknown, AFTER(0x53, 0xe8, 0, 0, 0, 0), &rule));
    /* pop %rbx; ret */
    assert_true(prologue_rule(unknown, AFTER(0x5b, 0xc3), &rule));
    assert_rule(&rule, REGISTER_SP, 16);
}

static void what_is_not_known_ends_the_reading(void **state)
{
    (void)state;
    struct rule rule;
    /* push %rbx; call; push %rbp */
    assert_true(prologue_rule(AFTER(0x53, 0xe8, 0, 0, 0, 0, 0x55), nothing, &rule));
    assert_rule(&rule, REGISTER_SP, 16);
    /* sub with a number that would lead down */
    assert_false(prologue_rule(AFTER(0x48, 0x81, 0xec, 0, 0, 0, 0x80), nothing, &rule));
}

/* Whatever the bytes are: no end is read past, and a rule is sound. */
static void any_bytes_do_no_harm(void **state)
{
    (void)state;
    uint64_t random = 88172645463325252ULL;
    for (int n = 0; n < 200000; n++) {
        unsigned char bytes[24];
        for (size_t i = 0; i < sizeof(bytes); i++) {
            random ^= random << 13, random ^= random >> 7, random ^= random << 17;
            bytes[i] = (unsigned char)random;
        }
        size_t cut = random % sizeof(bytes);
        struct rule rule;
        if (!prologue_rule((struct code_bytes){bytes, cut},
                           (struct code_bytes){bytes + cut, sizeof(bytes) - cut}, &rule))
            continue;
        assert_int_equal(rule.kind, RULE_SIMPLE);
        assert_true(rule.saved_count <= RULE_SAVED_MAX && rule.base < REGISTER_COUNT);
        assert_true(rule.offset >= 8);
    }
}

#endif

int main(void)
{
#if defined(__x86_64__)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_function_that_has_done_nothing_returns_to_the_top_of_the_stack),
        cmocka_unit_test(pushed_registers_are_found),
        cmocka_unit_test(an_aligned_stack_is_left_by_the_register_that_keeps_it),
        cmocka_unit_test(a_frame_pointer_is_used),
        cmocka_unit_test(on_the_way_out_the_rest_counts),
        cmocka_unit_test(a_stub_is_left_where_it_leads),
        cmocka_unit_test(of_an_unknown_function_only_the_end_can_be_told),
        cmocka_unit_test(what_is_not_known_ends_the_reading),
        cmocka_unit_test(any_bytes_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
#else
    return 0;
#endif
}
