/* The rules by which a stack that was read while it ran is proved, on every layout. The memory of these tests
 * changes between the two copies of one reading, as a running thread's does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "cpython/peek.h"
#include "fake_thread.h"

static struct fake_interp i;
static scry_addr ts, outer, inner, other, root_frame, middle_frame, leaf_frame;
static struct py_thread t;
static struct peek *p;

static void begin_interp(const struct layout *l)
{
    fake_interp_init(&i, l);
    ts = fake_thread(&i, 0x7001);
    outer = fake_code(&i, "/a/app.py", "outer", 10);
    inner = fake_code(&i, "/a/app.py", "inner", 20);
    other = fake_code(&i, "/a/app.py", "other", 30);
    root_frame = fake_frame(&i, outer, 4, fake_bottom(&i));
}

/* leaf_frame runs, and was met before. */
static void meet_thread(void)
{
    fake_set_frame(&i, ts, leaf_frame);
    t = (struct py_thread){.tstate = ts, .interp = i.interp, .thread_id = 0x7001};
    p = peek_new();
    assert_int_equal(python_walk(&i.py, &t), 0);
    for (size_t k = 0; k < t.frame_count; k++)
        code_cache_stamp(&i.py.codes, t.frames[k].code->addr, fake_generation(&i));
    peek_learn(p, &i.py, &t);
    assert_true(peek_has_guess(p));
}

static void begin(const struct layout *l)
{
    begin_interp(l);
    leaf_frame = fake_frame(&i, inner, 0, root_frame);
    meet_thread();
}

/* The same with a frame in between, and all but the outermost one in a second chunk of the data stack. */
static void begin_high(const struct layout *l)
{
    begin_interp(l);
    fake_new_chunk(&i, ts);
    middle_frame = fake_frame(&i, other, 4, root_frame);
    leaf_frame = fake_frame(&i, inner, 0, middle_frame);
    meet_thread();
}

static void end(void)
{
    peek_free(p);
    free(t.frames);
    fake_interp_done(&i);
}

static bool is_again(const struct mem_range *ranges, int at)
{
    for (int k = 0; k < at; k++)
        if (ranges[k].addr == ranges[at].addr)
            return true;
    return false;
}

/* Read the ranges; `change` happens between the first copy and the second. */
static enum peek_result look(void (*change)(void))
{
    struct mem_range ranges[256];
    peek_prepare(p, &i.py, &t);
    int n = peek_range_count(p);
    assert_true(n > 2 && n <= 256);
    assert_int_equal(peek_ranges(p, ranges), n);
    int first_half = 1;
    while (first_half < n && !is_again(ranges, first_half))
        first_half++;
    assert_int_equal(mem_readv(i.f.mem, ranges, first_half), first_half);
    if (change)
        change();
    assert_int_equal(mem_readv(i.f.mem, ranges + first_half, n - first_half), n - first_half);
    return peek_judge(p, &i.py, &t);
}

/* After a miss, as engine/look.c does. Code that is new is read with the second reading at the latest. */
static enum peek_result look_again(void)
{
    enum peek_result result = PEEK_MISSED;
    for (int k = 0; k < 2 && result == PEEK_MISSED; k++) {
        assert_int_equal(peek_relearn(p, &i.py, &t), 0);
        result = look(NULL);
    }
    return result;
}

static int32_t code_field(void)
{
    return fake_has_objects(i.f.l) ? i.f.l->fr_f_code : i.f.l->if_code;
}

static void set_instruction(scry_addr frame, scry_addr code, int offset)
{
    const struct layout *l = i.f.l;
    if (fake_has_objects(l))
        fake_u32(&i.f, frame + (scry_addr)l->fr_f_lasti, (uint32_t)(offset / l->instr_unit));
    else
        fake_u64(&i.f, frame + (scry_addr)l->if_instr,
                 code + (scry_addr)l->co_code_adaptive + (scry_addr)offset);
}

static void a_thread_that_stands_still_is_proved(void **state)
{
    (void)state;
    FOR_EACH_LAYOUT(l)
    {
        begin(l);
        uint64_t version = t.stack_version;
        assert_int_equal(look(NULL), PEEK_PROVED);
        assert_int_equal(t.frame_count, 2);
        assert_string_equal(t.frames[0].code->name, "inner");
        assert_int_not_equal(t.stack_version, version);
        version = t.stack_version;
        assert_int_equal(look(NULL), PEEK_SAME);
        assert_int_equal(t.stack_version, version);
        end();
    }
}

