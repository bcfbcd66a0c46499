/* The variables of a frame, on every layout. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "cpython/python.h"
#include "fake_python.h"

#define CELL  0x40
#define FREE  0x80
#define LOCAL 0x20

/* def f(a, *, b, *args, **kwargs): local; cell shared with an inner function; free of an outer one
 */
struct variable {
    const char *name;
    unsigned char kind;
    uint64_t slot;
};

static struct py_code code;

/* Writes code object and frame; the frame's address comes back. Order: locals, cells, free. */
static scry_addr fake_frame(struct fake *f, const struct variable *variables, size_t count)
{
    const struct layout *l = f->l;
    bool since_311 = l->co_localsplusnames != LAYOUT_NONE;
    scry_addr all[16], names[3][16];
    unsigned char kinds[16];
    size_t counts[3] = {0};
    code = (struct py_code){.addr = fake_zeros(f, FAKE_OBJECT)};
    scry_addr frame = fake_zeros(f, FAKE_OBJECT);
    for (size_t i = 0; i < count; i++) {
        int group = variables[i].kind & FREE ? 2 : variables[i].kind & CELL ? 1 : 0;
        all[i] = names[group][counts[group]++] = fake_str(f, variables[i].name);
        kinds[i] = variables[i].kind;
        int32_t at = since_311 ? l->if_localsplus : l->fr_f_localsplus;
        fake_u64(f, frame + (uint64_t)at + i * 8, variables[i].slot);
    }
    if (since_311) {
        scry_addr bytes = fake_instance_of(f, "bytes", 1UL << 27);
        fake_u64(f, bytes + l->var_size, count);
        mem_fake_add(f->mem, bytes + l->bytes_data, kinds, count);
        fake_u64(f, code.addr + l->co_localsplusnames, fake_tuple(f, all, count));
        fake_u64(f, code.addr + l->co_localspluskinds, bytes);
    } else {
        fake_u64(f, code.addr + l->co_varnames, fake_tuple(f, names[0], counts[0]));
        fake_u64(f, code.addr + l->co_cellvars, fake_tuple(f, names[1], counts[1]));
        fake_u64(f, code.addr + l->co_freevars, fake_tuple(f, names[2], counts[2]));
    }
    return frame;
}

static scry_addr fake_cell(struct fake *f, scry_addr content)
{
    scry_addr cell = fake_instance_of(f, "cell", 0);
    fake_u64(f, cell + f->l->cell_ref, content);
    return cell;
}

static void check(struct fake *f, scry_addr frame_addr, const char *expected)
{
    struct python py = {.layout = *f->l};
    py.view = (struct py_view){f->mem, &py.layout};
    struct py_frame frame = {.addr = frame_addr, .code = &code};
    struct py_locals locals;
    struct buf text;
    buf_init(&text);
    assert_int_equal(python_locals(&py, &frame, 100, &locals), 0);
    for (size_t i = 0; i < locals.count; i++)
        buf_addf(&text, "%s%s=%s;", locals.items[i].is_arg ? "*" : "", locals.items[i].name,
                 locals.items[i].repr);
    assert_string_equal(text.data, expected);
    buf_done(&text);
    py_locals_done(&locals);
}

static void arguments_of_every_kind_are_told_from_variables(void **state)
{
    (void)state;
    FOR_EACH_LAYOUT(l)
    {
        struct fake f = fake_new(l);
        scry_addr x = fake_str(&f, "x");
        const struct variable variables[] = {
            {"a", LOCAL, x},    {"b", LOCAL, x},      {"only", LOCAL, x},
            {"args", LOCAL, x}, {"kwargs", LOCAL, x}, {"local", LOCAL, x},
        };
        scry_addr frame = fake_frame(&f, variables, ARRAY_LEN(variables));
        code.argcount = 2;
        code.kwonly_count = 1;
        code.flags = 0x4 | 0x8;
        check(&f, frame, "*a='x';*b='x';*only='x';*args='x';*kwargs='x';local='x';");
        code.flags = 0x8;
        code.kwonly_count = 0;
        check(&f, frame, "*a='x';*b='x';*only='x';args='x';kwargs='x';local='x';");
        fake_done(&f);
    }
}

