/* What is made of samples that were taken inside the kernel, on every layout that is read there. The samples are made here as
 * the program in the kernel makes them: by the plan alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "cpython/in_kernel.h"
#include "fake_thread.h"

#define MOST 16

static struct fake_interp i;
static scry_addr ts, outer, inner, root_frame, leaf_frame;
static struct py_thread t;
static struct in_kernel *k;
static struct kernel_plan plan;
static struct kernel_sample sample;
static struct kernel_node nodes[MOST];

static bool begin(const struct layout *l)
{
    fake_interp_init(&i, l);
    ts = fake_thread(&i, 0x7001);
    outer = fake_code(&i, "/a/app.py", "outer", 10);
    inner = fake_code(&i, "/a/app.py", "inner", 20);
    root_frame = fake_frame(&i, outer, 4, fake_bottom(&i));
    leaf_frame = fake_frame(&i, inner, 0, root_frame);
    fake_set_frame(&i, ts, leaf_frame);
    t = (struct py_thread){.tstate = ts, .interp = i.interp, .thread_id = 0x7001};
    k = in_kernel_new();
    return in_kernel_plan(&i.py, &plan, NULL) == 0;
}

static void end(void)
{
    in_kernel_free(k);
    free(t.frames);
    fake_interp_done(&i);
}

static uint64_t word(scry_addr at)
{
    uint64_t value = 0;
    assert_int_equal(mem_read_u64(i.f.mem, at, &value), 0);
    return value;
}

static uint8_t byte(scry_addr at)
{
    uint8_t value = 0;
    assert_int_equal(mem_read(i.f.mem, at, &value, 1), 0);
    return value;
}

static uint64_t mark(scry_addr what)
{
    if (plan.mark_number >= 0)
        return (uint32_t)word(what + (scry_addr)plan.mark_number);
    uint64_t mixed = 0, deep = 0;
    for (uint32_t n = 0; n < plan.mark_words; n++) {
        uint64_t part = word(what + (scry_addr)plan.mark_at + 8 * (scry_addr)n);
        mixed = kernel_mark_mix(mixed, part);
        deep = n == (uint32_t)plan.mark_deep ? word(part + (scry_addr)plan.mark_deep_at) : deep;
    }
    return kernel_mark_mix(mixed, deep);
}

static void take_sample(void)
{
    scry_addr at = word(ts + (scry_addr)plan.record_first);
    if (plan.first_via >= 0)
        at = word(at + (scry_addr)plan.first_via);
    sample = (struct kernel_sample){.record = ts};
    for (; at; at = word(at + (scry_addr)plan.node_next)) {
        if (plan.node_kind >= 0 && byte(at + (scry_addr)plan.node_kind) >= plan.kind_hidden) {
            sample.flags |= KERNEL_WALK_HIDDEN;
            continue;
        }
        scry_addr what = word(at + (scry_addr)plan.node_what) & ~plan.what_tags;
        assert_true(sample.count < MOST);
        uint64_t where = word(at + (scry_addr)plan.node_where) & plan.where_bits;
        nodes[sample.count++] = (struct kernel_node){at, what, where, mark(what)};
        if (plan.node_may_end >= 0 && byte(at + (scry_addr)plan.node_may_end))
            sample.flags |= KERNEL_WALK_MAY;
    }
}

static int take(void)
{
    return in_kernel_take(k, &i.py, NULL, &sample, nodes, &t);
}

static void expect(size_t at, const char *name, int32_t line)
{
    assert_true(at < t.frame_count);
    assert_string_equal(t.frames[at].code->name, name);
    assert_int_equal(t.frames[at].line, line);
}

static void on_every_layout(void (*check)(void))
{
    size_t count, checked = 0;
    const struct layout *rows = layout_rows(&count);
    for (size_t n = 0; n < count; n++) {
        if (begin(&rows[n])) {
            take_sample();
            check();
            checked++;
        }
        end();
    }
    assert_true(checked >= 10);
}

/* ---- */

