/* Descendants are looked for every SCAN_EVERY. One that does not run Python is asked again, less
 * and less often: it may exec Python later, or may just not have come that far. */
#include "engine/tree.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SCAN_EVERY      (25 * 1000 * 1000ULL)
#define SCAN_ANYWAY     (10 * SCAN_EVERY)
#define YOUNG           40 /* scans: it may have been opened between vfork and exec */
#define FIRST_RETRY     (10 * 1000 * 1000ULL)
#define SOON            40 /* tries */
#define MAX_RETRY       SCRY_NSEC_PER_SEC
#define MAX_DESCENDANTS 65536

static scry_nsec clock_now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (scry_nsec)ts.tv_sec * SCRY_NSEC_PER_SEC + (scry_nsec)ts.tv_nsec;
}

static bool grow(void **items, size_t count, size_t *cap, size_t size)
{
    if (count < *cap)
        return true;
    size_t wanted = *cap ? *cap * 2 : 8;
    void *grown = realloc(*items, wanted * size);
    if (!grown)
        return false;
    *items = grown;
    *cap = wanted;
    return true;
}

static void add_member(struct tree *tree, struct target *target)
{
    if (!grow((void **)&tree->members, tree->count, &tree->cap, sizeof(*tree->members))) {
        target_close(target);
        return;
    }
    struct member *m = &tree->members[tree->count++];
    *m = (struct member){.target = target, .process_number = REC_NONE};
}

static void member_done(struct member *m)
{
    target_close(m->target);
    table_done(&m->thread_numbers);
    table_done(&m->frame_numbers);
    table_done(&m->native_numbers);
}

void member_forget_numbers(struct member *m)
{
    m->process_number = REC_NONE;
    table_reset(&m->thread_numbers);
    table_reset(&m->frame_numbers);
    table_reset(&m->native_numbers);
}

static void remove_candidate(struct tree *tree, size_t i)
{
    process_close(tree->candidates[i].process);
    tree->candidates[i] = tree->candidates[--tree->candidate_count];
}

static int by_pid(const void *a, const void *b)
{
    pid_t x = *(const pid_t *)a, y = *(const pid_t *)b;
    return (x > y) - (x < y);
}

static bool list_known(struct tree *tree)
{
    struct pid_list *known = &tree->known;
    size_t wanted = tree->count + tree->candidate_count + 1;
    if (known->cap < wanted) {
        pid_t *grown = realloc(known->items, 2 * wanted * sizeof(*grown));
        if (!grown)
            return false;
        known->items = grown;
        known->cap = 2 * wanted;
    }
    known->count = 0;
    tree->listed = tree->candidate_count;
    for (size_t i = 0; i < tree->count; i++)
        known->items[known->count++] = tree->members[i].target->process->pid;
    for (size_t i = 0; i < tree->candidate_count; i++)
        known->items[known->count++] = tree->candidates[i].pid;
    qsort(known->items, known->count, sizeof(*known->items), by_pid);
    return true;
}

static bool is_known(const struct tree *tree, pid_t pid)
{
    return bsearch(&pid, tree->known.items, tree->known.count, sizeof(pid), by_pid);
}

static void add_candidate(struct tree *tree, pid_t pid)
{
    if (is_known(tree, pid))
        return;
    /* One that gets another parent meanwhile may be met twice. */
    for (size_t i = tree->listed; i < tree->candidate_count; i++)
        if (tree->candidates[i].pid == pid)
            return;
    if (!grow((void **)&tree->candidates, tree->candidate_count, &tree->candidate_cap,
              sizeof(*tree->candidates)))
        return;
    struct candidate c = {.pid = pid};
    if (process_open(pid, &c.process, NULL) == 0)
        tree->candidates[tree->candidate_count++] = c;
}