static void move_leaf(void)
{
    set_instruction(leaf_frame, inner, 6);
}

/* All that a walk needs of the same stack was read beforehand: what is in memory by then does not matter. */
static void a_walk_of_what_was_read_ahead_needs_no_frame(void **state)
{
    (void)state;
    FOR_EACH_LAYOUT(l)
    {
        begin(l);
        struct mem_ahead ahead;
        struct mem_range ranges[64];
        int count = peek_still_count(p);
        assert_in_range(count, 1, 64);
        assert_int_equal(peek_still_ranges(p, ranges), count);
        for (int k = 1; k < count; k++)
            assert_true(ranges[k - 1].addr <= ranges[k].addr);
        struct mem *under = i.py.view.mem;
        mem_ahead_init(&ahead, under);
        i.py.view.mem = &ahead.mem;
        assert_true(mem_ahead_begin(&ahead, ranges, count));
        fake_set_frame(&i, ts, root_frame);
        uint64_t version = t.stack_version;
        assert_int_equal(python_walk(&i.py, &t), 0);
        assert_int_equal(t.frame_count, 2);
        assert_int_equal(t.stack_version, version); /* the same stack */
        mem_ahead_end(&ahead);
        assert_int_equal(python_walk(&i.py, &t), 0);
        assert_int_equal(t.frame_count, 1);
        assert_int_not_equal(t.stack_version, version);
        i.py.view.mem = under;
        end();
    }
}

static void the_running_function_may_go_on(void **state)
{
    (void)state;
    FOR_EACH_LAYOUT(l)
    {
        begin(l);
        assert_int_equal(look(move_leaf), PEEK_PROVED);
        end();
    }
}

static void move_caller(void)
{
    set_instruction(root_frame, outer, 8);
}

static void a_caller_that_moved_is_seen(void **state)
{
    (void)state;
    FOR_EACH_LAYOUT(l)
    {
        begin(l);
        assert_int_equal(look(move_caller), PEEK_MOVED);
        end();
    }
}

static void change_variable_of_caller(void)
{
    fake_u64(&i.f, root_frame + (scry_addr)i.f.l->if_localsplus, 0xbeef);
}

static void a_caller_whose_variables_changed_is_seen(void **state)
{
    (void)state;
    FOR_EACH_LAYOUT(l)
    {
        if (fake_has_objects(l))
            continue; /* variables of frame objects are not read */
        begin(l);
        assert_int_equal(look(change_variable_of_caller), PEEK_MOVED);
        end();
    }
}

static void return_to_caller(void)
{
    fake_set_frame(&i, ts, root_frame);
}

/* Where the thread state is read between the two copies, what was called before the return is true. */
static void a_return_is_seen(void **state)
{
    (void)state;
    FOR_EACH_LAYOUT(l)
    {
        begin(l);
        bool once = l->ts_current_frame != LAYOUT_NONE;
        assert_int_equal(look(return_to_caller), once ? PEEK_PROVED : PEEK_MOVED);
        assert_string_equal(t.frames[0].code->name, "inner");
        end();
    }
}

static void call_other(void)
{
    fake_u64(&i.f, leaf_frame + (scry_addr)code_field(), other);
}

static void another_call_in_the_same_place_is_seen(void **state)
{
    (void)state;
    FOR_EACH_LAYOUT(l)
    {
        begin(l);
        assert_int_equal(look(call_other), PEEK_MOVED);
        end();
    }
}

static void code_that_is_not_known_is_not_proved(void **state)
{
    (void)state;
    FOR_EACH_LAYOUT(l)
    {
        begin(l);
        call_other();
        set_instruction(leaf_frame, other, 0);
        assert_int_equal(look(NULL), PEEK_MISSED);
        assert_int_equal(look_again(), PEEK_PROVED);
        assert_string_equal(t.frames[0].code->name, "other");
        end();
    }
}

static void code_that_was_replaced_is_not_proved(void **state)
{
    (void)state;
    FOR_EACH_LAYOUT(l)
    {
        begin(l);
        assert_int_equal(look(NULL), PEEK_PROVED);
        fake_replace_code(&i, inner, "usurper");
        assert_int_equal(look(NULL), PEEK_MISSED);
        assert_false(peek_widen(p));
        assert_int_equal(look_again(), PEEK_PROVED);
        assert_string_equal(t.frames[0].code->name, "usurper");
        end();
    }
}

