/* The variables of a frame. Their values stand in an array at the frame's end, in the order of the
 * names in the code object: arguments first, then other variables, then those shared with inner
 * functions and those of outer ones, which are boxed in cells. Up to 3.10 the three kinds have a
 * tuple of names each; since 3.11 there is one, and a byte per name for its kind. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpython/python.h"
#include "cpython/remote.h"

#define MAX_LOCALS     1024
#define MAX_NAME_CHARS 256
#define WORD           8
#define CO_VARARGS     0x04
#define CO_VARKEYWORDS 0x08
#define KIND_CELL      0x40
#define KIND_FREE      0x80
#define TAG_MASK       3
#define TAG_INT        3

/* One reading of one frame. */
struct scope {
    const struct py_view *v;
    size_t budget;
    uint32_t arguments; /* the first so many names */
    size_t count;
    struct {
        scry_addr name;
        uint64_t slot;
        bool boxed; /* may hold a cell */
    } variables[MAX_LOCALS];
};

static uint32_t argument_count(const struct py_code *code)
{
    return code->argcount + code->kwonly_count + !!(code->flags & CO_VARARGS) +
           !!(code->flags & CO_VARKEYWORDS);
}

static int add_names(struct scope *s, scry_addr tuple, bool boxed)
{
    size_t count;
    scry_addr names[MAX_LOCALS];
    if (!tuple)
        return 0;
    int rc = py_tuple_size(s->v, tuple, &count);
    if (rc != 0)
        return rc;
    if (count > MAX_LOCALS - s->count)
        count = MAX_LOCALS - s->count;
    rc = mem_read(s->v->mem, tuple + s->v->layout->tuple_item, names, count * sizeof(names[0]));
    for (size_t i = 0; rc == 0 && i < count; i++) {
        s->variables[s->count].name = names[i];
        s->variables[s->count++].boxed = boxed;
    }
    return rc;
}

static int names_up_to_310(struct scope *s, scry_addr code)
{
    const struct layout *l = s->v->layout;
    const int32_t tuples[] = {l->co_varnames, l->co_cellvars, l->co_freevars};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < ARRAY_LEN(tuples); i++) {
        scry_addr tuple;
        rc = mem_read_u64(s->v->mem, code + tuples[i], &tuple);
        if (rc == 0)
            rc = add_names(s, tuple, i > 0);
    }
    return rc;
}

static int names_since_311(struct scope *s, scry_addr code)
{
    const struct layout *l = s->v->layout;
    scry_addr names, kinds;
    unsigned char kind[MAX_LOCALS];
    int rc = mem_read_u64(s->v->mem, code + l->co_localsplusnames, &names);
    if (rc == 0)
        rc = mem_read_u64(s->v->mem, code + l->co_localspluskinds, &kinds);
    if (rc == 0)
        rc = add_names(s, names, false);
    if (rc == 0)
        rc = mem_read(s->v->mem, kinds + l->bytes_data, kind, s->count);
    for (size_t i = 0; rc == 0 && i < s->count; i++)
        s->variables[i].boxed = kind[i] & (KIND_CELL | KIND_FREE);
    return rc;
}

static int read_slots(struct scope *s, scry_addr frame)
{
    const struct layout *l = s->v->layout;
    uint64_t slots[MAX_LOCALS];
    int32_t at = l->fr_f_localsplus != LAYOUT_NONE ? l->fr_f_localsplus : l->if_localsplus;
    int rc = mem_read(s->v->mem, frame + at, slots, s->count * WORD);
    for (size_t i = 0; rc == 0 && i < s->count; i++)
        s->variables[i].slot = slots[i];
    return rc;
}

/* What a cell holds, 0 when it is empty. A boxed variable is not in its cell yet before the
 * function's first instructions have run. */
static scry_addr unbox(const struct py_view *v, scry_addr obj)
{
    char type[8];
    scry_addr content;
    if (py_type_name(v, obj, type, sizeof(type)) < 0 || strcmp(type, "cell") != 0)
        return obj;
    return mem_read_u64(v->mem, obj + v->layout->cell_ref, &content) != 0 ? 0 : content;
}