/* All descendants of a root, breadth first. */
static void scan_below(struct tree *tree, const struct process *root)
{
    struct pid_list found = {0};
    size_t next = 0;
    process_children_now(root->pid, &found);
    while (next < found.count && found.count < MAX_DESCENDANTS) {
        pid_t pid = found.items[next++];
        add_candidate(tree, pid);
        struct pid_list below = {0};
        process_children_now(pid, &below);
        for (size_t i = 0; i < below.count; i++) {
            if (!grow((void **)&found.items, found.count, &found.cap, sizeof(*found.items)))
                break;
            found.items[found.count++] = below.items[i];
        }
        pid_list_done(&below);
    }
    pid_list_done(&found);
}

static void scan(struct tree *tree)
{
    for (size_t i = 0; i < tree->root_count; i++)
        if (process_alive(tree->roots[i]))
            scan_below(tree, tree->roots[i]);
}

/* Where the machine has not seen a new process since, there is no new descendant. */
static bool may_have_grown(struct tree *tree, scry_nsec now)
{
    uint64_t newest = process_newest();
    if (newest && newest == tree->newest && now - tree->scanned < SCAN_ANYWAY)
        return false;
    tree->newest = newest;
    tree->scanned = now;
    return true;
}

static bool try_candidate(struct tree *tree, struct candidate *c, scry_nsec now, struct error *err)
{
    struct py_version version;
    struct target *target;
    bool likely = c->process && python_likely(c->process, &version);
    /* Python that is about to start is waited for; anything else may turn into it, some time. */
    unsigned patience = likely ? c->tries / SOON : c->tries;
    scry_nsec pause = FIRST_RETRY << (patience < 7 ? patience : 7);
    c->tries++;
    c->next_try = now + (pause < MAX_RETRY ? pause : MAX_RETRY);
    if (!likely) {
        error_set(err, -SCRY_E_NOT_PYTHON, "process %d (%.200s) does not run CPython", c->pid,
                  c->process->command);
        return false;
    }
    if (target_open(c->pid, 0, &target, err) < 0)
        return false;
    add_member(tree, target);
    return true;
}

static void try_candidates(struct tree *tree, scry_nsec now, struct error *err)
{
    for (size_t i = 0; i < tree->candidate_count;) {
        struct candidate *c = &tree->candidates[i];
        if (!process_alive(c->process))
            remove_candidate(tree, i);
        else if (now >= c->next_try && try_candidate(tree, c, now, err))
            remove_candidate(tree, i);
        else
            i++;
    }
}

/* A member that exec'ed is another program now: its memory and its Python are gone. */
static void renew_execed(struct tree *tree)
{
    for (size_t i = 0; i < tree->count; i++) {
        struct member *m = &tree->members[i];
        bool young = m->scans++ < YOUNG;
        if (m->ended || (!young && m->scans % YOUNG && process_space_lives(m->target->process)))
            continue;
        m->ended = process_execed(m->target->process);
    }
}

/* As renew_execed() asks the members: most of the time one small read is enough. */
static bool root_lives(const struct tree *tree, const struct process *root)
{
    bool sure = tree->scans < YOUNG || tree->scans % YOUNG == 0;
    return (!sure && process_space_lives(root)) || process_alive(root);
}

static bool any_root_alive(const struct tree *tree)
{
    for (size_t i = 0; i < tree->root_count; i++)
        if (root_lives(tree, tree->roots[i]))
            return true;
    return false;
}

void tree_refresh(struct tree *tree, scry_nsec now)
{
    if (now < tree->next_scan)
        return;
    tree->next_scan = now + SCAN_EVERY;
    tree->scans++;
    tree->roots_ended = !any_root_alive(tree);
    renew_execed(tree);
    tree_drop_ended(tree);
    if (!list_known(tree))
        return;
    if (tree->follow && may_have_grown(tree, now))
        scan(tree);
    for (size_t i = 0; i < tree->root_count; i++)
        if (!is_known(tree, tree->roots[i]->pid) && process_alive(tree->roots[i]))
            add_candidate(tree, tree->roots[i]->pid);
    try_candidates(tree, now, NULL);
}

