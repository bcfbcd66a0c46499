/* Threads, frames and code objects read from fake memory, on every layout. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "fake_thread.h"

static struct py_thread thread_at(struct fake_interp *i, scry_addr ts, uint64_t id)
{
    return (struct py_thread){.tstate = ts, .interp = i->interp, .thread_id = id};
}

static void threads_come_newest_first_with_their_ids(void **state)
{
    (void)state;
    FOR_EACH_LAYOUT(l)
    {
        struct fake_interp i;
        struct py_threads list = {0};
        fake_interp_init(&i, l);
        fake_thread(&i, 0x7001);
        scry_addr newest = fake_thread(&i, 0x7002);
        assert_int_equal(python_threads(&i.py, &list), 0);
        assert_int_equal(list.count, 2);
        assert_int_equal(list.items[0].tstate, newest);
        assert_int_equal(list.items[0].thread_id, 0x7002);
        assert_int_equal(list.items[1].thread_id, 0x7001);
        assert_int_equal(list.items[1].ns_tid, l->ts_native_thread_id == LAYOUT_NONE ? 0 : 0x7001);
        py_threads_done(&list);
        fake_interp_done(&i);
    }
}

static void a_thread_of_another_interpreter_is_not_believed(void **state)
{
    (void)state;
    FOR_EACH_LAYOUT(l)
    {
        struct fake_interp i;
        struct py_threads list = {0};
        fake_interp_init(&i, l);
        scry_addr ts = fake_thread(&i, 0x7001);
        fake_u64(&i.f, ts + (scry_addr)l->ts_interp, 0xdead000);
        assert_int_equal(python_threads(&i.py, &list), -SCRY_E_TORN);
        py_threads_done(&list);
        fake_interp_done(&i);
    }
}

static void a_ring_of_threads_has_an_end(void **state)
{
    (void)state;
    FOR_EACH_LAYOUT(l)
    {
        struct fake_interp i;
        struct py_threads list = {0};
        fake_interp_init(&i, l);
        scry_addr ts = fake_thread(&i, 0x7001);
        fake_u64(&i.f, ts + (scry_addr)l->ts_next, ts);
        assert_int_equal(python_threads(&i.py, &list), -SCRY_E_TORN);
        py_threads_done(&list);
        fake_interp_done(&i);
    }
}

static void the_holder_of_the_gil_is_known(void **state)
{
    (void)state;
    FOR_EACH_LAYOUT(l)
    {
        struct fake_interp i;
        struct py_threads list = {0};
        fake_interp_init(&i, l);
        scry_addr ts = fake_thread(&i, 0x7001);
        fake_thread(&i, 0x7002);
        scry_addr gil;
        if (l->free_threaded) {
            fake_u32(&i.f, ts + (scry_addr)l->ts_status, 1 << 4);
        } else if (i.py.tstate_current_at) {
            fake_u64(&i.f, i.py.tstate_current_at, ts);
        } else {
            mem_read_u64(i.f.mem, i.interp + (scry_addr)l->is_ceval_gil, &gil);
            fake_u64(&i.f, gil + (scry_addr)l->gil_last_holder, ts);
            fake_u32(&i.f, gil + (scry_addr)l->gil_locked, 1);
        }
        assert_int_equal(python_threads(&i.py, &list), 0);
        assert_false(list.items[0].owns_gil);
        assert_true(list.items[1].owns_gil);
        py_threads_done(&list);
        fake_interp_done(&i);
    }
}

static void frames_come_leaf_first_with_name_file_and_line(void **state)
{
    (void)state;
    FOR_EACH_LAYOUT(l)
    {
        struct fake_interp i;
        fake_interp_init(&i, l);
        scry_addr ts = fake_thread(&i, 0x7001);
        scry_addr outer = fake_code(&i, "/a/app.py", "outer", 10);
        scry_addr inner = fake_code(&i, "/a/app.py", "inner", 20);
        scry_addr root = fake_frame(&i, outer, 4, fake_bottom(&i));
        fake_set_frame(&i, ts, fake_frame(&i, inner, 0, root));
        struct py_thread t = thread_at(&i, ts, 0x7001);
        assert_int_equal(python_walk(&i.py, &t), 0);
        assert_false(t.incomplete);
        assert_int_equal(t.frame_count, 2);
        assert_string_equal(t.frames[0].code->name, "inner");
        assert_int_equal(t.frames[0].line, 20);
        assert_string_equal(t.frames[1].code->qualname, "outer");
        assert_string_equal(t.frames[1].code->filename, "/a/app.py");
        assert_int_equal(t.frames[1].line, 11);
        free(t.frames);
        fake_interp_done(&i);
    }
}

static void frames_of_the_interpreter_itself_are_hidden(void **state)
{
    (void)state;
    FOR_EACH_LAYOUT(l)
    {
        struct fake_interp i;
        fake_interp_init(&i, l);
        scry_addr ts = fake_thread(&i, 0x7001);
        scry_addr root = fake_frame(&i, fake_code(&i, "/a.py", "outer", 1), 0, fake_bottom(&i));
        scry_addr cleanup = fake_frame(&i, fake_code(&i, "__init__", "__init__", 1), 0, root);
        fake_set_frame(&i, ts, fake_frame(&i, fake_code(&i, "/a.py", "__init__", 5), 0, cleanup));
        struct py_thread t = thread_at(&i, ts, 0x7001);
        assert_int_equal(python_walk(&i.py, &t), 0);
        assert_int_equal(t.frame_count, 2);
        assert_string_equal(t.frames[0].code->name, "__init__");
        assert_string_equal(t.frames[1].code->name, "outer");
        free(t.frames);
        fake_interp_done(&i);
    }
}

static void a_broken_chain_keeps_what_was_found(void **state)
{
    (void)state;
    FOR_EACH_LAYOUT(l)
    {
        struct fake_interp i;
        fake_interp_init(&i, l);
        scry_addr ts = fake_thread(&i, 0x7001);
        fake_set_frame(&i, ts,
                       fake_frame(&i, fake_code(&i, "/a.py", "leaf", 1), 0, 0x7fff00000000));
        struct py_thread t = thread_at(&i, ts, 0x7001);
        assert_int_equal(python_walk(&i.py, &t), 0);
        assert_true(t.incomplete);
        assert_int_equal(t.frame_count, 1);
        assert_string_equal(t.frames[0].code->name, "leaf");
        free(t.frames);
        fake_interp_done(&i);
    }
}

/* Not after a hundred thousand reads: each costs as much as a sample. */
static void a_ring_of_frames_has_an_end_soon(void **state)
{
    (void)state;
    FOR_EACH_LAYOUT(l)
    {
        for (size_t length = 1; length <= 5; length++) {
            struct fake_interp i;
            fake_interp_init(&i, l);
            scry_addr ts = fake_thread(&i, 0x7001);
            scry_addr code = fake_code(&i, "/a.py", "leaf", 1);
            scry_addr first = fake_frame(&i, code, 0, 0), last = first;
            for (size_t k = 1; k < length; k++)
                last = fake_frame(&i, code, 0, last);
            fake_u64(&i.f, first + (scry_addr)(fake_has_objects(l) ? l->fr_f_back : l->if_previous),
                     last);
            fake_set_frame(&i, ts, fake_frame(&i, code, 0, last));
            struct py_thread t = thread_at(&i, ts, 0x7001);
            assert_int_equal(python_walk(&i.py, &t), 0);
            assert_true(t.incomplete);
            assert_in_range(t.frame_count, 1 + length, 4 * (1 + length));
            free(t.frames);
            fake_interp_done(&i);
        }
    }
}

