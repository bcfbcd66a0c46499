#include "http/processes.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>

#include <pthread.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "access/container.h"
#include "access/permission.h"
#include "access/process.h"
#include "access/procfs.h"
#include "access/task.h"
#include "cpython/python.h"
#include "format/words.h"
#include "http/child.h"
#include "http/facts.h"
#include "http/jobs.h"
#include "http/json_in.h"
#include "http/listeners.h"
#include "http/pod.h"
#include "http/reply.h"
#include "util/json.h"

#define FRESH_MS     1000
#define STALE_MS     5000  /* so old may the list be that is given out while a new one is made */
#define ASK_MS       2000  /* at most so often is scry ps started */
#define RECHECK_MS   5000  /* a process that is no Python may become one ... */
#define YOUNG_MS     60000 /* ... mostly while it is young; later it is asked less often */
#define PS_TIME      (5 * SCRY_NSEC_PER_SEC)
#define PS_OUTPUT    (64u << 20)
#define PS_MEMORY    (1u << 30)
#define COMMAND_MAX  4096 /* bytes of a command line that are listed */
#define WAIT_MAX     160
#define ANSWERED_MAX 6 /* times scry ps is asked about one process that it does not know */

struct entry {
    pid_t pid;
    uint64_t start_time;
    bool seen;       /* in this pass */
    bool python;     /* worth a row */
    int64_t checked; /* when it was last asked whether it is Python */
    /* what scry ps said */
    bool known;
    unsigned asked;
    bool can_attach;
    char reason[32];
    char *why, *remedy;
    char version[32];
    /* of this pass */
    pid_t ns_pid, parent;
    char *command, *exe;
    uid_t uid;
    char user[64];
    char state;
    int64_t threads, rss, started;
    char wait[WAIT_MAX];
    char container[64];
    bool in_pod;
    struct pod pod;
    ino_t network; /* its network namespace */
    char role[96]; /* in a cluster: "worker alice"; "" = none */
    double cpu_percent, cpu_seconds;
    int64_t measured; /* when cpu_seconds was */
};

struct processes {
    pthread_mutex_t lock;
    const char *node, *name;
    const struct policy *policy;
    struct entry *items; /* by pid */
    size_t count, cap;
    int64_t made;  /* when the list was; monotonic ms */
    int64_t asked; /* when scry ps was last started */
    bool asking;   /* it runs, and the lock is open meanwhile */
    bool answered; /* at least once */
    pthread_cond_t over;
    int64_t boot; /* unix time of boot in ms */
    long ticks;
    long page;
    struct jobs *jobs; /* may be NULL */
    /* What was made last, for who must not wait until the next is. */
    pthread_mutex_t shown_lock;
    struct buf json;
    size_t shown;     /* processes in it */
    int64_t shown_at; /* monotonic ms; 0 = never */
};

static int64_t monotonic_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int processes_new(const char *node, const char *name, const struct policy *policy,
                  struct processes **ret)
{
    struct processes *p = calloc(1, sizeof(*p));
    if (!p)
        return -SCRY_E_NO_MEMORY;
    struct timespec boot;
    clock_gettime(CLOCK_BOOTTIME, &boot);
    *p = (struct processes){
        .node = node,
        .name = name,
        .policy = policy,
        .made = -FRESH_MS,
        .asked = -ASK_MS,
        .boot = reply_now() - ((int64_t)boot.tv_sec * 1000 + boot.tv_nsec / 1000000),
        .ticks = sysconf(_SC_CLK_TCK),
        .page = sysconf(_SC_PAGESIZE),
    };
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->over, NULL);
    pthread_mutex_init(&p->shown_lock, NULL);
    buf_init(&p->json);
    *ret = p;
    return 0;
}

void processes_set_jobs(struct processes *p, struct jobs *jobs)
{
    p->jobs = jobs;
}

static void entry_done(struct entry *e)
{
    free(e->why);
    free(e->remedy);
    free(e->command);
    free(e->exe);
}

