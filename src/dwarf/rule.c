#include "dwarf/rule.h"

#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

#define STACK_MAX 64
#define STEPS_MAX 512

bool stack_copy_u64(const struct stack_copy *stack, scry_addr addr, uint64_t *ret_value)
{
    if (addr < stack->start || stack->len < 8 || addr - stack->start > stack->len - 8)
        return false;
    memcpy(ret_value, stack->data + (addr - stack->start), sizeof(*ret_value));
    return true;
}

/* ---- expressions ---- */

struct machine {
    const struct registers *registers;
    const struct stack_copy *memory;
    scry_addr cfa;
    uint64_t stack[STACK_MAX];
    size_t depth;
    enum rule_result result;
};

static void push(struct machine *m, uint64_t value)
{
    if (m->depth == STACK_MAX)
        m->result = RULE_BROKEN;
    else
        m->stack[m->depth++] = value;
}

static uint64_t pop(struct machine *m)
{
    if (!m->depth) {
        m->result = RULE_BROKEN;
        return 0;
    }
    return m->stack[--m->depth];
}

static uint64_t pick(struct machine *m, uint64_t index)
{
    if (index >= m->depth) {
        m->result = RULE_BROKEN;
        return 0;
    }
    return m->stack[m->depth - 1 - index];
}

static uint64_t value_of(struct machine *m, uint64_t number)
{
    if (number >= REGISTER_COUNT || !register_known(m->registers, (unsigned)number)) {
        m->result = RULE_NEEDS_REGISTER;
        return 0;
    }
    return m->registers->value[number];
}

static uint64_t load(struct machine *m, uint64_t addr, uint64_t size)
{
    uint64_t value = 0;
    const struct stack_copy *s = m->memory;
    if (!size || size > 8) {
        m->result = RULE_BROKEN;
        return 0;
    }
    if (addr < s->start || s->len < size || addr - s->start > s->len - size) {
        m->result = RULE_OUT_OF_COPY;
        return 0;
    }
    memcpy(&value, s->data + (addr - s->start), size);
    return value;
}

static uint64_t arithmetic_right(uint64_t value, uint64_t by)
{
    uint64_t sign = value >> 63 ? ~0ULL : 0;
    if (by >= 64)
        return sign;
    return by ? value >> by | (sign << (64 - by)) : value;
}

static void two_operands(struct machine *m, uint8_t atom)
{
    uint64_t b = pop(m), a = pop(m);
    switch (atom) {
    case DW_OP_and:
        push(m, a & b);
        break;
    case DW_OP_or:
        push(m, a | b);
        break;
    case DW_OP_xor:
        push(m, a ^ b);
        break;
    case DW_OP_plus:
        push(m, a + b);
        break;
    case DW_OP_minus:
        push(m, a - b);
        break;
    case DW_OP_mul:
        push(m, a * b);
        break;
    case DW_OP_shl:
        push(m, b < 64 ? a << b : 0);
        break;
    case DW_OP_shr:
        push(m, b < 64 ? a >> b : 0);
        break;
    case DW_OP_shra:
        push(m, arithmetic_right(a, b));
        break;
    case DW_OP_eq:
        push(m, a == b);
        break;
    case DW_OP_ne:
        push(m, a != b);
        break;
    case DW_OP_lt:
        push(m, (int64_t)a < (int64_t)b);
        break;
    case DW_OP_le:
        push(m, (int64_t)a <= (int64_t)b);
        break;
    case DW_OP_gt:
        push(m, (int64_t)a > (int64_t)b);
        break;
    case DW_OP_ge:
        push(m, (int64_t)a >= (int64_t)b);
        break;
    default:
        m->result = RULE_BROKEN;
    }
}

static void move_operands(struct machine *m, const Dwarf_Op *op)
{
    uint64_t a, b, c;
    switch (op->atom) {
    case DW_OP_dup:
        push(m, pick(m, 0));
        break;
    case DW_OP_over:
        push(m, pick(m, 1));
        break;
    case DW_OP_pick:
        push(m, pick(m, op->number));
        break;
    case DW_OP_drop:
        pop(m);
        break;
    case DW_OP_swap:
        a = pop(m);
        b = pop(m);
        push(m, a);
        push(m, b);
        break;
    case DW_OP_rot:
        a = pop(m);
        b = pop(m);
        c = pop(m);
        push(m, a);
        push(m, c);
        push(m, b);
        break;
    default:
        two_operands(m, op->atom);
    }
}

