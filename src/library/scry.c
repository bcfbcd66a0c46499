/* The public face: translates between include/scry/scry.h and the engine. Structs that cross the
 * border begin with their size, so that a program built against an older header keeps working. */
#include "scry/scry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/target.h"
#include "version.h"

struct scry_target {
    struct target *target;
    struct look look;
    const struct snapshot *snapshot;
    char version[32];
};

_Static_assert((int)SCRY_BLOCKING_AUTO == (int)BLOCKING_AUTO &&
                   (int)SCRY_BLOCKING_ALWAYS == (int)BLOCKING_ALWAYS &&
                   (int)SCRY_BLOCKING_NEVER == (int)BLOCKING_NEVER,
               "the public and the inner enum agree");

const char *scry_version(void)
{
    return SCRY_VERSION;
}

const char *scry_strerror(int code)
{
    return error_sentence(code);
}

/* Copy as much as the caller's struct has room for, leaving its size field as it is. */
static void hand_out(void *to, const void *from, size_t known_size)
{
    size_t size;
    memcpy(&size, to, sizeof(size));
    size_t n = size < known_size ? size : known_size;
    if (n > sizeof(size))
        memcpy((char *)to + sizeof(size), (const char *)from + sizeof(size), n - sizeof(size));
}

static void tell(struct scry_error *to, const struct error *from)
{
    if (!to)
        return;
    struct scry_error e = {.code = from->code};
    snprintf(e.text, sizeof(e.text), "%s", error_text(from));
    snprintf(e.hint, sizeof(e.hint), "%s", error_hint_text(from));
    hand_out(to, &e, sizeof(e));
}

static struct scry_options read_options(const struct scry_options *given)
{
    struct scry_options o = {.size = sizeof(o), .wait_reasons = true};
    if (given)
        memcpy(&o, given, given->size < sizeof(o) ? given->size : sizeof(o));
    return o;
}

int scry_attach(int pid, const struct scry_options *options, scry_target **ret_target,
                struct scry_error *error)
{
    struct error err = {0};
    struct scry_options o = read_options(options);
    struct scry_target *t = calloc(1, sizeof(*t));
    int r = t ? 0 : error_set(&err, -SCRY_E_NO_MEMORY, "out of memory");
    if (r == 0)
        r = target_open(pid, o.patience_ms * 1000000ULL, &t->target, &err);
    if (r < 0) {
        err.code = r;
        tell(error, &err);
        free(t);
        return r;
    }
    t->look = (struct look){.blocking = (enum blocking)o.blocking, .wait_reasons = o.wait_reasons};
    py_version_text(t->target->python, t->version, sizeof(t->version));
    *ret_target = t;
    return 0;
}

void scry_detach(scry_target *t)
{
    if (!t)
        return;
    target_close(t->target);
    free(t);
}

int scry_pid(const scry_target *t)
{
    return t->target->process->pid;
}

const char *scry_python_version(const scry_target *t)
{
    return t->version;
}

const char *scry_command_line(const scry_target *t)
{
    return t->target->process->command;
}

int scry_sample(scry_target *t)
{
    t->snapshot = NULL;
    return target_look(t->target, &t->look, &t->snapshot);
}

size_t scry_thread_count(const scry_target *t)
{
    return t->snapshot ? t->snapshot->count : 0;
}

bool scry_get_thread(const scry_target *t, size_t thread, struct scry_thread *ret_thread)
{
    if (thread >= scry_thread_count(t))
        return false;
    const struct thread_state *s = &t->snapshot->threads[thread];
    hand_out(ret_thread,
             &(struct scry_thread){
                 .thread_id = s->python->thread_id,
                 .os_thread_id = s->tid,
                 .name = s->name,
                 .active = s->active,
                 .owns_gil = s->owns_gil,
                 .torn = s->torn,
                 .wait = s->wait,
                 .frame_count = s->python->frame_count,
             },
             sizeof(struct scry_thread));
    return true;
}

bool scry_get_frame(const scry_target *t, size_t thread, size_t frame, struct scry_frame *ret_frame)
{
    if (thread >= scry_thread_count(t))
        return false;
    const struct py_thread *p = t->snapshot->threads[thread].python;
    if (frame >= p->frame_count)
        return false;
    const struct py_frame *f = &p->frames[frame];
    hand_out(ret_frame,
             &(struct scry_frame){
                 .name = f->code->name,
                 .qualified_name = f->code->qualname,
                 .filename = f->code->filename,
                 .line = f->line,
                 .first_line = f->code->first_line,
                 .is_entry = f->is_entry,
             },
             sizeof(struct scry_frame));
    return true;
}
