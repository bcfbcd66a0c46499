#include "dwarf/prologue.h"

#include <string.h>

#if defined(__x86_64__)

#define MAX_DEPTH (1 << 24)

enum machine_register { RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI };

static const uint8_t dwarf_number[16] = {0, 2, 1, 3, 7, 6, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15};

static bool callee_saves(unsigned reg)
{
    return reg == RBX || reg == RBP || (reg >= 12 && reg <= 15);
}

/* ---- one instruction ---- */

struct instruction {
    size_t len; /* 0: not one of those known here */
    uint8_t opcode;
    uint8_t map; /* 0: one byte; 1: after 0f, or coded as AVX */
    bool wide;   /* on 64 bits */
    bool narrow; /* on 16, or one of the SSE operations that use the same prefix */
    unsigned reg, rm;
    bool has_modrm, is_memory;
    bool on_stack, beside; /* its memory is at rsp + value, or that far from the code */
    int32_t value, immediate;
};

static int32_t number_at(const unsigned char *p, size_t size)
{
    int32_t value = 0;
    if (size == 1)
        return (int8_t)p[0];
    if (size == 4)
        memcpy(&value, p, 4);
    return value;
}

/* The operations known here that take operands, by their first byte; in 16 rows of 16 bits. */
static bool is_in(const uint16_t set[16], uint8_t opcode)
{
    return set[opcode >> 4] >> (opcode & 15) & 1;
}

/* By an address that lies beside the code, to the function proper: that one returns. */
static bool is_stub_jump(const struct instruction *i)
{
    return i->map == 0 && i->opcode == 0xff && (i->reg & 7) == 4 && i->beside;
}

/* Bytes of the immediate operand; -1 for an instruction that is not known here. */
static int immediate_size(const struct instruction *i)
{
    /* add, or, and, sub, xor, cmp, movslq, test, xchg, mov, lea, shifts by 1 and by cl */
    static const uint16_t plain[16] = {
        [0x0] = 0x0a0a, [0x2] = 0x0a0a, [0x3] = 0x0a0a,
        [0x6] = 0x0008, [0x8] = 0x2aa0, [0xd] = 0x000a,
    };
    /* after 0f: what has an immediate byte, and what is no operation on two operands */
    static const uint16_t small[16] = {
        [0x7] = 0x000f, [0xa] = 0x1010, [0xb] = 0x0400, [0xc] = 0x0074};
    static const uint16_t odd[16] = {
        [0x0] = 0xffff, [0x3] = 0xffff, [0xa] = 0x0707, [0xc] = 0xff00};
    uint8_t op = i->opcode;
    if (i->map == 1)
        return is_in(odd, op) ? -1 : is_in(small, op);
    if (is_in(plain, op))
        return 0;
    bool first_two = (i->reg & 7) < 2;
    switch (op) {
    case 0x83: /* arithmetic with a small number */
    case 0x6b: /* multiplication with one */
    case 0xc1: /* shifts */
        return 1;
    case 0x81:
    case 0x69:
    case 0xc7:
        return i->narrow ? -1 : 4;
    case 0xf7: /* test has one, not, neg, mul, div have none */
        return !first_two ? 0 : i->narrow ? -1 : 4;
    case 0xff: /* inc and dec, and the jump of a stub; not calls, other jumps and push */
        return first_two || is_stub_jump(i) ? 0 : -1;
    default:
        return -1;
    }
}

static bool has_no_operand_byte(const struct instruction *i)
{
    uint8_t op = i->opcode;
    if (i->map == 1)
        return op == 0x77 || (op >= 0x80 && op <= 0x8f); /* emms, vzeroupper; jcc */
    return (op >= 0x50 && op <= 0x5f) || (op >= 0x70 && op <= 0x7f) || op == 0x90 || op == 0xc3;
}

/* The byte that names the operands, and what belongs to it. Returns its length, 0 if cut off. */
static size_t read_operands(struct instruction *i, const unsigned char *p, size_t len, uint8_t rex)
{
    if (len < 1)
        return 0;
    uint8_t mod = p[0] >> 6;
    unsigned rm = p[0] & 7;
    size_t used = 1, size = mod == 1 ? 1 : mod == 2 ? 4 : 0;
    i->has_modrm = true;
    i->is_memory = mod != 3;
    i->reg = (p[0] >> 3 & 7) | (rex & 4 ? 8 : 0);
    i->rm = rm | (rex & 1 ? 8 : 0);
    if (i->is_memory && rm == 4) {
        if (len < 2)
            return 0;
        i->on_stack = p[1] == 0x24 && !(rex & 1);
        if (mod == 0 && (p[1] & 7) == 5)
            size = 4;
        used++;
    } else if (mod == 0 && rm == 5) {
        i->beside = true;
        size = 4;
    }
    if (len < used + size)
        return 0;
    i->value = size ? number_at(p + used, size) : 0;
    return used + size;
}