void processes_free(struct processes *p)
{
    if (!p)
        return;
    for (size_t i = 0; i < p->count; i++)
        entry_done(&p->items[i]);
    free(p->items);
    buf_done(&p->json);
    pthread_cond_destroy(&p->over);
    pthread_mutex_destroy(&p->shown_lock);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

/* ---- one process ---- */

/* Fields of /proc/PID/stat that access/ has no use for. */
static void read_figures(struct processes *p, struct entry *e, const char *stat_text)
{
    const char *after = strrchr(stat_text, ')');
    unsigned long long user = 0, system = 0;
    long long threads = 0, rss = 0;
    if (!after ||
        sscanf(after + 1,
               " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %*d %*d %*d %*d %lld %*d "
               "%*u %*u %lld",
               &user, &system, &threads, &rss) != 4)
        return;
    int64_t at = monotonic_ms();
    double seconds = (double)(user + system) / (double)p->ticks;
    double age = (double)(reply_now() - e->started) / 1000.0;
    if (e->measured && at > e->measured)
        e->cpu_percent = (seconds - e->cpu_seconds) * 1e5 / (double)(at - e->measured);
    else
        e->cpu_percent = age > 0.01 ? seconds * 100.0 / age : 0;
    if (e->cpu_percent < 0)
        e->cpu_percent = 0;
    e->cpu_seconds = seconds;
    e->measured = at;
    e->threads = threads;
    e->rss = rss * p->page;
}

static void name_user(struct entry *e, uid_t uid)
{
    struct passwd entry, *found = NULL;
    char text[4096];
    if (e->user[0] && e->uid == uid)
        return;
    e->uid = uid;
    if (getpwuid_r(uid, &entry, text, sizeof(text), &found) == 0 && found)
        snprintf(e->user, sizeof(e->user), "%.60s", entry.pw_name);
    else
        snprintf(e->user, sizeof(e->user), "%u", uid);
}

static void replace(char **to, const char *text, size_t max)
{
    if (*to && strncmp(*to, text, max) == 0 && strlen(*to) == strnlen(text, max))
        return;
    free(*to);
    *to = strndup(text, max);
}

/* What may change from one moment to the next. */
static void look_again(struct entry *e, const struct process *process, char state)
{
    struct stat st;
    e->ns_pid = process->ns_pid;
    e->parent = process->parent;
    replace(&e->command, process->command, COMMAND_MAX);
    replace(&e->exe, process->exe, COMMAND_MAX);
    if (fstat(process->proc_fd, &st) == 0)
        name_user(e, st.st_uid);
    e->state = state;
    e->wait[0] = '\0';
    if (state == 'S' || state == 'D')
        task_wait_reason(process, process->pid, e->wait, sizeof(e->wait));
}

/* What stays as it is. */
static void look_once(struct entry *e, const struct process *process)
{
    struct stat st;
    if (fstatat(process->proc_fd, "ns/net", &st, 0) == 0)
        e->network = st.st_ino;
    process_container(process, e->container, sizeof(e->container));
    e->in_pod = pod_of(process, &e->pod);
}

/* A program that replaced itself has another executable. */
static void notice_exec(struct entry *e, const struct process *process)
{
    if (e->exe && strcmp(e->exe, process->exe) != 0) {
        e->known = false;
        e->asked = 0;
        e->version[0] = '\0';
    }
}

static bool is_due(const struct entry *e, int64_t at, int64_t age)
{
    int64_t pause = age < YOUNG_MS ? RECHECK_MS : 12 * RECHECK_MS;
    /* In its first seconds a process becomes what it is. */
    if (age < RECHECK_MS)
        pause = 0;
    return !e->checked || at - e->checked >= pause;
}

static void inspect(struct processes *p, struct entry *e, const struct proc_stat *stat,
                    const char *text)
{
    int64_t at = monotonic_ms();
    bool first = !e->started;
    e->started = p->boot + (int64_t)(e->start_time * 1000 / (uint64_t)p->ticks);
    if (!e->python && !is_due(e, at, reply_now() - e->started))
        return;
    struct process *process = NULL;
    struct py_version version = {0};
    if (process_peek(e->pid, &process, NULL) != 0)
        return;
    notice_exec(e, process);
    if (!e->python || !e->known) {
        e->checked = at;
        bool was = e->python;
        e->python = python_likely(process, &version);
        if (e->python && version.major && !e->version[0])
            snprintf(e->version, sizeof(e->version), "%u.%u", version.major, version.minor);
        first |= e->python && !was;
    }
    if (e->python) {
        look_again(e, process, stat->state);
        read_figures(p, e, text);
        if (first || !e->known)
            look_once(e, process);
    }
    process_close(process);
}

/* ---- the list ---- */

static struct entry *find_entry(struct processes *p, pid_t pid)
{
    size_t low = 0, high = p->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (p->items[middle].pid < pid)
            low = middle + 1;
        else
            high = middle;
    }
    return low < p->count && p->items[low].pid == pid ? &p->items[low] : NULL;
}