static void execute(struct machine *m, const Dwarf_Op *op)
{
    uint8_t atom = op->atom;
    if (atom >= DW_OP_lit0 && atom <= DW_OP_lit31)
        push(m, atom - DW_OP_lit0);
    else if (atom >= DW_OP_breg0 && atom <= DW_OP_breg31)
        push(m, value_of(m, atom - DW_OP_breg0) + op->number);
    else if (atom >= DW_OP_reg0 && atom <= DW_OP_reg31)
        push(m, value_of(m, atom - DW_OP_reg0));
    else
        switch (atom) {
        case DW_OP_nop:
            break;
        case DW_OP_bregx:
            push(m, value_of(m, op->number) + op->number2);
            break;
        case DW_OP_regx:
            push(m, value_of(m, op->number));
            break;
        case DW_OP_addr:
        case DW_OP_const1u:
        case DW_OP_const1s:
        case DW_OP_const2u:
        case DW_OP_const2s:
        case DW_OP_const4u:
        case DW_OP_const4s:
        case DW_OP_const8u:
        case DW_OP_const8s:
        case DW_OP_constu:
        case DW_OP_consts:
            push(m, op->number);
            break;
        case DW_OP_call_frame_cfa:
            push(m, m->cfa);
            break;
        case DW_OP_plus_uconst:
            push(m, pop(m) + op->number);
            break;
        case DW_OP_deref:
            push(m, load(m, pop(m), 8));
            break;
        case DW_OP_deref_size:
            push(m, load(m, pop(m), op->number));
            break;
        case DW_OP_not:
            push(m, ~pop(m));
            break;
        case DW_OP_neg:
            push(m, 0 - pop(m));
            break;
        default:
            move_operands(m, op);
        }
}

/* The operation at this distance in bytes from the start of the expression. */
static size_t operation_at(const Dwarf_Op *ops, size_t count, uint64_t offset)
{
    for (size_t i = 0; i < count; i++)
        if (ops[i].offset == offset)
            return i;
    return count;
}

enum rule_result rule_evaluate(const Dwarf_Op *ops, size_t count, const struct registers *r,
                               scry_addr cfa, const struct stack_copy *stack, uint64_t *ret_value)
{
    struct machine m = {.registers = r, .memory = stack, .cfa = cfa, .result = RULE_OK};
    int steps = 0;
    for (size_t i = 0; i < count && m.result == RULE_OK; i++) {
        const Dwarf_Op *op = &ops[i];
        if (++steps > STEPS_MAX)
            return RULE_BROKEN;
        if (op->atom == DW_OP_stack_value)
            break;
        if (op->atom != DW_OP_skip && op->atom != DW_OP_bra)
            execute(&m, op);
        else if (op->atom == DW_OP_skip || pop(&m))
            i = operation_at(ops, count, op->offset + 3 + op->number) - 1;
    }
    uint64_t value = pop(&m);
    if (m.result == RULE_OK)
        *ret_value = value;
    return m.result;
}

/* ---- compiling ---- */

static bool base_of(const Dwarf_Op *op, uint64_t *ret_register, int64_t *ret_offset)
{
    if (op->atom == DW_OP_bregx) {
        *ret_register = op->number;
        *ret_offset = (int64_t)op->number2;
        return true;
    }
    if (op->atom < DW_OP_breg0 || op->atom > DW_OP_breg31)
        return false;
    *ret_register = (uint64_t)(op->atom - DW_OP_breg0);
    *ret_offset = (int64_t)op->number;
    return true;
}

static bool fits(int64_t offset)
{
    return offset > INT32_MIN && offset < INT32_MAX;
}