/* Prefixes, and the first byte of the operation. Returns how many bytes, 0 if it is not known. */
static size_t read_opcode(struct instruction *i, const unsigned char *p, size_t len,
                          uint8_t *ret_rex)
{
    size_t at = 0;
    *ret_rex = 0;
    for (; at < len && (p[at] == 0x66 || p[at] == 0xf2 || p[at] == 0xf3 || p[at] == 0x2e); at++)
        i->narrow |= p[at] == 0x66;
    if (at + 3 < len && p[at] == 0xc5) { /* AVX, the short form */
        *ret_rex = p[at + 1] & 0x80 ? 0 : 4;
        i->map = 1;
        i->opcode = p[at + 2];
        return at + 3;
    }
    if (at < len && (p[at] & 0xf0) == 0x40)
        *ret_rex = p[at++];
    if (at < len && p[at] == 0x0f) {
        i->map = 1;
        at++;
    }
    if (at >= len)
        return 0;
    i->wide = *ret_rex & 8;
    i->opcode = p[at];
    return at + 1;
}

static struct instruction decode(const unsigned char *p, size_t len)
{
    static const struct instruction unknown = {0};
    struct instruction i = {0};
    uint8_t rex;
    if (len >= 3 && p[0] == 0xc5 && p[2] == 0x77) /* vzeroupper */
        return (struct instruction){.len = 3, .map = 1, .opcode = 0x77};
    size_t at = read_opcode(&i, p, len, &rex);
    if (!at || (i.map == 1 &&
                (i.opcode == 0x05 || i.opcode == 0x0b || i.opcode == 0x38 || i.opcode == 0x3a)))
        return unknown;
    if (has_no_operand_byte(&i)) {
        size_t jump = i.map == 1 ? (i.opcode == 0x77 ? 0 : 4) : i.opcode >> 4 == 7 ? 1 : 0;
        i.reg = (i.opcode & 7) | (rex & 1 ? 8 : 0);
        i.len = at + jump <= len ? at + jump : 0;
        return i;
    }
    size_t used = read_operands(&i, p + at, len - at, rex);
    int size = immediate_size(&i);
    if (!used || size < 0 || at + used + (size_t)size > len)
        return unknown;
    i.immediate = number_at(p + at + used, (size_t)size);
    i.len = at + used + (size_t)size;
    return i;
}

static bool is_one_byte(const struct instruction *i, uint8_t opcode)
{
    return i->map == 0 && i->opcode == opcode;
}

static bool is_jump(const struct instruction *i)
{
    return i->map == 1 ? i->opcode >= 0x80 && i->opcode <= 0x8f : i->opcode >> 4 == 7;
}

static bool is_push(const struct instruction *i)
{
    return i->map == 0 && i->opcode >= 0x50 && i->opcode <= 0x57;
}

static bool is_pop(const struct instruction *i)
{
    return i->map == 0 && i->opcode >= 0x58 && i->opcode <= 0x5f;
}

/* An operation on rsp with a number: `which` as it is coded, 0 add, 4 and, 5 sub. */
static bool changes_sp(const struct instruction *i, unsigned which)
{
    return (is_one_byte(i, 0x83) || is_one_byte(i, 0x81)) && i->wide && !i->is_memory &&
           i->rm == RSP && (i->reg & 7) == which;
}

/* Writes rsp in a way that none of the functions above names. */
static bool moves_sp_otherwise(const struct instruction *i)
{
    if (!i->has_modrm || i->map == 1)
        return false;
    switch (i->opcode) {
    case 0x8b: /* these name what they write in `reg`, */
    case 0x8d:
    case 0x03:
    case 0x23:
    case 0x2b:
    case 0x63:
        return i->reg == RSP;
    case 0x85: /* compares */
    case 0x39:
    case 0x3b:
        return false;
    default: /* the others in `rm` */
        return !i->is_memory && i->rm == RSP;
    }
}

/* ---- the function ---- */

