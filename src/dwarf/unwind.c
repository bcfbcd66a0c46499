#include "dwarf/unwind.h"

#include <stdlib.h>

#include "dwarf/inlines.h"
#include "dwarf/prologue.h"
#include "dwarf/symbols.h"

#define MAX_RULES (1u << 20)

void unwinder_init(struct unwinder *u, struct modules *modules)
{
    *u = (struct unwinder){.modules = modules};
    table_init(&u->by_addr);
}

static void forget_rules(struct unwinder *u)
{
    for (size_t i = 0; i < u->count; i++)
        rule_done(&u->rules[i]);
    u->count = 0;
    table_reset(&u->by_addr);
}

void unwinder_done(struct unwinder *u)
{
    forget_rules(u);
    free(u->rules);
    table_done(&u->by_addr);
    *u = (struct unwinder){0};
}

void unwound_done(struct unwound *u)
{
    free(u->frames);
    *u = (struct unwound){0};
}

/* ---- rules ---- */

static Dwarf_Frame *look_up(Dwarf_CFI *cfi, uint64_t addr)
{
    Dwarf_Frame *frame = NULL;
    return cfi && dwarf_cfi_addrframe(cfi, addr, &frame) == 0 ? frame : NULL;
}

/* For code without tables. `exact`: addr is an instruction, not the last byte of a call. Code without
 * symbols, too: stubs, some of them made at run time, lead straight to their end. */
static void guess_rule(struct unwinder *u, const struct module *module, scry_addr addr, bool exact,
                       struct rule *ret)
{
    unsigned char before[PROLOGUE_BYTES], next[PROLOGUE_BYTES];
    struct mem *mem = u->modules->mem;
    const struct symbol *function = symbol_at(u->modules, module, addr);
    struct code_bytes code = {0}, rest = {0};
    if (function) {
        scry_addr start = function->addr + module->bias;
        size_t past = (size_t)(addr - start);
        code = (struct code_bytes){before, past < sizeof(before) ? past : sizeof(before)};
        if (mem_read(mem, start, before, code.len) < 0)
            return;
    }
    if (exact) {
        size_t ahead = (size_t)(module->end - addr);
        rest = (struct code_bytes){next, ahead < sizeof(next) ? ahead : sizeof(next)};
        if (mem_read(mem, addr, next, rest.len) < 0)
            return;
    }
    struct rule rule;
    if (prologue_rule(code, rest, &rule))
        *ret = rule;
}

static Dwarf_Frame *find_frame(struct unwinder *u, const struct module *module, scry_addr addr)
{
    if (!module->has_bias)
        return NULL;
    struct binary *b = module->binary;
    Dwarf_Frame *frame = look_up(b->eh_frame, addr - module->bias);
    if (!frame && !b->debug)
        b->debug = debug_info_new(u->modules, b);
    if (!frame && b->debug)
        frame = look_up(debug_info_cfi(b->debug), addr - module->bias);
    return frame;
}

static void make_rule(struct unwinder *u, scry_addr addr, bool exact, struct rule *ret)
{
    *ret = (struct rule){.kind = RULE_NONE};
    const struct module *module = modules_find(u->modules, addr);
    Dwarf_Frame *frame = module ? find_frame(u, module, addr) : NULL;
    if (frame)
        rule_compile(frame, ret);
    else if (module)
        guess_rule(u, module, addr, exact, ret);
}

/* Of a frame that stands at `pc`, or behind the call that ends there. */
static const struct rule *rule_for(struct unwinder *u, scry_addr pc, bool exact)
{
    uint64_t index;
    scry_addr addr = pc - !exact;
    if (table_get(&u->by_addr, addr, &index))
        return &u->rules[index];
    if (u->count >= MAX_RULES)
        forget_rules(u);
    if (u->count == u->cap) {
        size_t cap = u->cap ? u->cap * 2 : 256;
        struct rule *grown = realloc(u->rules, cap * sizeof(*grown));
        if (!grown)
            return NULL;
        u->rules = grown;
        u->cap = cap;
    }
    make_rule(u, addr, exact, &u->rules[u->count]);
    if (!table_put(&u->by_addr, addr, u->count)) {
        rule_done(&u->rules[u->count]);
        return NULL;
    }
    return &u->rules[u->count++];
}

/* ---- the walk ---- */

static struct native_frame *add_frame(struct unwound *u)
{
    if (u->count == u->cap) {
        size_t cap = u->cap ? u->cap * 2 : 64;
        struct native_frame *grown = realloc(u->frames, cap * sizeof(*grown));
        if (!grown)
            return NULL;
        u->frames = grown;
        u->cap = cap;
    }
    return &u->frames[u->count++];
}

static enum unwind_end end_of(enum rule_result result)
{
    switch (result) {
    case RULE_OUTERMOST:
        return UNWIND_COMPLETE;
    case RULE_OUT_OF_COPY:
        return UNWIND_OUT_OF_COPY;
    case RULE_NEEDS_REGISTER:
        return UNWIND_NEEDS_REGISTER;
    default:
        return UNWIND_LOST;
    }
}

/* One frame further out. Each frame must lie above the one it called, and return into code. */
static enum rule_result step(struct unwinder *u, const struct rule *rule, bool leaf,
                             const struct stack_copy *stack, struct registers *r)
{
    struct registers caller = *r;
    enum rule_result result = rule->kind == RULE_NONE ? rule_apply_frame_pointer(stack, &caller)
                                                      : rule_apply(rule, stack, &caller);
    if (result != RULE_OK)
        return result;
    scry_addr below = r->value[REGISTER_SP], above = caller.value[REGISTER_SP];
    /* A function that has called nobody may not have used the stack; a signal may be handled on
     * another one. */
    bool goes_up = above > below || (leaf && above == below) || rule->signal;
    if (!goes_up || !modules_find(u->modules, caller.pc - !rule->signal))
        return RULE_BROKEN;
    *r = caller;
    return RULE_OK;
}

int unwinder_run(struct unwinder *u, const struct registers *start, const struct stack_copy *stack,
                 struct unwound *ret)
{
    struct registers r = *start;
    bool exact = true;
    ret->count = 0;
    ret->end = UNWIND_LOST;
    if (u->generation != u->modules->generation) {
        forget_rules(u);
        u->generation = u->modules->generation;
    }
    while (ret->count < UNWIND_MAX) {
        struct native_frame *frame = add_frame(ret);
        const struct rule *rule = rule_for(u, r.pc, exact);
        if (!frame || !rule)
            return -SCRY_E_NO_MEMORY;
        *frame = (struct native_frame){
            .pc = r.pc, .sp = r.value[REGISTER_SP], .end = UINT64_MAX, .exact = exact};
        enum rule_result result = step(u, rule, ret->count == 1, stack, &r);
        if (result != RULE_OK) {
            ret->end = end_of(result);
            return 0;
        }
        frame->end = r.value[REGISTER_SP];
        exact = rule->signal;
    }
    return 0;
}