static void a_frame_that_was_not_foreseen_is_learned(void **state)
{
    (void)state;
    FOR_EACH_LAYOUT(l)
    {
        begin(l);
        /* A generator's frame, somewhere on the heap. */
        scry_addr elsewhere = fake_zeros(&i.f, 8192);
        scry_addr stack_next = i.stack_next;
        i.stack_next = elsewhere + 4096;
        scry_addr frame = fake_frame(&i, inner, 2, root_frame);
        i.stack_next = stack_next;
        fake_set_frame(&i, ts, frame);
        assert_int_equal(look(NULL), PEEK_MISSED);
        assert_int_equal(look_again(), PEEK_PROVED);
        assert_int_equal(t.frame_count, 2);
        assert_int_equal(t.frames[0].addr, frame);
        end();
    }
}

static void a_chain_that_ends_in_no_shim_is_not_proved(void **state)
{
    (void)state;
    FOR_EACH_LAYOUT(l)
    {
        if (fake_has_objects(l) || l->if_is_entry != LAYOUT_NONE)
            continue; /* no shims in this version */
        begin(l);
        fake_u64(&i.f, leaf_frame + (scry_addr)l->if_previous, 0);
        assert_int_equal(look(NULL), PEEK_MOVED);
        end();
    }
}

/* An evaluator was entered, its frame made, but the frame is not linked to its caller yet. */
static void a_frame_that_is_not_linked_yet_is_not_proved(void **state)
{
    (void)state;
    FOR_EACH_LAYOUT(l)
    {
        if (l->cframe_current_frame == LAYOUT_NONE)
            continue; /* no C frames in this version */
        begin(l);
        fake_enter_evaluator(&i, ts);
        scry_addr fresh = fake_frame(&i, other, -2, root_frame);
        fake_set_frame(&i, ts, fresh);
        assert_int_equal(python_walk(&i.py, &t), 0);
        assert_int_equal(t.frame_count, 3);
        assert_string_equal(t.frames[0].code->name, "other");
        assert_string_equal(t.frames[1].code->name, "inner");
        assert_string_equal(t.frames[2].code->name, "outer");
        peek_learn(p, &i.py, &t);
        assert_int_equal(look(NULL), PEEK_MOVED);
        fake_u64(&i.f, fresh + (scry_addr)l->if_previous, leaf_frame);
        assert_int_equal(look(NULL), PEEK_PROVED);
        end();
    }
}

/* An evaluator was entered and still has the mark of another one that ended. */
static void a_frame_left_by_another_evaluator_is_not_taken(void **state)
{
    (void)state;
    FOR_EACH_LAYOUT(l)
    {
        if (l->cframe_current_frame == LAYOUT_NONE)
            continue;
        begin(l);
        fake_enter_evaluator(&i, ts);
        scry_addr stale = fake_frame(&i, other, 4, root_frame);
        fake_set_frame(&i, ts, stale);
        assert_int_equal(python_walk(&i.py, &t), 0);
        assert_int_equal(t.frame_count, 2);
        assert_string_equal(t.frames[0].code->name, "inner");
        end();
    }
}

static void an_instruction_outside_of_its_code_is_not_proved(void **state)
{
    (void)state;
    FOR_EACH_LAYOUT(l)
    {
        begin(l);
        set_instruction(leaf_frame, inner, 5000);
        assert_int_equal(look(NULL), PEEK_MOVED);
        end();
    }
}

static void a_thread_state_given_to_another_thread_is_noticed(void **state)
{
    (void)state;
    FOR_EACH_LAYOUT(l)
    {
        begin(l);
        fake_u64(&i.f, ts + (scry_addr)l->ts_thread_id, 0x8008);
        assert_int_equal(look(NULL), PEEK_MISSED);
        assert_int_equal(peek_relearn(p, &i.py, &t), -SCRY_E_CORRUPT);
        end();
    }
}

/* Quick readings of a stack that was proved: `changes[k]` happens before the thread state of reading k is read,
 * `after[k]` before the stack is read again. */