static void check_plain(void)
{
    assert_int_equal(take(), 0);
    assert_int_equal(t.frame_count, 2);
    expect(0, "inner", 20);
    expect(1, "outer", 11);
}

static void a_sample_has_its_frames(void **state)
{
    (void)state;
    on_every_layout(check_plain);
}

static void check_same(void)
{
    assert_int_equal(take(), 0);
    uint64_t version = t.stack_version;
    assert_int_equal(take(), 0);
    assert_int_equal(t.stack_version, version);
    const struct layout *l = i.f.l;
    if (fake_has_objects(l))
        fake_u32(&i.f, leaf_frame + (scry_addr)plan.node_where, 4 / l->instr_unit);
    else
        fake_u64(&i.f, leaf_frame + (scry_addr)plan.node_where,
                 inner + (scry_addr)plan.what_begin + 4);
    take_sample();
    assert_int_equal(take(), 0);
    assert_int_equal(t.stack_version, version + 1);
    assert_int_equal(t.same_callers, 1);
    expect(0, "inner", 21);
    expect(1, "outer", 11);
}

static void what_is_the_same_is_recognised(void **state)
{
    (void)state;
    on_every_layout(check_same);
}

/* The function had ended and its code object was gone when its name was wanted: it must not get that of the next one. */
static void check_gone(void)
{
    fake_replace_code(&i, inner, "later");
    assert_int_equal(take(), -SCRY_E_CORRUPT);
    assert_int_equal(t.frame_count, 1);
    expect(0, "outer", 11);
    /* The next sample knows it. */
    take_sample();
    assert_int_equal(take(), 0);
    assert_int_equal(t.frame_count, 2);
    expect(0, "later", 20);
}

static void a_function_that_is_gone_gets_no_other_name(void **state)
{
    (void)state;
    on_every_layout(check_gone);
}

/* One that is in the cache is replaced by another at the same address. */
static void check_replaced(void)
{
    assert_int_equal(take(), 0);
    fake_replace_code(&i, inner, "later");
    assert_int_equal(take(), 0); /* a sample from before: it is known */
    expect(0, "inner", 20);
    take_sample();
    assert_int_equal(take(), 0);
    expect(0, "later", 20);
}

static void a_function_that_was_replaced_is_told_from_the_other(void **state)
{
    (void)state;
    on_every_layout(check_replaced);
}

static void check_torn(void)
{
    assert_int_equal(take(), 0);
    uint64_t version = t.stack_version;
    sample.flags = 0;
    /* A chain of objects has no end of its own; it is never linked wrongly. */
    assert_int_equal(take(), fake_has_objects(i.f.l) ? 0 : -SCRY_E_TORN);
    take_sample();
    sample.flags |= KERNEL_WALK_FAULT;
    assert_int_equal(take(), -SCRY_E_TORN);
    assert_int_equal(t.stack_version, version);
    assert_int_equal(t.frame_count, 2);
}

static void a_chain_without_an_end_is_not_believed(void **state)
{
    (void)state;
    on_every_layout(check_torn);
}

static void python_2_and_free_threaded_builds_are_not_read_there(void **state)
{
    (void)state;
    struct error err = {0};
    size_t count;
    const struct layout *rows = layout_rows(&count);
    for (size_t n = 0; n < count; n++) {
        begin(&rows[n]);
        int r = in_kernel_plan(&i.py, &plan, &err);
        bool can = rows[n].major >= 3 && !rows[n].free_threaded;
        assert_int_equal(r, can ? 0 : -SCRY_E_UNSUPPORTED);
        end();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sample_has_its_frames),
        cmocka_unit_test(what_is_the_same_is_recognised),
        cmocka_unit_test(a_function_that_is_gone_gets_no_other_name),
        cmocka_unit_test(a_function_that_was_replaced_is_told_from_the_other),
        cmocka_unit_test(a_chain_without_an_end_is_not_believed),
        cmocka_unit_test(python_2_and_free_threaded_builds_are_not_read_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