/* The pids come in order, and so do the entries. */
static bool merge_pids(struct processes *p, const struct pid_list *pids)
{
    struct entry *made = calloc(pids->count + 1, sizeof(*made));
    size_t old = 0;
    if (!made)
        return false;
    for (size_t i = 0; i < pids->count; i++) {
        while (old < p->count && p->items[old].pid < pids->items[i])
            entry_done(&p->items[old++]);
        if (old < p->count && p->items[old].pid == pids->items[i])
            made[i] = p->items[old++];
        else
            made[i] = (struct entry){.pid = pids->items[i]};
    }
    while (old < p->count)
        entry_done(&p->items[old++]);
    free(p->items);
    p->items = made;
    p->count = pids->count;
    return true;
}

static void visit(struct processes *p, struct entry *e)
{
    char path[64], text[PROC_STAT_MAX];
    struct proc_stat stat;
    snprintf(path, sizeof(path), "/proc/%d/stat", e->pid);
    e->seen = procfs_read_small(AT_FDCWD, path, text, sizeof(text)) > 0 &&
              proc_stat_parse(text, &stat) == 0 && stat.state != 'Z' && stat.state != 'X';
    if (!e->seen)
        return;
    if (e->start_time != stat.start_time) {
        entry_done(e);
        *e = (struct entry){.pid = e->pid, .start_time = stat.start_time, .seen = true};
    }
    if (stat.flags & 0x00200000) /* a kernel thread */
        return;
    inspect(p, e, &stat, text);
}

/* ---- what scry ps knows ---- */

static void take_text(char **to, const json_t *row, const char *name)
{
    const char *text = json_string_value(json_object_get(row, name));
    free(*to);
    *to = text ? strdup(text) : NULL;
}

static void take_row(struct entry *e, const json_t *row)
{
    const char *version = json_string_value(json_object_get(row, "version"));
    const char *reason = json_string_value(json_object_get(row, "reason"));
    if (version && *version)
        snprintf(e->version, sizeof(e->version), "%s", version);
    e->can_attach = json_is_true(json_object_get(row, "can_attach"));
    snprintf(e->reason, sizeof(e->reason), "%s", reason ? reason : "");
    take_text(&e->why, row, "why");
    take_text(&e->remedy, row, "remedy");
    e->known = true;
}

static void take_rows(struct processes *p, const char *text, size_t len)
{
    json_t *rows = json_loadb(text, len, 0, NULL);
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row)
    {
        struct entry *e = find_entry(p, (pid_t)json_integer_value(json_object_get(row, "pid")));
        if (e && e->python)
            take_row(e, row);
    }
    json_decref(rows);
}

static bool somebody_unknown(const struct processes *p)
{
    for (size_t i = 0; i < p->count; i++)
        if (p->items[i].python && !p->items[i].known)
            return true;
    return false;
}

/* Those that scry ps does not list although they look like Python are not ready yet, or none. */
static void give_up_unknown(struct processes *p)
{
    for (size_t i = 0; i < p->count; i++) {
        struct entry *e = &p->items[i];
        if (!e->python || e->known)
            continue;
        if (++e->asked >= ANSWERED_MAX) {
            e->python = false;
            e->asked = 0;
            e->checked = monotonic_ms();
        }
    }
}

/* With the lock held; it is open while scry ps runs, so that others can have the list as it is: a
 * program that is started now is not worth that all wait for it. */
static bool ask_inside(struct processes *p)
{
    int64_t at = monotonic_ms();
    if (p->asking || at - p->asked < ASK_MS || !somebody_unknown(p))
        return false;
    p->asked = at;
    p->asking = true;
    const char *argv[] = {"ps", "--json", NULL};
    struct child_job job = {
        .argv = argv,
        .out_fd = -1,
        .limits = {.time = PS_TIME, .output = PS_OUTPUT, .memory = PS_MEMORY, .cpu_seconds = 10},
    };
    struct child_result result;
    child_result_init(&result);
    pthread_mutex_unlock(&p->lock);
    child_run(&job, &result);
    pthread_mutex_lock(&p->lock);
    if (result.end == CHILD_OK)
        take_rows(p, result.out.data, result.out.len);
    child_result_done(&result);
    give_up_unknown(p);
    p->asking = false;
    p->answered = true;
    pthread_cond_broadcast(&p->over);
    return true;
}

