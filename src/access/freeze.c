#include "access/freeze.h"

#include <stdlib.h>

#include "access/registers.h"

#define ROUNDS 16 /* of new threads: those that are stopped make no more */
#define QUIET  2  /* rounds without any: a list is cut short where a thread ends while it is made */

struct frozen {
    struct stop stop;
    enum task_activity activity;
};

static int by_tid(const void *a, const void *b)
{
    const struct frozen *x = a, *y = b;
    return (x->stop.tid > y->stop.tid) - (x->stop.tid < y->stop.tid);
}

/* Among the first `count`, which are in order. */
static struct frozen *find(const struct freeze *f, size_t count, pid_t tid)
{
    struct frozen key = {.stop.tid = tid};
    return count ? bsearch(&key, f->threads, count, sizeof(key), by_tid) : NULL;
}

static bool reserve(struct freeze *f, size_t count)
{
    if (f->cap >= count)
        return true;
    struct frozen *grown = realloc(f->threads, (count + 16) * sizeof(*grown));
    if (!grown)
        return false;
    f->threads = grown;
    f->cap = count + 16;
    return true;
}

/* All are asked before any is waited for. */
static int ask(struct freeze *f, size_t known)
{
    int r = 0;
    for (size_t i = 0; i < f->ids.count; i++) {
        pid_t tid = f->ids.items[i].tid;
        if (find(f, known, tid))
            continue;
        struct frozen *fresh = &f->threads[f->count];
        *fresh = (struct frozen){.activity = TASK_UNKNOWN};
        int asked = stop_ask(&fresh->stop, tid);
        if (asked == 0)
            f->count++;
        else
            r = r ? r : asked;
    }
    return r;
}

static void await(struct freeze *f, size_t first, scry_nsec limit)
{
    for (size_t i = first; i < f->count; i++) {
        struct frozen *t = &f->threads[i];
        if (stop_await(&t->stop, limit) == 0)
            t->activity = registers_show_sleep(t->stop.tid) ? TASK_BLOCKED : TASK_RUNNING;
    }
    if (f->count)
        qsort(f->threads, f->count, sizeof(*f->threads), by_tid);
}

int freeze_begin(struct freeze *f, const struct process *process, scry_nsec limit)
{
    int r = 0, refused = 0, quiet = 0;
    f->count = 0;
    for (int i = 0; i < ROUNDS && quiet < QUIET && r == 0; i++) {
        size_t known = f->count;
        r = tasks_ids(process, &f->ids);
        if (r == 0 && !reserve(f, known + f->ids.count))
            r = -SCRY_E_NO_MEMORY;
        if (r == 0)
            refused = ask(f, known);
        await(f, known, limit);
        quiet = f->count == known ? quiet + 1 : 0;
    }
    f->begun = f->count ? f->threads[0].stop.asked : 0;
    for (size_t k = 0; k < f->count; k++)
        if (f->threads[k].stop.asked < f->begun)
            f->begun = f->threads[k].stop.asked;
    return f->count ? 0 : r ? r : refused;
}

bool freeze_holds(const struct freeze *f, pid_t tid)
{
    const struct frozen *t = find(f, f->count, tid);
    return t && t->stop.held;
}

enum task_activity freeze_activity(const struct freeze *f, pid_t tid)
{
    const struct frozen *t = find(f, f->count, tid);
    return t && t->stop.held ? t->activity : TASK_UNKNOWN;
}

void freeze_let_go(struct freeze *f, pid_t tid)
{
    struct frozen *t = find(f, f->count, tid);
    if (t)
        stop_release(&t->stop);
}

void freeze_end(struct freeze *f)
{
    for (size_t i = 0; i < f->count; i++)
        stop_release(&f->threads[i].stop);
    f->count = 0;
}

void freeze_done(struct freeze *f)
{
    freeze_end(f);
    free(f->threads);
    tasks_done(&f->ids);
    *f = (struct freeze){0};
}