static void what_is_no_code_object_is_left_out(void **state)
{
    (void)state;
    FOR_EACH_LAYOUT(l)
    {
        struct fake_interp i;
        fake_interp_init(&i, l);
        scry_addr ts = fake_thread(&i, 0x7001);
        scry_addr none = fake_instance_of(&i.f, "NoneType", 0);
        fake_set_frame(&i, ts, fake_frame(&i, none, 0, fake_bottom(&i)));
        struct py_thread t = thread_at(&i, ts, 0x7001);
        assert_int_equal(python_walk(&i.py, &t), 0);
        assert_true(t.incomplete);
        assert_int_equal(t.frame_count, 0);
        free(t.frames);
        fake_interp_done(&i);
    }
}

static void an_instruction_outside_of_its_code_has_no_line(void **state)
{
    (void)state;
    FOR_EACH_LAYOUT(l)
    {
        struct fake_interp i;
        fake_interp_init(&i, l);
        scry_addr ts = fake_thread(&i, 0x7001);
        fake_set_frame(&i, ts,
                       fake_frame(&i, fake_code(&i, "/a.py", "leaf", 1), 5000, fake_bottom(&i)));
        struct py_thread t = thread_at(&i, ts, 0x7001);
        assert_int_equal(python_walk(&i.py, &t), 0);
        assert_int_equal(t.frame_count, 1);
        assert_int_equal(t.frames[0].line, 0);
        free(t.frames);
        fake_interp_done(&i);
    }
}

