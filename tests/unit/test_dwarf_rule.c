/* Unwind rules, applied to stacks made up here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <dwarf.h>
#include <string.h>

#include "dwarf/rule.h"

#define BASE 0x7000

static uint64_t words[16];
static const struct stack_copy stack = {.start = BASE, .len = sizeof(words), .data = (void *)words};

static struct registers at(scry_addr sp, scry_addr fp)
{
    struct registers r = {.pc = 0x1000};
    register_set(&r, REGISTER_SP, sp);
    register_set(&r, REGISTER_FP, fp);
    return r;
}

static void caller_is_found_above_a_register(void **state)
{
    (void)state;
    memset(words, 0, sizeof(words));
    words[3] = 0xfeed;   /* the saved frame pointer */
    words[4] = 0x401234; /* the return address */
    struct rule rule = {.kind = RULE_SIMPLE,
                        .base = REGISTER_SP,
                        .offset = 40,
                        .saved_count = 2,
                        .saved = {REGISTER_FP, REGISTER_RA},
                        .saved_at = {-16, -8}};
    struct registers r = at(BASE, 1);
    assert_int_equal(rule_apply(&rule, &stack, &r), RULE_OK);
    assert_int_equal(r.pc, 0x401234);
    assert_int_equal(r.value[REGISTER_SP], BASE + 40);
    assert_int_equal(r.value[REGISTER_FP], 0xfeed);
}

static void what_lies_beyond_the_copy_is_said_and_changes_nothing(void **state)
{
    (void)state;
    struct rule rule = {.kind = RULE_SIMPLE,
                        .base = REGISTER_SP,
                        .offset = 8,
                        .saved_count = 1,
                        .saved = {REGISTER_RA},
                        .saved_at = {-8}};
    static const scry_addr beyond[] = {BASE - 8, BASE + sizeof(words) - 4, BASE + sizeof(words),
                                       UINT64_MAX - 4, 0};
    for (size_t i = 0; i < ARRAY_LEN(beyond); i++) {
        struct registers r = at(beyond[i], 0), before = r;
        assert_int_equal(rule_apply(&rule, &stack, &r), RULE_OUT_OF_COPY);
        assert_memory_equal(&r, &before, sizeof(r));
    }
}

static void a_register_that_is_not_known_is_asked_for(void **state)
{
    (void)state;
    struct rule rule = {.kind = RULE_SIMPLE, .base = REGISTER_FP, .offset = 16};
    struct registers r = at(BASE, 0);
    register_forget(&r, REGISTER_FP);
    assert_int_equal(rule_apply(&rule, &stack, &r), RULE_NEEDS_REGISTER);
    assert_int_equal(rule_apply_frame_pointer(&stack, &r), RULE_NEEDS_REGISTER);
}

/* Popped registers may lie below what was copied: they are lost, the caller is not. */
static void a_saved_register_out_of_reach_is_forgotten(void **state)
{
    (void)state;
    words[0] = 0x5555;
    struct rule rule = {.kind = RULE_SIMPLE,
                        .base = REGISTER_SP,
                        .offset = 8,
                        .saved_count = 2,
                        .saved = {REGISTER_FP, REGISTER_RA},
                        .saved_at = {-64, -8}};
    struct registers r = at(BASE, 1);
    assert_int_equal(rule_apply(&rule, &stack, &r), RULE_OK);
    assert_int_equal(r.pc, 0x5555);
    assert_false(register_known(&r, REGISTER_FP));
}

static void a_return_address_of_zero_ends_the_stack(void **state)
{
    (void)state;
    memset(words, 0, sizeof(words));
    struct rule rule = {.kind = RULE_SIMPLE,
                        .base = REGISTER_SP,
                        .offset = 8,
                        .saved_count = 1,
                        .saved = {REGISTER_RA},
                        .saved_at = {-8}};
    struct registers r = at(BASE, 0);
    assert_int_equal(rule_apply(&rule, &stack, &r), RULE_OUTERMOST);
    rule.kind = RULE_END;
    assert_int_equal(rule_apply(&rule, &stack, &r), RULE_OUTERMOST);
    rule.kind = RULE_NONE;
    assert_int_equal(rule_apply(&rule, &stack, &r), RULE_BROKEN);
}

static void frame_pointers_lead_up_the_stack_only(void **state)
{
    (void)state;
    words[2] = BASE + 64;
    words[3] = 0x9999;
    struct registers r = at(BASE, BASE + 16);
    assert_int_equal(rule_apply_frame_pointer(&stack, &r), RULE_OK);
    assert_int_equal(r.pc, 0x9999);
    assert_int_equal(r.value[REGISTER_FP], BASE + 64);
    assert_int_equal(r.value[REGISTER_SP], BASE + 32);
    r = at(BASE + 24, BASE + 16);
    assert_int_equal(rule_apply_frame_pointer(&stack, &r), RULE_BROKEN);
    r = at(BASE, BASE + 17);
    assert_int_equal(rule_apply_frame_pointer(&stack, &r), RULE_BROKEN);
    r = at(BASE, BASE + 4096);
    assert_int_equal(rule_apply_frame_pointer(&stack, &r), RULE_OUT_OF_COPY);
}

static enum rule_result evaluate(const Dwarf_Op *ops, size_t count, uint64_t *ret)
{
    struct registers r = at(BASE, 3);
    return rule_evaluate(ops, count, &r, 0x100, &stack, ret);
}