/* CFA, or CFA plus a number. */
static bool from_cfa(const Dwarf_Op *ops, size_t count, int64_t *ret_offset)
{
    if (!count || ops[0].atom != DW_OP_call_frame_cfa || count > 2 ||
        (count == 2 && ops[1].atom != DW_OP_plus_uconst))
        return false;
    *ret_offset = count == 2 ? (int64_t)ops[1].number : 0;
    return fits(*ret_offset);
}

static bool compile_register(Dwarf_Frame *frame, unsigned number, struct rule *rule)
{
    Dwarf_Op memory[3];
    Dwarf_Op *ops = memory;
    size_t count;
    int64_t offset;
    if (dwarf_frame_register(frame, (int)number, memory, &ops, &count) != 0)
        return false;
    if (!count) {
        if (ops) /* "undefined"; NULL would be "as it was" */
            rule->lost |= 1ULL << number;
        return true;
    }
    if (number == REGISTER_SP && count == 2 && ops[0].atom == DW_OP_call_frame_cfa &&
        ops[1].atom == DW_OP_stack_value)
        return true; /* as it is anyway */
    if (!from_cfa(ops, count, &offset) || rule->saved_count == RULE_SAVED_MAX)
        return false;
    rule->saved[rule->saved_count] = (uint8_t)number;
    rule->saved_at[rule->saved_count++] = (int32_t)offset;
    return true;
}

/* libdw takes the stack pointer to be lost where the tables do not speak of it. */
static bool compile_simple(Dwarf_Frame *frame, struct rule *rule)
{
    Dwarf_Op *ops;
    size_t count;
    uint64_t base;
    int64_t offset;
    if (dwarf_frame_cfa(frame, &ops, &count) != 0 || count != 1 || !base_of(ops, &base, &offset) ||
        base >= REGISTER_COUNT || !fits(offset))
        return false;
    rule->base = (uint8_t)base;
    rule->offset = (int32_t)offset;
    for (unsigned i = 0; i < REGISTER_COUNT; i++)
        if (!compile_register(frame, i, rule))
            return false;
    rule->lost &= ~(1ULL << REGISTER_SP);
    return true;
}

static bool has_no_caller(Dwarf_Frame *frame)
{
    Dwarf_Op memory[3];
    Dwarf_Op *ops = memory;
    size_t count;
    return dwarf_frame_register(frame, REGISTER_RA, memory, &ops, &count) == 0 && !count && ops;
}

void rule_compile(Dwarf_Frame *frame, struct rule *ret)
{
    bool signal = false;
    *ret = (struct rule){.kind = RULE_SIMPLE};
    dwarf_frame_info(frame, NULL, NULL, &signal);
    if (has_no_caller(frame)) {
        *ret = (struct rule){.kind = RULE_END};
        free(frame);
        return;
    }
    if (compile_simple(frame, ret))
        free(frame);
    else
        *ret = (struct rule){.kind = RULE_SLOW, .frame = frame};
    ret->signal = signal;
}

void rule_done(struct rule *rule)
{
    free(rule->frame);
    *rule = (struct rule){0};
}

/* ---- applying ---- */

static enum rule_result apply_simple(const struct rule *rule, const struct stack_copy *stack,
                                     struct registers *r)
{
    if (!register_known(r, rule->base))
        return RULE_NEEDS_REGISTER;
    scry_addr cfa = r->value[rule->base] + (scry_addr)(int64_t)rule->offset;
    r->known &= ~rule->lost;
    for (unsigned i = 0; i < rule->saved_count; i++) {
        uint64_t value;
        if (stack_copy_u64(stack, cfa + (scry_addr)(int64_t)rule->saved_at[i], &value))
            register_set(r, rule->saved[i], value);
        else if (rule->saved[i] == REGISTER_RA)
            return RULE_OUT_OF_COPY;
        else
            register_forget(r, rule->saved[i]); /* matters only to who asks for it */
    }
    register_set(r, REGISTER_SP, cfa);
    return RULE_OK;
}