static void code_at_an_address_that_was_reused_is_read_anew(void **state)
{
    (void)state;
    FOR_EACH_LAYOUT(l)
    {
        struct fake_interp i;
        fake_interp_init(&i, l);
        scry_addr code = fake_code(&i, "<made>", "first", 1);
        const struct py_code *got;
        assert_int_equal(code_cache_get(&i.py.codes, &code, 1, NULL, &got), 0);
        uint32_t serial = got->serial;
        assert_string_equal(got->name, "first");
        assert_int_equal(code_cache_get(&i.py.codes, &code, 1, NULL, &got), 0);
        assert_int_equal(got->serial, serial);

        fake_replace_code(&i, code, "second");
        assert_int_equal(code_cache_get(&i.py.codes, &code, 1, NULL, &got), 0);
        assert_string_equal(got->name, "second");
        assert_int_not_equal(got->serial, serial);
        code_cache_sweep(&i.py.codes);
        assert_string_equal(got->name, "second");
        fake_interp_done(&i);
    }
}

static void code_that_stands_in_a_stack_twice_is_read_once(void **state)
{
    (void)state;
    FOR_EACH_LAYOUT(l)
    {
        struct fake_interp i;
        const struct py_code *got[2];
        fake_interp_init(&i, l);
        scry_addr code = fake_code(&i, "/a.py", "old", 1);
        const scry_addr twice[] = {code, code};
        assert_int_equal(code_cache_get(&i.py.codes, twice, 2, NULL, got), 0);
        assert_ptr_equal(got[0], got[1]);
        /* Replaced while it is in the cache: given up once, not once for each place. */
        fake_replace_code(&i, code, "new");
        assert_int_equal(code_cache_get(&i.py.codes, twice, 2, NULL, got), 0);
        assert_ptr_equal(got[0], got[1]);
        assert_string_equal(got[0]->name, "new");
        assert_int_equal(i.py.codes.retired_count, 1);
        code_cache_sweep(&i.py.codes);
        fake_interp_done(&i);
    }
}