/* With the lock held. */
static void wait_for_answer(struct processes *p)
{
    while (p->asking)
        pthread_cond_wait(&p->over, &p->lock);
}

/* ---- as JSON ---- */

static void put(struct json *j, const char *key, const char *text)
{
    json_key(j, key);
    json_string(j, text ? text : "");
}

static void put_or_null(struct json *j, const char *key, const char *text)
{
    json_key(j, key);
    json_string(j, text && *text ? text : NULL);
}

static void put_number(struct json *j, const char *key, int64_t value)
{
    json_key(j, key);
    json_int(j, value);
}

static void put_rounded(struct json *j, const char *key, double value)
{
    json_key(j, key);
    json_double(j, (double)(int64_t)(value * 100 + 0.5) / 100);
}

static const char *state_word(char state)
{
    switch (state) {
    case 'R':
        return "running";
    case 'S':
    case 'I':
        return "sleeping";
    case 'D':
        return "waiting";
    case 'T':
    case 't':
        return "stopped";
    default:
        return "unknown";
    }
}

/* "ray::train_step" is task train_step; "ray::IDLE" is none. */
static const char *ray_task(const char *command)
{
    if (strncmp(command, "ray::", 5) != 0)
        return NULL;
    const char *name = command + 5;
    return strncmp(name, "IDLE", 4) == 0 || !*name ? NULL : name;
}

static const char *kind_of(const char *command)
{
    if (strncmp(command, "ray::", 5) == 0)
        return "ray";
    if (strstr(command, "distributed.cli.dask_") || strstr(command, "dask worker") ||
        strstr(command, "dask scheduler") || strstr(command, "dask-worker") ||
        strstr(command, "dask-scheduler") || strstr(command, "distributed.nanny"))
        return "dask";
    return "python";
}

static void put_title(struct json *j, const char *command)
{
    SCOPED_BUF title;
    buf_init(&title);
    if (strncmp(command, "ray::", 5) == 0)
        words_clean(&title, command);
    else
        words_program(&title, command);
    put(j, "title", title.data);
}

static void put_pod(struct json *j, const struct entry *e)
{
    json_key(j, "pod");
    if (!e->in_pod) {
        json_null(j);
        return;
    }
    json_begin_object(j);
    put_or_null(j, "name", e->pod.name);
    put_or_null(j, "namespace", e->pod.space);
    put_or_null(j, "uid", e->pod.uid);
    put_or_null(j, "container", e->pod.container);
    json_end_object(j);
}

static void put_access(struct json *j, const struct processes *p, const struct entry *e)
{
    struct error err = {0};
    bool allowed = policy_check(p->policy, e->pid, e->uid, &err) == 0;
    json_key(j, "can_attach");
    json_bool(j, allowed && e->can_attach);
    put(j, "reason", allowed ? e->reason : "policy");
    put_or_null(j, "why", allowed ? e->why : error_text(&err));
    put_or_null(j, "remedy", allowed ? e->remedy : error_hint_text(&err));
}

static void put_row(struct json *j, const struct processes *p, const struct entry *e)
{
    const char *command = e->command ? e->command : "";
    char time[REPLY_TIME_MAX];
    reply_time(e->started, time);
    json_begin_object(j);
    put(j, "node", p->node);
    put(j, "node_name", p->name);
    put_number(j, "pid", e->pid);
    put_number(j, "ns_pid", e->ns_pid);
    put_number(j, "parent", e->parent);
    put(j, "started", time);
    put(j, "python", e->version);
    put(j, "command", command);
    put_title(j, command);
    put_or_null(j, "group", e->role[0] ? e->role : ray_task(command));
    put(j, "kind", e->role[0] ? "dask" : kind_of(command));
    put(j, "executable", e->exe);
    put(j, "user", e->user);
    put_number(j, "uid", (int64_t)e->uid);
    put_number(j, "threads", e->threads);
    put(j, "state", state_word(e->state));
    put_or_null(j, "wait", e->wait);
    put_rounded(j, "cpu_percent", e->cpu_percent);
    put_rounded(j, "cpu_seconds", e->cpu_seconds);
    put_number(j, "rss", e->rss);
    put_or_null(j, "container", e->container);
    put_pod(j, e);
    put_access(j, p, e);
    char recording[STORE_ID_MAX] = "";
    if (p->jobs)
        jobs_recording_of(p->jobs, e->pid, recording);
    put_or_null(j, "recording", recording);
    json_end_object(j);
}

