#include "tool/dump.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tool/text.h"

void dump_variables_drop(struct dump_variables *variables)
{
    for (size_t i = 0; i < variables->count; i++)
        py_locals_done(&variables->frames[i]);
    free(variables->frames);
    variables->frames = NULL;
    variables->count = 0;
}

void dump_variables_done(struct dump_variables_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        dump_variables_drop(&list->items[i]);
    free(list->items);
    *list = (struct dump_variables_list){0};
}

const struct py_locals *dump_variables_of(const struct dump_process *process,
                                          const struct py_thread *thread, size_t frame)
{
    const struct dump_variables_list *list = process->variables;
    for (size_t i = 0; list && i < list->count; i++)
        if (list->items[i].tstate == thread->tstate && frame < list->items[i].count)
            return &list->items[i].frames[frame];
    return NULL;
}

bool dump_crashed(const struct dump_process *process, const struct thread_state *thread)
{
    return process->crash && thread->tid > 0 && thread->tid == process->crash->tid;
}

static void print_variables(FILE *out, const struct py_locals *locals, bool arguments)
{
    bool headed = false;
    for (size_t i = 0; i < locals->count; i++) {
        const struct py_local *local = &locals->items[i];
        if (local->is_arg != arguments)
            continue;
        if (!headed)
            fprintf(out, "        %s:\n", arguments ? "Arguments" : "Locals");
        headed = true;
        fputs("            ", out);
        text_print(out, local->name);
        fputs(": ", out);
        text_print(out, local->repr);
        fputc('\n', out);
    }
}

static void print_place(FILE *out, const struct style *style, const char *name, const char *file,
                        int32_t line)
{
    fprintf(out, "    %s", style->function);
    text_print(out, name);
    fputs(style->end, out);
    if (*file) {
        fprintf(out, " (%s", style->file);
        text_print(out, file);
        fputs(style->end, out);
        if (line > 0)
            fprintf(out, ":%s%" PRId32 "%s", style->dim, line, style->end);
        fputc(')', out);
    }
    fputc('\n', out);
}

static void print_frame(FILE *out, const struct style *style, const struct dump_process *process,
                        const struct thread_state *thread, size_t index)
{
    const struct py_frame *frame = &thread->python->frames[index];
    const struct py_code *code = frame->code;
    print_place(out, style, code->qualname,
                process->shorten ? process->shorten(code->filename, process->context)
                                 : code->filename,
                frame->line);
    const struct py_locals *locals = dump_variables_of(process, thread->python, index);
    if (locals) {
        print_variables(out, locals, true);
        print_variables(out, locals, false);
    }
}

static const char *status(const struct thread_state *thread)
{
    if (!thread->active)
        return "idle";
    return thread->owns_gil ? "active+gil" : "active";
}

static void add_mark(struct buf *to, const char *mark)
{
    if (!*mark)
        return;
    buf_add_str(to, to->len ? ", " : " [");
    text_add_printable(to, mark);
}

/* What py-spy does not say. It follows everything that py-spy says, so that programs that read the
 * line from the left are not disturbed. */
static void print_marks(FILE *out, const struct style *style, const struct dump_process *process,
                        const struct thread_state *thread)
{
    SCOPED_BUF marks;
    buf_init(&marks);
    if (dump_crashed(process, thread) && process->crash->signal)
        add_mark(&marks, "died here");
    if (thread->wait[0])
        add_mark(&marks, thread->wait);
    if (thread->python->in_gc)
        add_mark(&marks, "collecting garbage");
    if (thread->torn)
        add_mark(&marks, "unsure: read while it ran");
    if (thread->python->incomplete)
        add_mark(&marks, "incomplete");
    if (thread->merged)
        add_mark(&marks, native_state_text(thread->merged->state));
    if (thread->python->interp_id > 0) {
        char interpreter[48];
        snprintf(interpreter, sizeof(interpreter), "interpreter %" PRId64,
                 thread->python->interp_id);
        add_mark(&marks, interpreter);
    }
    if (marks.len)
        fprintf(out, "%s%s]%s", style->dim, marks.data, style->end);
}

static void print_thread(FILE *out, const struct style *style, const struct dump_process *process,
                         const struct thread_state *thread)
{
    fprintf(out, "Thread %s", style->number);
    if (thread->tid > 0)
        fprintf(out, "%d", thread->tid);
    else
        fprintf(out, "0x%" PRIX64, thread->python->thread_id);
    fprintf(out, "%s (%s)", style->end, status(thread));
    if (thread->name && *thread->name) {
        fputs(": \"", out);
        text_print(out, thread->name);
        fputc('"', out);
    }
    print_marks(out, style, process, thread);
    fputc('\n', out);

    for (size_t i = 0; i < thread_frame_count(thread); i++) {
        struct merged_frame f = thread_frame(thread, i);
        if (f.native)
            print_place(out, style, f.native->name, native_code_file(f.native, !process->shorten),
                        f.native->line);
        else
            print_frame(out, style, process, thread, f.python);
    }
}

static void print_process_line(FILE *out, const struct style *style, const char *what,
                               const struct dump_process *process)
{
    fprintf(out, "%s %s%d%s: ", what, style->number, process->pid, style->end);
    text_print(out, process->command);
    fputc('\n', out);
}

/* Begins as py-spy's line does. */
static void print_crash(FILE *out, const struct style *style, const struct dump_crash *crash)
{
    if (crash->signal)
        fprintf(out, "Signal %s%d%s: ", style->number, crash->signal, style->end);
    else
        fputs("No signal: ", out);
    text_print(out, crash->core);
    if (!crash->signal)
        fputs(" (copied from a living process)", out);
    if (crash->signal_name) {
        fprintf(out, " (%s", crash->signal_name);
        if (crash->has_fault)
            fprintf(out, " at address 0x%" PRIx64, crash->fault);
        fputc(')', out);
    }
    fputc('\n', out);
}

void dump_text(FILE *out, const struct style *style, const struct dump_process *process)
{
    const struct snapshot *snapshot = process->snapshot;
    if (process->crash)
        print_crash(out, style, process->crash);
    print_process_line(out, style, "Process", process);
    fprintf(out, "Python v%s (", process->python);
    text_print(out, process->exe);
    fputs(")\n", out);
    if (process->parent)
        print_process_line(out, style, "Parent Process", process->parent);
    fputc('\n', out);
    for (size_t i = 0; i < snapshot->count; i++)
        if (dump_crashed(process, &snapshot->threads[i]))
            print_thread(out, style, process, &snapshot->threads[i]);
    /* Oldest first, so that the main thread leads. */
    for (size_t i = snapshot->count; i-- > 0;)
        if (!dump_crashed(process, &snapshot->threads[i]))
            print_thread(out, style, process, &snapshot->threads[i]);
}