static void a_name_that_died_and_left_its_address_to_another_is_noticed(void **state)
{
    (void)state;
    FOR_EACH_LAYOUT(l)
    {
        struct fake_interp i;
        fake_interp_init(&i, l);
        scry_addr code = fake_code(&i, "<made>", "made_17", 1), name;
        const struct py_code *got;
        /* Where code objects are numbered nobody would look at the name, unless the numbers have run out. */
        if (l->co_version != LAYOUT_NONE)
            fake_u32(&i.f, code + (scry_addr)l->co_version, 0);
        assert_int_equal(code_cache_get(&i.py.codes, &code, 1, NULL, &got), 0);
        mem_read_u64(i.f.mem, code + (scry_addr)l->co_name, &name);
        mem_fake_add(i.f.mem, name + (scry_addr)(l->major == 2 ? l->str2_data : l->ascii_size),
                     "made_18", 7);
        /* Its hash, the word behind its length. */
        fake_u64(&i.f, name + (scry_addr)(l->major == 2 ? l->var_size + 8 : l->ascii_length + 8),
                 4711);
        assert_int_equal(code_cache_get(&i.py.codes, &code, 1, NULL, &got), 0);
        assert_string_equal(got->name, "made_18");
        fake_interp_done(&i);
    }
}

/* All that a code object says of itself is the same, but for its number. */
static void code_is_known_by_its_number(void **state)
{
    (void)state;
    FOR_EACH_LAYOUT(l)
    {
        struct fake_interp i;
        fake_interp_init(&i, l);
        scry_addr code = fake_code(&i, "<made>", "made_17", 1), name;
        const struct py_code *got;
        assert_int_equal(code_cache_get(&i.py.codes, &code, 1, NULL, &got), 0);
        mem_read_u64(i.f.mem, code + (scry_addr)l->co_name, &name);
        if (l->co_version != LAYOUT_NONE) {
            struct code_place places[CODE_PLACES];
            assert_int_equal(code_places(l, got, places), 1);
            mem_fake_add(i.f.mem, name + (scry_addr)l->ascii_size, "made_18", 7);
            fake_code_is_born(&i, code);
            assert_int_equal(code_cache_get(&i.py.codes, &code, 1, NULL, &got), 0);
            assert_string_equal(got->name, "made_18");
        }
        fake_interp_done(&i);
    }
}

/* The count has not moved since it was checked, so it is the same; else it is looked at. */
static void code_that_cannot_have_died_is_not_looked_at(void **state)
{
    (void)state;
    FOR_EACH_LAYOUT(l)
    {
        struct fake_interp i;
        const uint64_t then = 7, later = 8;
        fake_interp_init(&i, l);
        scry_addr code = fake_code(&i, "/a.py", "first", 1);
        const struct py_code *got;
        assert_int_equal(code_cache_get(&i.py.codes, &code, 1, &then, &got), 0);
        code_cache_stamp(&i.py.codes, code, then);
        fake_replace_code(&i, code, "second");
        assert_int_equal(code_cache_get(&i.py.codes, &code, 1, &then, &got), 0);
        assert_string_equal(got->name, "first");
        assert_int_equal(code_cache_get(&i.py.codes, &code, 1, &later, &got), 0);
        assert_string_equal(got->name, "second");
        fake_interp_done(&i);
    }
}

/* What is not a count of code objects, for there are more of them, or counts no more. */
static void a_count_that_cannot_be_is_not_believed(void **state)
{
    (void)state;
    FOR_EACH_LAYOUT(l)
    {
        const uint64_t wrong[] = {0, 1};
        for (size_t k = 0; k < ARRAY_LEN(wrong); k++) {
            struct fake_interp i;
            fake_interp_init(&i, l);
            scry_addr code = fake_code(&i, "/a.py", "first", 1);
            const struct py_code *got;
            assert_int_equal(code_cache_get(&i.py.codes, &code, 1, &wrong[k], &got), 0);
            code_cache_stamp(&i.py.codes, code, wrong[k]);
            assert_int_equal(code_is_of(got, wrong[k]), wrong[k] && !l->counts_births);
            fake_interp_done(&i);
        }
    }
}