/* What stays wrong however long one waits. */
static bool is_final(int error)
{
    return error == -SCRY_E_PERMISSION || error == -SCRY_E_NO_PROCESS || error == -SCRY_E_ZOMBIE ||
           error == -SCRY_E_KERNEL_THREAD || error == -SCRY_E_NO_MEMORY;
}

static int open_roots(struct tree *tree, const struct tree_wish *wish, struct error *err)
{
    int r = -SCRY_E_NO_PROCESS;
    tree->roots = calloc(wish->count ? wish->count : 1, sizeof(struct process *));
    if (!tree->roots)
        return error_set(err, -SCRY_E_NO_MEMORY, "out of memory");
    for (size_t i = 0; i < wish->count; i++) {
        r = process_open(wish->pids[i], &tree->roots[tree->root_count], err);
        if (r == 0)
            tree->root_count++;
        else if (!wish->any)
            return r;
    }
    return tree->root_count ? 0 : r;
}

static bool has_member(const struct tree *tree, pid_t pid)
{
    for (size_t i = 0; i < tree->count; i++)
        if (tree->members[i].target->process->pid == pid)
            return true;
    return false;
}

/* The roots that are not yet members. 0 when none is left, else why the first of them is none. */
static int try_roots(struct tree *tree, struct error *err)
{
    int result = 0;
    for (size_t i = 0; i < tree->root_count; i++) {
        struct target *target;
        pid_t pid = tree->roots[i]->pid;
        if (has_member(tree, pid))
            continue;
        int r = target_open(pid, 0, &target, result ? NULL : err);
        if (r == 0)
            add_member(tree, target);
        result = result ? result : r;
    }
    return result;
}

int tree_open(struct tree *tree, const struct tree_wish *wish, struct error *err)
{
    struct error own = {0};
    err = err ? err : &own;
    *tree = (struct tree){.follow = wish->follow};
    int r = open_roots(tree, wish, err);
    scry_nsec give_up = clock_now() + wish->patience;
    scry_nsec pause = 1000 * 1000;
    while (r == 0) {
        int why = try_roots(tree, err);
        if (tree->follow && list_known(tree)) {
            scan(tree);
            try_candidates(tree, clock_now(), NULL);
        }
        if (tree->count && (why == 0 || wish->follow))
            return 0;
        if (is_final(why) || clock_now() >= give_up || !any_root_alive(tree)) {
            if (tree->count && wish->any)
                return 0;
            r = why ? why : error_set(err, -SCRY_E_NO_MEMORY, "out of memory");
            break;
        }
        struct timespec ts = {.tv_nsec = (long)pause};
        nanosleep(&ts, NULL);
        if (pause < 20 * 1000 * 1000ULL)
            pause *= 2;
    }
    tree_close(tree);
    return r;
}

void tree_close(struct tree *tree)
{
    for (size_t i = 0; i < tree->count; i++)
        member_done(&tree->members[i]);
    while (tree->candidate_count)
        remove_candidate(tree, 0);
    free(tree->members);
    free(tree->candidates);
    pid_list_done(&tree->known);
    for (size_t i = 0; i < tree->root_count; i++)
        process_close(tree->roots[i]);
    free(tree->roots);
    *tree = (struct tree){0};
}

void tree_drop_ended(struct tree *tree)
{
    size_t kept = 0;
    for (size_t i = 0; i < tree->count; i++) {
        struct member *m = &tree->members[i];
        if (m->ended) {
            target_stats_add(&tree->ended, &m->target->stats);
            member_done(m);
        } else {
            tree->members[kept++] = *m;
        }
    }
    tree->count = kept;
}

bool tree_ended(const struct tree *tree)
{
    return tree->roots_ended || (tree->count == 0 && !any_root_alive(tree));
}