static void unset_variables_are_passed_over(void **state)
{
    (void)state;
    FOR_EACH_LAYOUT(l)
    {
        struct fake f = fake_new(l);
        uint64_t null = l->tagged_refs ? 1 : 0; /* a NULL with the tag of what needs no counting */
        const struct variable variables[] = {
            {"unset", LOCAL, 0},
            {"deleted", LOCAL, null},
            {"set", LOCAL, fake_str(&f, "x")},
        };
        check(&f, fake_frame(&f, variables, 3), "set='x';");
        fake_done(&f);
    }
}

static void cells_show_what_is_in_them(void **state)
{
    (void)state;
    FOR_EACH_LAYOUT(l)
    {
        struct fake f = fake_new(l);
        const struct variable variables[] = {
            {"plain", LOCAL, fake_str(&f, "p")},
            {"shared", CELL, fake_cell(&f, fake_str(&f, "s"))},
            {"empty", CELL, fake_cell(&f, 0)},
            {"early", CELL, fake_str(&f, "not in its cell yet")},
            {"outer", FREE, fake_cell(&f, fake_str(&f, "o"))},
        };
        check(&f, fake_frame(&f, variables, 5),
              "plain='p';shared='s';early='not in its cell yet';outer='o';");
        fake_done(&f);
    }
}

static void arguments_in_cells_are_arguments(void **state)
{
    (void)state;
    FOR_EACH_LAYOUT(l)
    {
        struct fake f = fake_new(l);
        scry_addr cell = fake_cell(&f, fake_str(&f, "new"));
        const struct variable since_311[] = {{"a", LOCAL | CELL, cell}};
        /* 2.7 leaves the first value in its place, later versions clear that. */
        const struct variable before[] = {
            {"a", LOCAL, l->major == 2 ? fake_str(&f, "old") : 0},
            {"a", CELL, cell},
        };
        bool is_311 = l->co_localsplusnames != LAYOUT_NONE;
        scry_addr frame = is_311 ? fake_frame(&f, since_311, 1) : fake_frame(&f, before, 2);
        if (!is_311) {
            /* The two names are one object, as CPython interns them. */
            scry_addr names, cells, name;
            mem_read_u64(f.mem, code.addr + l->co_varnames, &names);
            mem_read_u64(f.mem, code.addr + l->co_cellvars, &cells);
            py_tuple_item(&f.v, names, 0, &name);
            fake_u64(&f, cells + l->tuple_item, name);
        }
        code.argcount = 1;
        check(&f, frame, "*a='new';");
        fake_done(&f);
    }
}

static void tags_are_taken_off(void **state)
{
    (void)state;
    FOR_EACH_LAYOUT(l)
    {
        if (!l->tagged_refs)
            continue;
        struct fake f = fake_new(l);
        const struct variable variables[] = {
            {"borrowed", LOCAL, fake_str(&f, "x") | 1},
            {"small", LOCAL, (uint64_t)-5 << 2 | 3},
            {"cell", FREE, fake_cell(&f, fake_str(&f, "y")) | 1},
        };
        check(&f, fake_frame(&f, variables, 3), "borrowed='x';small=-5;cell='y';");
        fake_done(&f);
    }
}

static void a_frame_that_cannot_be_read_is_an_error(void **state)
{
    (void)state;
    FOR_EACH_LAYOUT(l)
    {
        struct fake f = fake_new(l);
        struct python py = {.layout = *l};
        py.view = (struct py_view){f.mem, &py.layout};
        const struct variable variables[] = {{"a", LOCAL, 0}};
        fake_frame(&f, variables, 1);
        struct py_frame frame = {.addr = 0x7fff0000, .code = &code};
        struct py_locals locals;
        assert_int_equal(python_locals(&py, &frame, 100, &locals), -SCRY_E_READ);
        fake_done(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arguments_of_every_kind_are_told_from_variables),
        cmocka_unit_test(unset_variables_are_passed_over),
        cmocka_unit_test(cells_show_what_is_in_them),
        cmocka_unit_test(arguments_in_cells_are_arguments),
        cmocka_unit_test(tags_are_taken_off),
        cmocka_unit_test(a_frame_that_cannot_be_read_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
