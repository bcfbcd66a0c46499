#include "tool/dump.h"

#include <inttypes.h>
#include <stdio.h>

static void string_or_null(struct json *j, const char *key, const char *text)
{
    json_key(j, key);
    json_string(j, text && *text ? text : NULL);
}

static void int_field(struct json *j, const char *key, int64_t value)
{
    json_key(j, key);
    json_int(j, value);
}

static void bool_field(struct json *j, const char *key, bool value)
{
    json_key(j, key);
    json_bool(j, value);
}

static void print_locals(struct json *j, const struct py_locals *locals)
{
    json_key(j, "locals");
    if (!locals) {
        json_null(j);
        return;
    }
    json_begin_array(j);
    for (size_t i = 0; i < locals->count; i++) {
        const struct py_local *local = &locals->items[i];
        json_begin_object(j);
        json_key(j, "name");
        json_string(j, local->name);
        json_key(j, "addr");
        json_uint(j, local->addr);
        bool_field(j, "arg", local->is_arg);
        json_key(j, "repr");
        json_string(j, local->repr);
        json_end_object(j);
    }
    json_end_array(j);
}

static void print_native_frame(struct json *j, const struct dump_process *process,
                               const struct merged_frame *frame)
{
    const struct native_code *code = frame->native;
    char address[32];
    snprintf(address, sizeof(address), "0x%" PRIx64, frame->pc);
    json_begin_object(j);
    json_key(j, "name");
    json_string(j, code->name);
    json_key(j, "filename");
    json_string(j, code->file[0] ? code->file : code->module);
    json_key(j, "module");
    json_string(j, code->module);
    json_key(j, "short_filename");
    json_string(j, process->shorten ? native_code_file(code, false) : NULL);
    int_field(j, "line", code->line);
    print_locals(j, NULL);
    bool_field(j, "is_entry", false);
    bool_field(j, "is_shim_entry", false);
    json_key(j, "qualname");
    json_string(j, code->name);
    int_field(j, "first_line", code->first_line);
    json_key(j, "address");
    json_string(j, address);
    string_or_null(j, "symbol", code->symbol);
    bool_field(j, "inlined", code->inlined);
    json_end_object(j);
}

static void print_frame(struct json *j, const struct dump_process *process,
                        const struct py_frame *frame, const struct py_locals *locals)
{
    const struct py_code *code = frame->code;
    json_begin_object(j);
    json_key(j, "name");
    json_string(j, code->name);
    json_key(j, "filename");
    json_string(j, code->filename);
    json_key(j, "module");
    json_null(j);
    json_key(j, "short_filename");
    json_string(j, process->shorten ? process->shorten(code->filename, process->context) : NULL);
    int_field(j, "line", frame->line);
    print_locals(j, locals);
    bool_field(j, "is_entry", frame->is_entry);
    bool_field(j, "is_shim_entry", frame->is_shim_entry);
    json_key(j, "qualname");
    json_string(j, code->qualname);
    int_field(j, "first_line", code->first_line);
    json_end_object(j);
}

/* The process asked for has none, as in py-spy; a descendant says whose child it is. */
static void print_process_info(struct json *j, const struct dump_process *process)
{
    json_key(j, "process_info");
    if (!process->parent) {
        json_null(j);
        return;
    }
    json_begin_object(j);
    int_field(j, "pid", process->pid);
    json_key(j, "command_line");
    json_string(j, process->command);
    json_key(j, "parent");
    json_begin_object(j);
    int_field(j, "pid", process->parent->pid);
    json_key(j, "command_line");
    json_string(j, process->parent->command);
    json_end_object(j);
    json_end_object(j);
}

static void print_thread(struct json *j, const struct dump_process *process,
                         const struct thread_state *thread)
{
    json_begin_object(j);
    int_field(j, "pid", process->pid);
    json_key(j, "thread_id");
    json_uint(j, thread->python->thread_id);
    string_or_null(j, "thread_name", thread->name);
    json_key(j, "os_thread_id");
    if (thread->tid > 0)
        json_int(j, thread->tid);
    else
        json_null(j);
    bool_field(j, "active", thread->active);
    bool_field(j, "owns_gil", thread->owns_gil);
    json_key(j, "frames");
    json_begin_array(j);
    for (size_t i = 0; i < thread_frame_count(thread); i++) {
        struct merged_frame f = thread_frame(thread, i);
        if (f.native)
            print_native_frame(j, process, &f);
        else
            print_frame(j, process, &thread->python->frames[f.python],
                        dump_variables_of(process, thread->python, f.python));
    }
    json_end_array(j);
    print_process_info(j, process);

    string_or_null(j, "wait", thread->wait);
    json_key(j, "native_tid");
    if (thread->ns_tid > 0)
        json_int(j, thread->ns_tid);
    else
        json_null(j);
    int_field(j, "interpreter", thread->python->interp_id);
    bool_field(j, "in_gc", thread->python->in_gc);
    bool_field(j, "torn", thread->torn);
    bool_field(j, "incomplete", thread->python->incomplete);
    if (thread->merged) {
        json_key(j, "native");
        json_string(j, native_state_word(thread->merged->state));
    }
    json_key(j, "python_version");
    json_string(j, process->python);
    if (process->crash) {
        json_key(j, "signal");
        if (dump_crashed(process, thread) && process->crash->signal)
            json_int(j, process->crash->signal);
        else
            json_null(j);
    }
    json_end_object(j);
}

void dump_json(struct json *json, const struct dump_process *process)
{
    const struct snapshot *snapshot = process->snapshot;
    for (size_t i = 0; i < snapshot->count; i++)
        if (dump_crashed(process, &snapshot->threads[i]))
            print_thread(json, process, &snapshot->threads[i]);
    for (size_t i = 0; i < snapshot->count; i++)
        if (!dump_crashed(process, &snapshot->threads[i]))
            print_thread(json, process, &snapshot->threads[i]);
}