/* Up to 3.10 an argument that is shared with an inner function has its value in a cell of the same
 * name. */
static bool is_argument(const struct scope *s, size_t index)
{
    if (index < s->arguments)
        return true;
    for (size_t i = 0; s->variables[index].boxed && i < s->arguments && i < s->count; i++)
        if (s->variables[i].name == s->variables[index].name)
            return true;
    return false;
}

/* In 2.7 its first value stays where arguments are, too. */
static bool has_moved(const struct scope *s, size_t index)
{
    if (index >= s->arguments || s->variables[index].boxed)
        return false;
    for (size_t i = s->arguments; i < s->count; i++)
        if (s->variables[i].boxed && s->variables[i].name == s->variables[index].name)
            return true;
    return false;
}

static int append(struct py_locals *list, struct py_local local)
{
    if (list->count == list->cap) {
        size_t cap = list->cap ? list->cap * 2 : 16;
        struct py_local *items = realloc(list->items, cap * sizeof(*items));
        if (!items)
            return -SCRY_E_NO_MEMORY;
        list->items = items;
        list->cap = cap;
    }
    list->items[list->count++] = local;
    return 0;
}

/* The slot's object as text. Small ints may stand in the slot itself. */
static scry_addr write_value(const struct scope *s, uint64_t slot, bool boxed, struct buf *repr)
{
    if (s->v->layout->tagged_refs) {
        if ((slot & TAG_MASK) == TAG_INT) {
            buf_addf(repr, "%" PRId64, (int64_t)slot >> 2);
            return slot;
        }
        slot &= ~(uint64_t)TAG_MASK;
    }
    scry_addr obj = slot && boxed ? unbox(s->v, slot) : slot;
    if (obj)
        py_repr(s->v, obj, s->budget, repr);
    return obj;
}

/* One that is not set is passed over. */
static int add_local(const struct scope *s, size_t index, struct py_locals *list)
{
    if (has_moved(s, index))
        return 0;
    struct buf name, repr;
    buf_init(&name);
    buf_init(&repr);
    struct py_local local = {.is_arg = is_argument(s, index)};
    local.addr = write_value(s, s->variables[index].slot, s->variables[index].boxed, &repr);
    int rc = 0;
    if (local.addr) {
        if (py_str_read(s->v, s->variables[index].name, MAX_NAME_CHARS, &name) < 0)
            buf_add_char(&name, '?');
        local.name = buf_detach(&name);
        local.repr = buf_detach(&repr);
        rc = local.name && local.repr ? append(list, local) : -SCRY_E_NO_MEMORY;
        if (rc < 0) {
            free(local.name);
            free(local.repr);
        }
    }
    buf_done(&name);
    buf_done(&repr);
    return rc;
}

int python_locals(struct python *py, const struct py_frame *frame, size_t budget,
                  struct py_locals *ret_locals)
{
    struct scope *s = calloc(1, sizeof(*s));
    if (!s)
        return -SCRY_E_NO_MEMORY;
    s->v = &py->view;
    s->budget = budget;
    s->arguments = argument_count(frame->code);
    scry_addr code = frame->code->addr;
    int rc =
        py->layout.co_varnames != LAYOUT_NONE ? names_up_to_310(s, code) : names_since_311(s, code);
    if (rc == 0)
        rc = read_slots(s, frame->addr);
    struct py_locals list = {0};
    for (size_t i = 0; rc == 0 && i < s->count; i++)
        rc = add_local(s, i, &list);
    free(s);
    if (rc < 0) {
        py_locals_done(&list);
        return rc;
    }
    *ret_locals = list;
    return 0;
}

void py_locals_done(struct py_locals *locals)
{
    if (!locals)
        return;
    for (size_t i = 0; i < locals->count; i++) {
        free(locals->items[i].name);
        free(locals->items[i].repr);
    }
    free(locals->items);
    *locals = (struct py_locals){0};
}