/* Where things are, relative to the CFA. */
struct frame_shape {
    int64_t depth; /* rsp plus this is the CFA, unless rsp was aligned */
    bool aligned;
    unsigned kept; /* a register that rsp was copied to, 16: none */
    int64_t kept_depth;
};

static void add_saved(struct rule *rule, unsigned reg, int64_t at)
{
    if (!callee_saves(reg) || rule->saved_count == RULE_SAVED_MAX || at > MAX_DEPTH ||
        at < -MAX_DEPTH)
        return;
    for (unsigned i = 0; i < rule->saved_count; i++)
        if (rule->saved[i] == dwarf_number[reg])
            return;
    rule->saved[rule->saved_count] = dwarf_number[reg];
    rule->saved_at[rule->saved_count++] = (int32_t)at;
}

static void start_rule(struct rule *rule)
{
    *rule = (struct rule){.kind = RULE_SIMPLE, .saved_count = 1};
    rule->saved[0] = REGISTER_RA;
    rule->saved_at[0] = -8;
}

/* One instruction of the beginning; false when that is over. */
static bool enters(const struct instruction *i, struct frame_shape *f, struct rule *rule)
{
    if (is_push(i)) {
        f->depth += 8;
        add_saved(rule, i->reg, -f->depth);
    } else if (changes_sp(i, 5)) {
        f->depth += i->immediate;
    } else if (changes_sp(i, 4)) {
        f->aligned = true;
    } else if (is_one_byte(i, 0x89) && i->wide && !i->is_memory && i->reg == RSP) {
        if (callee_saves(i->rm)) {
            f->kept = i->rm;
            f->kept_depth = f->depth;
        }
    } else if (is_one_byte(i, 0x89) && i->wide && i->on_stack && !f->aligned &&
               i->value < f->depth - 8) {
        add_saved(rule, i->reg, i->value - f->depth);
    } else if (is_pop(i) || is_one_byte(i, 0xc3) || is_stub_jump(i) || moves_sp_otherwise(i)) {
        return false;
    }
    return f->depth > 0 && f->depth < MAX_DEPTH;
}

/* By what the function did since it began. */
static bool rule_from_start(struct code_bytes code, struct rule *ret)
{
    struct frame_shape f = {.depth = 8, .kept = 16};
    start_rule(ret);
    for (size_t at = 0; at < code.len;) {
        struct instruction i = decode(code.data + at, code.len - at);
        if (!i.len || !enters(&i, &f, ret))
            break;
        at += i.len;
    }
    if (f.depth <= 0 || f.depth >= MAX_DEPTH || (f.aligned && f.kept == 16))
        return false;
    bool by_kept = f.aligned || f.kept == RBP;
    ret->base = by_kept ? dwarf_number[f.kept] : REGISTER_SP;
    ret->offset = (int32_t)(by_kept ? f.kept_depth : f.depth);
    return true;
}

/* By what it still does before it returns, if it is on the straight way there. */
static bool rule_to_end(struct code_bytes code, struct rule *ret)
{
    int64_t depth = 0;
    start_rule(ret);
    for (size_t at = 0; at < code.len;) {
        struct instruction i = decode(code.data + at, code.len - at);
        if (!i.len || is_jump(&i) || is_push(&i))
            return false;
        if (is_one_byte(&i, 0xc3) || is_stub_jump(&i))
            break;
        if (is_pop(&i)) {
            add_saved(ret, i.reg, depth);
            depth += 8;
        } else if (changes_sp(&i, 0)) {
            depth += i.immediate;
        } else if (is_one_byte(&i, 0x8b) && i.wide && i.on_stack) {
            add_saved(ret, i.reg, depth + i.value);
        } else if (changes_sp(&i, 5) || changes_sp(&i, 4) || moves_sp_otherwise(&i)) {
            return false;
        }
        at += i.len;
        if (depth < 0 || depth >= MAX_DEPTH || at >= code.len)
            return false;
    }
    if (!code.len)
        return false;
    for (unsigned i = 1; i < ret->saved_count; i++)
        ret->saved_at[i] -= (int32_t)depth + 8;
    ret->base = REGISTER_SP;
    ret->offset = (int32_t)depth + 8;
    return true;
}

bool prologue_rule(struct code_bytes before, struct code_bytes next, struct rule *ret)
{
    return rule_to_end(next, ret) || (before.data && rule_from_start(before, ret));
}

#else

bool prologue_rule(struct code_bytes before, struct code_bytes next, struct rule *ret)
{
    (void)before;
    (void)next;
    (void)ret;
    return false;
}

#endif