/* Its code is looked up when the thread goes on: only where that is known and has a number, and not if it was replaced. */
static void what_runs_may_be_looked_up_late(void **state)
{
    (void)state;
    FOR_EACH_LAYOUT(l)
    {
        struct fake_interp i;
        fake_interp_init(&i, l);
        scry_addr code = fake_code(&i, "/a.py", "first", 1);
        scry_addr ts = fake_thread(&i, 0x7001);
        fake_set_frame(&i, ts, fake_frame(&i, code, 4, fake_bottom(&i)));
        struct py_thread t = thread_at(&i, ts, 0x7001);
        assert_int_equal(python_walk_begin(&i.py, &t), 0);
        assert_false(python_walk_may_end_late(&i.py));
        assert_int_equal(python_walk_end(&i.py, &t, false), 0);
        assert_false(t.incomplete);
        assert_int_equal(python_walk_begin(&i.py, &t), 0);
        assert_int_equal(python_walk_may_end_late(&i.py),
                         l->co_version != LAYOUT_NONE && l->co_tlbc == LAYOUT_NONE);
        fake_replace_code(&i, code, "second");
        assert_int_equal(python_walk_end(&i.py, &t, true), 0);
        assert_true(t.incomplete);
        free(t.frames);
        fake_interp_done(&i);
    }
}

/* Memory that changes after so many reads. */
struct changing_mem {
    struct mem mem;
    struct mem *under;
    int reads_left;
    struct fake_interp *i;
    scry_addr code;
};

static int changing_readv(struct mem *mem, const struct mem_range *ranges, int count)
{
    struct changing_mem *m = (struct changing_mem *)mem;
    if (m->reads_left-- == 0)
        fake_replace_code(m->i, m->code, "later");
    return mem_readv(m->under, ranges, count);
}

/* Whenever it is replaced: what is kept has the names of one object, or is not kept. */
static void code_that_is_replaced_while_it_is_read_gets_its_own_names(void **state)
{
    (void)state;
    static const struct mem_ops ops = {changing_readv, NULL};
    FOR_EACH_LAYOUT(l)
    {
        for (int reads = 1; reads < 16; reads++) {
            struct fake_interp i;
            const struct py_code *got;
            fake_interp_init(&i, l);
            scry_addr code = fake_code(&i, "<made>", "first", 1);
            struct changing_mem m = {{.ops = &ops}, i.f.mem, reads, &i, code};
            i.py.codes.view.mem = &m.mem;
            assert_int_equal(code_cache_get(&i.py.codes, &code, 1, NULL, &got), 0);
            if (m.reads_left >= 0)
                m.reads_left = 0; /* it took fewer reads: at the next one */
            assert_int_equal(code_cache_get(&i.py.codes, &code, 1, NULL, &got), 0);
            assert_non_null(got);
            assert_string_equal(got->name, "later");
            i.py.codes.view.mem = i.f.mem;
            code_cache_sweep(&i.py.codes);
            fake_interp_done(&i);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_come_newest_first_with_their_ids),
        cmocka_unit_test(a_thread_of_another_interpreter_is_not_believed),
        cmocka_unit_test(a_ring_of_threads_has_an_end),
        cmocka_unit_test(the_holder_of_the_gil_is_known),
        cmocka_unit_test(frames_come_leaf_first_with_name_file_and_line),
        cmocka_unit_test(frames_of_the_interpreter_itself_are_hidden),
        cmocka_unit_test(a_broken_chain_keeps_what_was_found),
        cmocka_unit_test(a_ring_of_frames_has_an_end_soon),
        cmocka_unit_test(what_is_no_code_object_is_left_out),
        cmocka_unit_test(an_instruction_outside_of_its_code_has_no_line),
        cmocka_unit_test(code_at_an_address_that_was_reused_is_read_anew),
        cmocka_unit_test(code_that_stands_in_a_stack_twice_is_read_once),
        cmocka_unit_test(a_name_that_died_and_left_its_address_to_another_is_noticed),
        cmocka_unit_test(code_is_known_by_its_number),
        cmocka_unit_test(code_that_cannot_have_died_is_not_looked_at),
        cmocka_unit_test(a_count_that_cannot_be_is_not_believed),
        cmocka_unit_test(what_runs_may_be_looked_up_late),
        cmocka_unit_test(code_that_is_replaced_while_it_is_read_gets_its_own_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