static int read_ahead(int count, void (*const *changes)(void), void (*const *after)(void))
{
    struct mem_range ranges[16];
    assert_int_equal(look(NULL), PEEK_PROVED);
    int got = peek_ahead(p, count);
    peek_prepare(p, &i.py, &t);
    int n = peek_range_count(p);
    if (got == 1)
        return got;
    assert_int_equal(n, 2 * got + 2);
    assert_int_equal(peek_ranges(p, ranges), n);
    assert_int_equal(mem_readv(i.f.mem, ranges, 1), 1);
    for (int k = 0; k < got; k++) {
        if (changes[k])
            changes[k]();
        assert_int_equal(mem_readv(i.f.mem, ranges + 1 + 2 * k, 1), 1);
        if (after[k])
            after[k]();
        assert_int_equal(mem_readv(i.f.mem, ranges + 2 + 2 * k, 1), 1);
    }
    assert_int_equal(mem_readv(i.f.mem, ranges + n - 1, 1), 1);
    return got;
}

static bool counts_code(const struct layout *l)
{
    return l->is_code_object_generation != LAYOUT_NONE;
}

static void each_of_several_readings_is_judged_by_itself(void **state)
{
    (void)state;
    void (*const changes[])(void) = {NULL, return_to_caller, NULL};
    void (*const after[])(void) = {NULL, NULL, move_caller};
    FOR_EACH_LAYOUT(l)
    {
        begin(l);
        int got = read_ahead(3, changes, after);
        assert_int_equal(got, counts_code(l) ? 3 : 1);
        if (got == 3) {
            assert_int_equal(peek_judge(p, &i.py, &t), PEEK_SAME);
            assert_int_equal(t.frame_count, 2);
            assert_true(peek_next(p));
            assert_int_equal(peek_judge(p, &i.py, &t), PEEK_PROVED);
            assert_int_equal(t.frame_count, 1);
            assert_string_equal(t.frames[0].code->name, "outer");
            assert_true(peek_next(p)); /* what moved is the running function now */
            assert_int_equal(peek_judge(p, &i.py, &t), PEEK_SAME);
            assert_true(peek_saw_it_run(p));
            assert_false(peek_next(p));
        }
        end();
    }
}

static void of_several_readings_only_the_torn_one_fails(void **state)
{
    (void)state;
    void (*const changes[])(void) = {NULL, NULL, NULL};
    void (*const after[])(void) = {NULL, change_variable_of_caller, NULL};
    FOR_EACH_LAYOUT(l)
    {
        begin(l);
        if (read_ahead(3, changes, after) == 3) {
            assert_int_equal(peek_judge(p, &i.py, &t), PEEK_SAME);
            assert_true(peek_next(p));
            assert_int_equal(peek_judge(p, &i.py, &t), PEEK_MOVED);
            assert_true(peek_next(p));
            assert_int_equal(peek_judge(p, &i.py, &t), PEEK_SAME);
        }
        end();
    }
}

static void replace_some_code(void)
{
    fake_replace_code(&i, fake_zeros(&i.f, 512), "somebody");
}

/* Code that dies during the last reading may have died before the first: none of them is proved. */
static void code_that_dies_spoils_all_readings(void **state)
{
    (void)state;
    void (*const changes[])(void) = {NULL, NULL, NULL};
    void (*const after[])(void) = {NULL, NULL, replace_some_code};
    FOR_EACH_LAYOUT(l)
    {
        begin(l);
        if (read_ahead(3, changes, after) == 3) {
            assert_int_equal(peek_judge(p, &i.py, &t), PEEK_MISSED);
            assert_true(peek_next(p));
            assert_int_equal(peek_judge(p, &i.py, &t), PEEK_MISSED);
        }
        end();
    }
}

/* Of a stack over two chunks that was read and proved, the next reading takes both chunks twice, and between them the
 * thread state; then the count of code objects. */
static bool is_quick_over_two(void)
{
    return counts_code(i.f.l) && peek_range_count(p) == 6;
}

static void a_stack_over_two_chunks_is_read_quickly(void **state)
{
    (void)state;
    FOR_EACH_LAYOUT(l)
    {
        begin_high(l);
        assert_int_equal(look(NULL), PEEK_PROVED);
        assert_int_equal(t.frame_count, 3);
        assert_int_equal(is_quick_over_two(), counts_code(l));
        assert_int_equal(look(NULL), PEEK_SAME);
        assert_int_equal(look(move_leaf), PEEK_SAME);
        if (counts_code(l))
            assert_true(peek_saw_it_run(p));
        end();
    }
}

static void a_change_in_the_lower_chunk_is_seen(void **state)
{
    (void)state;
    FOR_EACH_LAYOUT(l)
    {
        begin_high(l);
        assert_int_equal(look(NULL), PEEK_PROVED);
        if (is_quick_over_two()) {
            assert_int_equal(look(change_variable_of_caller), PEEK_MOVED);
            /* Now it has changed since it was proved, too. */
            assert_int_equal(look(NULL), PEEK_MISSED);
            assert_true(peek_widen(p));
            assert_int_equal(look(NULL), PEEK_SAME);
        }
        end();
    }
}