static ssize_t into_buf(void *cookie, const char *data, size_t len)
{
    buf_add(cookie, data, len);
    return (ssize_t)len;
}

static FILE *open_buf(struct buf *to)
{
    return fopencookie(to, "w", (cookie_io_functions_t){.write = into_buf});
}

static bool listed(const struct entry *e)
{
    return e->seen && e->python && e->known;
}

/* With the lock held. */
static void write_list(struct processes *p)
{
    struct json j;
    struct buf made;
    size_t count = 0;
    buf_init(&made);
    FILE *out = open_buf(&made);
    if (!out)
        return;
    json_init(&j, out, 0);
    json_begin_object(&j);
    json_key(&j, "processes");
    json_begin_array(&j);
    for (size_t i = 0; i < p->count; i++)
        if (listed(&p->items[i])) {
            put_row(&j, p, &p->items[i]);
            count++;
        }
    json_end_array(&j);
    json_end_object(&j);
    fclose(out);
    pthread_mutex_lock(&p->shown_lock);
    struct buf before = p->json;
    p->json = made;
    p->shown = count;
    p->shown_at = monotonic_ms();
    pthread_mutex_unlock(&p->shown_lock);
    buf_done(&before);
}

/* With the lock held, which may be open for a while meanwhile: entries found before are not to be
 * used after. */
static void refresh(struct processes *p, bool force)
{
    int64_t at = monotonic_ms();
    struct pid_list pids;
    if (force || !p->answered)
        wait_for_answer(p);
    if (!force && at - p->made < FRESH_MS)
        return;
    if (process_list(&pids) != 0)
        return;
    if (merge_pids(p, &pids)) {
        for (size_t i = 0; i < p->count; i++)
            visit(p, &p->items[i]);
        p->made = monotonic_ms();
        if (p->answered || !somebody_unknown(p))
            write_list(p);
        if (ask_inside(p))
            write_list(p);
    }
    pid_list_done(&pids);
}

/* Whoever finds the list old makes a new one; who comes meanwhile gets the one before. */
static void refresh_shown(struct processes *p)
{
    if (pthread_mutex_trylock(&p->lock) != 0) {
        pthread_mutex_lock(&p->shown_lock);
        bool usable = p->shown_at && monotonic_ms() - p->shown_at < STALE_MS;
        pthread_mutex_unlock(&p->shown_lock);
        if (usable)
            return;
        pthread_mutex_lock(&p->lock);
    }
    refresh(p, false);
    pthread_mutex_unlock(&p->lock);
}

void processes_json(struct processes *p, struct buf *to)
{
    refresh_shown(p);
    pthread_mutex_lock(&p->shown_lock);
    buf_add(to, p->json.data, p->json.len);
    pthread_mutex_unlock(&p->shown_lock);
}

size_t processes_count(struct processes *p)
{
    refresh_shown(p);
    pthread_mutex_lock(&p->shown_lock);
    size_t count = p->shown;
    pthread_mutex_unlock(&p->shown_lock);
    return count;
}

bool processes_one(struct processes *p, pid_t pid, struct buf *to)
{
    pthread_mutex_lock(&p->lock);
    refresh(p, false);
    const struct entry *e = find_entry(p, pid);
    if (!e || !listed(e)) {
        p->asked = -ASK_MS;
        refresh(p, true);
        e = find_entry(p, pid);
    }
    bool found = e && listed(e);
    FILE *out = found ? open_buf(to) : NULL;
    if (out) {
        struct json j;
        json_init(&j, out, 0);
        put_row(&j, p, e);
        fclose(out);
    }
    pthread_mutex_unlock(&p->lock);
    return found;
}

/* ---- roles in a cluster ---- */

struct network {
    ino_t inode;
    pid_t member;
    struct ip_list *own;
};

/* With the lock held. Of the processes in that network, the one that listens there. */
static void give_role(struct processes *p, const struct network *n, const struct process_role *role)
{
    if (strncmp(role->ip, "127.", 4) != 0 && !ip_list_has(n->own, role->ip))
        return;
    uint64_t number = listeners_find(n->member, role->port);
    for (size_t i = 0; number && i < p->count; i++) {
        struct entry *e = &p->items[i];
        if (!listed(e) || e->network != n->inode || !listeners_holds(e->pid, number))
            continue;
        snprintf(e->role, sizeof(e->role), "%s", role->name);
        return;
    }
}

