#include "http/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "http/child.h"
#include "http/turnstile.h"

#define DUMP_TIME      (20 * SCRY_NSEC_PER_SEC)
#define DUMP_OUTPUT    (64u << 20)
#define CONVERT_TIME   (60 * SCRY_NSEC_PER_SEC)
#define CONVERT_OUTPUT (512u << 20)
#define MEMORY         (2ul << 30)
#define WORDS_MAX      1060

const char *const view_lines[] = {"exact", "function", "none", NULL};

void inside_refuse(struct reply *re, const struct child_result *result)
{
    char word[32];
    job_error_word(result->code, word);
    if (result->end == CHILD_LATE)
        strcpy(word, "unavailable");
    unsigned status = job_error_status(word);
    reply_error(re, status, word, NULL, result->hint, "%s", result->message);
    if (status == 409)
        reply_header(re, "Retry-After", "1");
}

struct waiting {
    struct server *server;
    const struct request *rq;
};

static enum child_poll poll_client(void *context)
{
    const struct waiting *w = context;
    return atomic_load(&w->server->stopping) || request_gone(w->rq) ? CHILD_KILL : CHILD_GO_ON;
}

static bool run(struct server *s, const struct request *rq, struct reply *re, struct child_job *job,
                struct buf *to)
{
    struct waiting waiting = {.server = s, .rq = rq};
    struct child_result result;
    if (!turnstile_enter(s->children, rq, re))
        return false;
    job->poll = poll_client;
    job->context = &waiting;
    child_result_init(&result);
    child_run(job, &result);
    turnstile_leave(s->children);
    bool ok = result.end == CHILD_OK;
    if (ok && to)
        buf_add(to, result.out.data, result.out.len);
    else if (!ok)
        inside_refuse(re, &result);
    child_result_done(&result);
    return ok;
}

bool inside_dump(struct server *s, const struct request *rq, struct reply *re, pid_t pid,
                 const struct dump_options *options, struct buf *to)
{
    char number[16];
    snprintf(number, sizeof(number), "%d", pid);
    const char *argv[12] = {"dump", "-p", number};
    size_t n = 3;
    if (options->json)
        argv[n++] = "--json";
    if (options->native)
        argv[n++] = "--native";
    if (options->subprocesses)
        argv[n++] = "--subprocesses";
    if (options->locals)
        argv[n++] = "--locals";
    struct child_job job = {
        .argv = argv,
        .confine = s->confine,
        .out_fd = -1,
        .limits = {.time = DUMP_TIME, .output = DUMP_OUTPUT, .memory = MEMORY, .cpu_seconds = 20},
    };
    return run(s, rq, re, &job, to);
}

/* A file without a name in the data folder: its space is counted there and given back by itself. */
static int open_nameless(struct server *s, struct reply *re)
{
    int fd = open(store_folder(s->store), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0) {
        char *path = NULL;
        if (asprintf(&path, "%s/result.XXXXXX", store_folder(s->store)) >= 0) {
            fd = mkostemp(path, O_CLOEXEC);
            if (fd >= 0)
                unlink(path);
        }
        free(path);
    }
    if (fd < 0)
        reply_error(re, 503, "unavailable", NULL, "", "the result cannot be written: %s",
                    strerror(errno));
    return fd;
}

static int convert(struct server *s, const struct request *rq, struct reply *re,
                   const char *const *argv)
{
    int fd = open_nameless(s, re);
    if (fd < 0)
        return -1;
    struct child_job job = {
        .argv = argv,
        .out_fd = fd,
        .limits = {.time = CONVERT_TIME,
                   .file = CONVERT_OUTPUT,
                   .memory = MEMORY,
                   .cpu_seconds = 60},
    };
    if (!run(s, rq, re, &job, NULL)) {
        close(fd);
        return -1;
    }
    lseek(fd, 0, SEEK_SET);
    return fd;
}

int inside_convert(struct server *s, const struct request *rq, struct reply *re,
                   const struct view_options *view, char *const *paths)
{
    const char *argv[WORDS_MAX + 1];
    size_t n = 0;
    /* The names of source files come from the programs, and what this process may read not everybody may who asks it. */
    const char *fixed[] = {"convert", "-f", view->format, "-o", "-", "--partial", "--no-source"};
    for (; n < ARRAY_LEN(fixed); n++)
        argv[n] = fixed[n];
    if (view->threads)
        argv[n++] = "--threads";
    if (view->full_filenames)
        argv[n++] = "--full-filenames";
    if (view->lines == 1)
        argv[n++] = "--function";
    else if (view->lines == 2)
        argv[n++] = "--nolineno";
    if (view->processes_said) {
        argv[n++] = "--processes";
        argv[n++] = view->processes ? "always" : "never";
    }
    if (view->nodes)
        argv[n++] = "--hosts";
    argv[n++] = "--";
    for (size_t i = 0; paths[i] && n < WORDS_MAX; i++)
        argv[n++] = paths[i];
    argv[n] = NULL;
    return convert(s, rq, re, argv);
}

/* Several files become one first: a comparison takes two. */
static char *single(struct server *s, const struct request *rq, struct reply *re,
                    char *const *paths, int *ret_fd)
{
    char *path = NULL;
    *ret_fd = -1;
    if (paths[0] && !paths[1])
        return strdup(paths[0]);
    struct view_options view = {.format = "scry"};
    *ret_fd = inside_convert(s, rq, re, &view, paths);
    if (*ret_fd < 0 || asprintf(&path, "/proc/%d/fd/%d", getpid(), *ret_fd) < 0)
        return NULL;
    return path;
}

int inside_diff(struct server *s, const struct request *rq, struct reply *re,
                const struct diff_view *view, char *const *before, char *const *after)
{
    int before_fd = -1, after_fd = -1, fd = -1;
    char *first = single(s, rq, re, before, &before_fd);
    char *second = first ? single(s, rq, re, after, &after_fd) : NULL;
    if (second) {
        const char *argv[20] = {"diff",      "-f",   view->format, "-o",       "-",
                                "--partial", "--by", view->by,     "--widths", view->widths};
        size_t n = 10;
        if (view->threads)
            argv[n++] = "--threads";
        argv[n++] = "--";
        argv[n++] = first;
        argv[n++] = second;
        fd = convert(s, rq, re, argv);
    }
    free(first);
    free(second);
    if (before_fd >= 0)
        close(before_fd);
    if (after_fd >= 0)
        close(after_fd);
    return fd;
}

const char *inside_type(const char *format)
{
    static const struct {
        const char *format, *type;
    } rows[] = {
        {"flamegraph", "image/svg+xml"},       {"raw", "text/plain; charset=utf-8"},
        {"text", "text/plain; charset=utf-8"}, {"speedscope", "application/json"},
        {"chrometrace", "application/json"},   {"json", "application/json"},
        {"gecko", "application/json"},         {"html", "text/html; charset=utf-8"},
        {"pprof", "application/gzip"},         {"callgrind", "text/plain; charset=utf-8"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (strcmp(rows[i].format, format) == 0)
            return rows[i].type;
    return "application/octet-stream";
}
