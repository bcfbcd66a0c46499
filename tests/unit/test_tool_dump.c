/* dump's text and JSON, of a process made up here: every case that a live program shows only by
 * chance. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tool/dump.h"

static struct py_code method = {.filename = "/srv/app/pkg/mod.py",
                                .name = "method",
                                .qualname = "Class.method",
                                .first_line = 10};
static struct py_code nameless_file = {.filename = "", .name = "f", .qualname = "f"};
static struct py_code hostile = {
    .filename = "a\nb.py", .name = "\033[0m", .qualname = "\033[0m", .first_line = 1};

static struct py_frame frames[] = {
    {.code = &method, .line = 12, .is_entry = true},
    {.code = &method, .line = 0},
    {.code = &nameless_file, .line = 3},
    {.code = &hostile, .line = 1},
};
static struct py_thread newest = {
    .tstate = 2, .thread_id = 0xab12, .interp_id = 3, .in_gc = true, .incomplete = true};
static struct py_thread oldest = {.tstate = 1, .thread_id = 7, .frames = frames, .frame_count = 4};

static struct thread_state states[] = {
    {.python = &newest, .name = "", .active = true, .torn = true},
    {.python = &oldest, .tid = 4242, .ns_tid = 17, .name = "Main\nThread", .owns_gil = true},
};
static struct snapshot snapshot = {.threads = states, .count = 2};

static struct py_local locals[] = {
    {.name = (char *)"x", .addr = 0x10, .is_arg = false, .repr = (char *)"[1, 2]"},
    {.name = (char *)"self", .addr = 0x20, .is_arg = true, .repr = (char *)"<Class\n>"},
};
static struct py_locals of_frames[] = {{.items = locals, .count = 2}, {0}, {0}, {0}};
static struct dump_variables of_thread = {.tstate = 1, .frames = of_frames, .count = 4};
static struct dump_variables_list variables = {.items = &of_thread, .count = 1};

static const char *last_part(const char *path, void *context)
{
    (void)context;
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static struct dump_process process(void)
{
    strcpy(states[1].wait, "recvfrom tcp 127.0.0.1:5432");
    return (struct dump_process){
        .pid = 4242,
        .command = "python app.py",
        .exe = "/usr/bin/python3.11",
        .python = "3.11.7",
        .snapshot = &snapshot,
    };
}

static void assert_text(const struct dump_process *p, bool colours, const char *expected)
{
    char *data;
    size_t len;
    FILE *out = open_memstream(&data, &len);
    dump_text(out, term_style(colours), p);
    fclose(out);
    assert_string_equal(data, expected);
    free(data);
}

static void text_shows_everything_there_is(void **state)
{
    (void)state;
    struct dump_process p = process();
    assert_text(
        &p, false,
        "Process 4242: python app.py\n"
        "Python v3.11.7 (/usr/bin/python3.11)\n"
        "\n"
        "Thread 4242 (idle): \"Main\\nThread\" [recvfrom tcp 127.0.0.1:5432]\n"
        "    Class.method (/srv/app/pkg/mod.py:12)\n"
        "    Class.method (/srv/app/pkg/mod.py)\n"
        "    f\n"
        "    \\x1b[0m (a\\nb.py:1)\n"
        "Thread 0xAB12 (active) [collecting garbage, unsure: read while it ran, incomplete, "
        "interpreter 3]\n");
}

static void text_of_a_child_names_its_parent(void **state)
{
    (void)state;
    struct snapshot nothing = {0};
    struct dump_process parent = {.pid = 1, .command = "sh\033"};
    struct dump_process p = process();
    p.parent = &parent;
    p.snapshot = &nothing;
    assert_text(&p, true,
                "Process \033[1;33m4242\033[0m: python app.py\n"
                "Python v3.11.7 (/usr/bin/python3.11)\n"
                "Parent Process \033[1;33m1\033[0m: sh\\x1b\n"
                "\n");
}

static void text_shows_arguments_before_variables(void **state)
{
    (void)state;
    struct dump_process p = process();
    struct snapshot one = {.threads = &states[1], .count = 1};
    oldest.frame_count = 1;
    p.snapshot = &one;
    p.variables = &variables;
    p.shorten = last_part;
    assert_text(&p, false,
                "Process 4242: python app.py\n"
                "Python v3.11.7 (/usr/bin/python3.11)\n"
                "\n"
                "Thread 4242 (idle): \"Main\\nThread\" [recvfrom tcp 127.0.0.1:5432]\n"
                "    Class.method (mod.py:12)\n"
                "        Arguments:\n"
                "            self: <Class\\n>\n"
                "        Locals:\n"
                "            x: [1, 2]\n");
    oldest.frame_count = 4;
}

static void json_has_py_spys_keys_first(void **state)
{
    (void)state;
    struct dump_process p = process();
    struct snapshot one = {.threads = &states[1], .count = 1};
    struct dump_process parent = {.pid = 1, .command = "sh"};
    oldest.frame_count = 1;
    p.snapshot = &one;
    p.variables = &variables;
    p.shorten = last_part;
    p.parent = &parent;
    char *data;
    size_t len;
    FILE *out = open_memstream(&data, &len);
    struct json json;
    json_init(&json, out, 0);
    json_begin_array(&json);
    dump_json(&json, &p);
    json_end_array(&json);
    fclose(out);
    oldest.frame_count = 4;
    char squeezed[2048], *to = squeezed;
    for (char *c = data; *c && to < squeezed + sizeof(squeezed) - 1; c++)
        if (*c != ' ' || (c > data && c[-1] != ':' && c[-1] != ','))
            *to++ = *c;
    *to = '\0';
    assert_string_equal(
        squeezed,
        "[{\"pid\":4242,\"thread_id\":7,\"thread_name\":\"Main\\nThread\",\"os_thread_id\":4242,"
        "\"active\":false,\"owns_gil\":true,\"frames\":[{\"name\":\"method\","
        "\"filename\":\"/srv/app/pkg/mod.py\",\"module\":null,\"short_filename\":\"mod.py\","
        "\"line\":12,\"locals\":[{\"name\":\"x\",\"addr\":16,\"arg\":false,\"repr\":\"[1,2]\"},"
        "{\"name\":\"self\",\"addr\":32,\"arg\":true,\"repr\":\"<Class\\n>\"}],"
        "\"is_entry\":true,\"is_shim_entry\":false,\"qualname\":\"Class.method\","
        "\"first_line\":10}],\"process_info\":{\"pid\":4242,\"command_line\":\"python app.py\","
        "\"parent\":{\"pid\":1,\"command_line\":\"sh\"}},"
        "\"wait\":\"recvfrom tcp 127.0.0.1:5432\",\"native_tid\":17,\"interpreter\":0,"
        "\"in_gc\":false,\"torn\":false,\"incomplete\":false,\"python_version\":\"3.11.7\"}]");
    free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_shows_everything_there_is),
        cmocka_unit_test(text_of_a_child_names_its_parent),
        cmocka_unit_test(text_shows_arguments_before_variables),
        cmocka_unit_test(json_has_py_spys_keys_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