static bool have_seen(const ino_t *seen, size_t count, ino_t inode)
{
    for (size_t i = 0; i < count; i++)
        if (seen[i] == inode)
            return true;
    return false;
}

void processes_set_roles(struct processes *p, const struct process_role *roles, size_t count)
{
    ino_t seen[64];
    size_t networks = 0;
    pthread_mutex_lock(&p->lock);
    refresh(p, false);
    for (size_t i = 0; i < p->count; i++)
        p->items[i].role[0] = '\0';
    for (size_t i = 0; i < p->count && networks < ARRAY_LEN(seen); i++) {
        const struct entry *e = &p->items[i];
        if (!listed(e) || have_seen(seen, networks, e->network))
            continue;
        seen[networks++] = e->network;
        struct network n = {e->network, e->pid, calloc(1, sizeof(*n.own))};
        if (n.own)
            facts_addresses(e->pid, n.own);
        for (size_t k = 0; n.own && k < count; k++)
            give_role(p, &n, &roles[k]);
        free(n.own);
    }
    write_list(p);
    pthread_mutex_unlock(&p->lock);
}

/* ---- one target ---- */

/* Does the process's network have this address? */
static bool has_address(pid_t pid, const char *ip)
{
    struct ip_list *list = calloc(1, sizeof(*list));
    bool has = true; /* what cannot be told is not held against it */
    if (list) {
        facts_addresses(pid, list);
        has = list->count == 0 || ip_list_has(list, ip);
    }
    free(list);
    return has;
}

void processes_addresses(struct processes *p, struct ip_list *list)
{
    ino_t seen[64];
    size_t count = 0;
    facts_addresses(getpid(), list);
    pthread_mutex_lock(&p->lock);
    refresh(p, false);
    for (size_t i = 0; i < p->count && count < ARRAY_LEN(seen); i++) {
        const struct entry *e = &p->items[i];
        bool known = !listed(e) || !e->network;
        for (size_t k = 0; k < count; k++)
            known |= seen[k] == e->network;
        if (known)
            continue;
        seen[count++] = e->network;
        facts_addresses(e->pid, list);
    }
    pthread_mutex_unlock(&p->lock);
}

/* The one process that calls itself `pid` in a namespace of its own. */
static pid_t find_by_own_pid(struct processes *p, pid_t pid, const char *ip)
{
    pid_t found = 0;
    size_t count = 0;
    for (size_t i = 0; i < p->count; i++) {
        const struct entry *e = &p->items[i];
        if (!listed(e) || e->ns_pid != pid || e->ns_pid == e->pid)
            continue;
        if (ip && !has_address(e->pid, ip))
            continue;
        found = e->pid;
        count++;
    }
    return count == 1 ? found : 0;
}

static pid_t translate(struct processes *p, pid_t pid, const char *ip)
{
    pthread_mutex_lock(&p->lock);
    refresh(p, false);
    pid_t own = find_by_own_pid(p, pid, ip);
    const struct entry *e = find_entry(p, pid);
    /* The host's own number wins, unless the address says that another is meant. */
    bool here = e && listed(e) && (!ip || !own || has_address(pid, ip));
    pthread_mutex_unlock(&p->lock);
    return here || !own ? pid : own;
}

int processes_find(struct processes *p, pid_t pid, const char *ip, struct process_brief *ret,
                   struct error *err)
{
    struct process *process = NULL;
    struct stat st;
    struct py_version version = {0};
    pid = translate(p, pid, ip);
    int r = process_peek(pid, &process, err);
    if (r < 0)
        return r;
    if (fstat(process->proc_fd, &st) == 0)
        r = policy_check(p->policy, pid, st.st_uid, err);
    if (r == 0 && !python_likely(process, &version)) {
        struct error refused = {0};
        r = permission_error(pid, &refused);
        if (r < 0 && err)
            *err = refused;
        if (r == 0)
            r = error_set(err, -SCRY_E_NOT_PYTHON, "process %d does not run CPython", pid);
    }
    if (r == 0)
        r = permission_error(pid, err);
    if (r == 0) {
        *ret = (struct process_brief){.pid = pid, .start_time = process->start_time};
        snprintf(ret->command, sizeof(ret->command), "%s", process->command);
        pthread_mutex_lock(&p->lock);
        const struct entry *e = find_entry(p, pid);
        if (e && e->start_time == process->start_time)
            snprintf(ret->python, sizeof(ret->python), "%s", e->version);
        pthread_mutex_unlock(&p->lock);
    }
    process_close(process);
    return r;
}