/* One register by its expression: the place where it was saved, or the value itself. */
static enum rule_result recover(Dwarf_Frame *frame, unsigned number, const struct registers *before,
                                scry_addr cfa, const struct stack_copy *stack,
                                struct registers *after)
{
    Dwarf_Op memory[3];
    Dwarf_Op *ops = memory;
    size_t count;
    uint64_t value;
    if (dwarf_frame_register(frame, (int)number, memory, &ops, &count) != 0)
        return RULE_BROKEN;
    if (!count) {
        if (ops)
            register_forget(after, number);
        return RULE_OK;
    }
    enum rule_result result = rule_evaluate(ops, count, before, cfa, stack, &value);
    uint8_t last = ops[count - 1].atom;
    bool is_value = last == DW_OP_stack_value || last == DW_OP_regx ||
                    (last >= DW_OP_reg0 && last <= DW_OP_reg31);
    if (result == RULE_OK && !is_value && !stack_copy_u64(stack, value, &value))
        result = RULE_OUT_OF_COPY;
    if (result == RULE_OK)
        register_set(after, number, value);
    return result;
}

static enum rule_result apply_slow(const struct rule *rule, const struct stack_copy *stack,
                                   struct registers *r)
{
    Dwarf_Op *ops;
    size_t count;
    scry_addr cfa;
    struct registers after = *r;
#if defined(__x86_64__)
    register_set(r, REGISTER_RA, r->pc); /* in expressions it is the instruction pointer */
#endif
    if (dwarf_frame_cfa(rule->frame, &ops, &count) != 0 || !count)
        return RULE_BROKEN;
    enum rule_result result = rule_evaluate(ops, count, r, 0, stack, &cfa);
    if (result != RULE_OK)
        return result;
    register_set(&after, REGISTER_SP, cfa);
    for (unsigned i = 0; i < REGISTER_COUNT; i++) {
        bool known_sp = i == REGISTER_SP;
        result = recover(rule->frame, i, r, cfa, stack, &after);
        if (known_sp && !register_known(&after, i))
            register_set(&after, i, cfa);
        /* A register that cannot be had matters only to who asks for it. */
        if (result != RULE_OK && (i == REGISTER_RA || known_sp))
            return result;
        if (result != RULE_OK)
            register_forget(&after, i);
    }
    *r = after;
    return RULE_OK;
}

/* Pointers may carry a signature in the bits that addresses do not use. */
static scry_addr code_address(uint64_t value)
{
#if defined(__aarch64__)
    return value & ((1ULL << 48) - 1);
#else
    return value;
#endif
}

static enum rule_result finish(struct registers *r)
{
    if (!register_known(r, REGISTER_RA))
        return RULE_NEEDS_REGISTER;
    r->pc = code_address(r->value[REGISTER_RA]);
    return r->pc ? RULE_OK : RULE_OUTERMOST;
}

enum rule_result rule_apply(const struct rule *rule, const struct stack_copy *stack,
                            struct registers *r)
{
    struct registers caller = *r;
    enum rule_result result = RULE_BROKEN;
    if (rule->kind == RULE_END)
        return RULE_OUTERMOST;
#if defined(__x86_64__)
    register_forget(&caller, REGISTER_RA); /* no register that could still hold the last one */
#endif
    if (rule->kind == RULE_SIMPLE)
        result = apply_simple(rule, stack, &caller);
    else if (rule->kind == RULE_SLOW)
        result = apply_slow(rule, stack, &caller);
    if (result == RULE_OK)
        result = finish(&caller);
    if (result == RULE_OK)
        *r = caller;
    return result;
}

enum rule_result rule_apply_frame_pointer(const struct stack_copy *stack, struct registers *r)
{
    uint64_t fp, ra;
    if (!register_known(r, REGISTER_FP) || !register_known(r, REGISTER_SP))
        return RULE_NEEDS_REGISTER;
    scry_addr at = r->value[REGISTER_FP];
    if (at < r->value[REGISTER_SP] || at & 7)
        return RULE_BROKEN;
    if (!stack_copy_u64(stack, at, &fp) || !stack_copy_u64(stack, at + 8, &ra))
        return RULE_OUT_OF_COPY;
    if (!code_address(ra))
        return RULE_OUTERMOST;
    struct registers caller = {.pc = code_address(ra)};
    register_set(&caller, REGISTER_FP, fp);
    register_set(&caller, REGISTER_SP, at + 16);
    register_set(&caller, REGISTER_RA, ra);
    *r = caller;
    return RULE_OK;
}