static void expressions_compute(void **state)
{
    (void)state;
    uint64_t value;
    /* As in linkage tables: sp + 8 + ((fp & 15) >= 3) * 8. */
    const Dwarf_Op plt[] = {
        {.atom = DW_OP_bregx, .number = REGISTER_SP, .number2 = 8},
        {.atom = DW_OP_bregx, .number = REGISTER_FP},
        {.atom = DW_OP_lit15},
        {.atom = DW_OP_and},
        {.atom = DW_OP_lit3},
        {.atom = DW_OP_ge},
        {.atom = DW_OP_lit3},
        {.atom = DW_OP_shl},
        {.atom = DW_OP_plus},
    };
    assert_int_equal(evaluate(plt, ARRAY_LEN(plt), &value), RULE_OK);
    assert_int_equal(value, BASE + 16);

    words[1] = 0xabcdef;
    const Dwarf_Op load[] = {{.atom = DW_OP_bregx, .number = REGISTER_SP, .number2 = 8},
                             {.atom = DW_OP_deref},
                             {.atom = DW_OP_call_frame_cfa},
                             {.atom = DW_OP_plus},
                             {.atom = DW_OP_stack_value}};
    assert_int_equal(evaluate(load, ARRAY_LEN(load), &value), RULE_OK);
    assert_int_equal(value, 0xabcdef + 0x100);

    const Dwarf_Op order[] = {{.atom = DW_OP_lit1}, {.atom = DW_OP_lit2}, {.atom = DW_OP_lit3},
                              {.atom = DW_OP_rot},  {.atom = DW_OP_swap}, {.atom = DW_OP_minus}};
    assert_int_equal(evaluate(order, ARRAY_LEN(order), &value), RULE_OK);
    assert_int_equal(value, 2 - 1);
}

static void expressions_without_end_or_sense_are_given_up(void **state)
{
    (void)state;
    uint64_t value;
    const Dwarf_Op loop[] = {{.atom = DW_OP_lit0, .offset = 0},
                             {.atom = DW_OP_drop, .offset = 1},
                             {.atom = DW_OP_skip, .offset = 2, .number = (uint64_t)-5}};
    assert_int_equal(evaluate(loop, ARRAY_LEN(loop), &value), RULE_BROKEN);
    const Dwarf_Op nothing[] = {{.atom = DW_OP_drop}};
    assert_int_equal(evaluate(nothing, 1, &value), RULE_BROKEN);
    assert_int_equal(evaluate(nothing, 0, &value), RULE_BROKEN);
    const Dwarf_Op unknown[] = {{.atom = DW_OP_lit0}, {.atom = DW_OP_form_tls_address}};
    assert_int_equal(evaluate(unknown, 2, &value), RULE_BROKEN);
    const Dwarf_Op far[] = {{.atom = DW_OP_const8u, .number = UINT64_MAX}, {.atom = DW_OP_deref}};
    assert_int_equal(evaluate(far, 2, &value), RULE_OUT_OF_COPY);
    const Dwarf_Op wide[] = {{.atom = DW_OP_lit0}, {.atom = DW_OP_deref_size, .number = 9}};
    assert_int_equal(evaluate(wide, 2, &value), RULE_BROKEN);
    const Dwarf_Op other[] = {{.atom = DW_OP_bregx, .number = 99}};
    assert_int_equal(evaluate(other, 1, &value), RULE_NEEDS_REGISTER);
    Dwarf_Op many[100];
    for (size_t i = 0; i < ARRAY_LEN(many); i++)
        many[i] = (Dwarf_Op){.atom = DW_OP_lit1};
    assert_int_equal(evaluate(many, ARRAY_LEN(many), &value), RULE_BROKEN);
}

static void a_sleeping_thread_says_where_it_stands(void **state)
{
    (void)state;
    struct registers r;
    assert_int_equal(
        registers_parse_blocked("230 0x1 0x0 0x7ff 0x0 0x5 0x6 0x7ffc10 0x7f5533\n", &r), 0);
    assert_int_equal(r.pc, 0x7f5533);
    assert_int_equal(r.value[REGISTER_SP], 0x7ffc10);
    assert_false(register_known(&r, REGISTER_FP));
    assert_int_equal(registers_parse_blocked("-1 0x7ffc20 0x7f5534\n", &r), 0);
    assert_int_equal(r.value[REGISTER_SP], 0x7ffc20);
    assert_int_equal(registers_parse_blocked("running\n", &r), -SCRY_E_TORN);
    assert_int_equal(registers_parse_blocked("", &r), -SCRY_E_TORN);
    assert_int_equal(registers_parse_blocked("0\n", &r), -SCRY_E_TORN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(caller_is_found_above_a_register),
        cmocka_unit_test(what_lies_beyond_the_copy_is_said_and_changes_nothing),
        cmocka_unit_test(a_register_that_is_not_known_is_asked_for),
        cmocka_unit_test(a_saved_register_out_of_reach_is_forgotten),
        cmocka_unit_test(a_return_address_of_zero_ends_the_stack),
        cmocka_unit_test(frame_pointers_lead_up_the_stack_only),
        cmocka_unit_test(expressions_compute),
        cmocka_unit_test(expressions_without_end_or_sense_are_given_up),
        cmocka_unit_test(a_sleeping_thread_says_where_it_stands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