static void frames_above_the_lower_chunk_come_and_go(void **state)
{
    (void)state;
    FOR_EACH_LAYOUT(l)
    {
        begin_high(l);
        assert_int_equal(look(NULL), PEEK_PROVED);
        if (is_quick_over_two()) {
            fake_set_frame(&i, ts, middle_frame);
            assert_int_equal(look(NULL), PEEK_PROVED);
            assert_int_equal(t.frame_count, 2);
            assert_string_equal(t.frames[0].code->name, "other");
            assert_string_equal(t.frames[1].code->name, "outer");
            fake_set_frame(&i, ts, leaf_frame);
            assert_int_equal(look(NULL), PEEK_PROVED);
            assert_int_equal(t.frame_count, 3);
            assert_string_equal(t.frames[0].code->name, "inner");
            assert_string_equal(t.frames[2].code->name, "outer");
            assert_int_equal(look(NULL), PEEK_SAME);
        }
        end();
    }
}

/* The chunk above is left: that is for a full reading. */
static void a_return_to_the_lower_chunk_is_not_read_quickly(void **state)
{
    (void)state;
    FOR_EACH_LAYOUT(l)
    {
        begin_high(l);
        assert_int_equal(look(NULL), PEEK_PROVED);
        if (is_quick_over_two()) {
            fake_set_frame(&i, ts, root_frame);
            assert_int_equal(look(NULL), PEEK_MISSED);
            assert_true(peek_widen(p));
            assert_int_equal(look(NULL), PEEK_PROVED);
            assert_int_equal(t.frame_count, 1);
            assert_string_equal(t.frames[0].code->name, "outer");
        }
        end();
    }
}

/* A caller that lies in neither chunk, or above its callee, leads nowhere. */
static void a_link_that_leaves_the_chunks_is_not_followed(void **state)
{
    (void)state;
    FOR_EACH_LAYOUT(l)
    {
        for (int k = 0; k < 3; k++) {
            begin_high(l);
            assert_int_equal(look(NULL), PEEK_PROVED);
            if (is_quick_over_two()) {
                const scry_addr wrong[] = {root_frame + 8, leaf_frame, middle_frame + (1 << 20)};
                fake_u64(&i.f, middle_frame + (scry_addr)l->if_previous, wrong[k]);
                assert_int_equal(look(NULL), PEEK_MISSED);
            }
            end();
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stack_over_two_chunks_is_read_quickly),
        cmocka_unit_test(a_change_in_the_lower_chunk_is_seen),
        cmocka_unit_test(frames_above_the_lower_chunk_come_and_go),
        cmocka_unit_test(a_return_to_the_lower_chunk_is_not_read_quickly),
        cmocka_unit_test(a_link_that_leaves_the_chunks_is_not_followed),
        cmocka_unit_test(a_thread_that_stands_still_is_proved),
        cmocka_unit_test(a_walk_of_what_was_read_ahead_needs_no_frame),
        cmocka_unit_test(the_running_function_may_go_on),
        cmocka_unit_test(a_caller_that_moved_is_seen),
        cmocka_unit_test(a_caller_whose_variables_changed_is_seen),
        cmocka_unit_test(a_return_is_seen),
        cmocka_unit_test(another_call_in_the_same_place_is_seen),
        cmocka_unit_test(code_that_is_not_known_is_not_proved),
        cmocka_unit_test(code_that_was_replaced_is_not_proved),
        cmocka_unit_test(a_frame_that_was_not_foreseen_is_learned),
        cmocka_unit_test(a_chain_that_ends_in_no_shim_is_not_proved),
        cmocka_unit_test(a_frame_that_is_not_linked_yet_is_not_proved),
        cmocka_unit_test(a_frame_left_by_another_evaluator_is_not_taken),
        cmocka_unit_test(an_instruction_outside_of_its_code_is_not_proved),
        cmocka_unit_test(a_thread_state_given_to_another_thread_is_noticed),
        cmocka_unit_test(each_of_several_readings_is_judged_by_itself),
        cmocka_unit_test(of_several_readings_only_the_torn_one_fails),
        cmocka_unit_test(code_that_dies_spoils_all_readings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
