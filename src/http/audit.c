#include "http/audit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/json.h"

#define FILE_MAX (16 << 20)

struct audit {
    pthread_mutex_t lock;
    char *path; /* NULL: standard error */
    int fd;
    off_t size;
};

static int open_file(struct audit *a, struct error *err)
{
    struct stat st;
    a->fd = open(a->path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (a->fd < 0)
        return error_set(err, -SCRY_E_OUTPUT, "cannot write the audit log '%s': %s", a->path,
                         strerror(errno));
    a->size = fstat(a->fd, &st) == 0 ? st.st_size : 0;
    return 0;
}

int audit_open(const char *where, const char *folder, struct audit **ret, struct error *err)
{
    struct audit *a = calloc(1, sizeof(*a));
    if (!a)
        return error_set(err, -SCRY_E_NO_MEMORY, "out of memory");
    pthread_mutex_init(&a->lock, NULL);
    a->fd = STDERR_FILENO;
    int r = 0;
    if (strcmp(where, "-") != 0) {
        int len =
            where[0] ? asprintf(&a->path, "%s", where) : asprintf(&a->path, "%s/audit.log", folder);
        r = len < 0 ? -SCRY_E_NO_MEMORY : open_file(a, err);
    }
    if (r < 0) {
        audit_close(a);
        return r;
    }
    *ret = a;
    return 0;
}

void audit_close(struct audit *a)
{
    if (!a)
        return;
    if (a->path && a->fd >= 0)
        close(a->fd);
    pthread_mutex_destroy(&a->lock);
    free(a->path);
    free(a);
}

static void begin_anew(struct audit *a)
{
    char *old;
    if (asprintf(&old, "%s.1", a->path) < 0)
        return;
    rename(a->path, old);
    free(old);
    close(a->fd);
    open_file(a, NULL);
}

/* The token in an address is nobody's business. */
static void put_target(struct json *j, const char *target)
{
    const char *token = strstr(target, "token=");
    json_key(j, "target");
    if (token)
        json_string_len(j, target, (size_t)(token - target));
    else
        json_string_len(j, target, strnlen(target, 1024));
}

static char *make_line(const char *who, const struct request *rq, const struct reply *re,
                       int64_t milliseconds, size_t *ret_len)
{
    char *line = NULL, time[REPLY_TIME_MAX];
    FILE *out = open_memstream(&line, ret_len);
    if (!out)
        return NULL;
    struct json writer, *j = &writer;
    json_init(j, out, 0);
    reply_time(reply_now(), time);
    json_begin_object(j);
    json_key(j, "time");
    json_string(j, time);
    json_key(j, "client");
    json_string(j, who);
    json_key(j, "forwarded");
    json_bool(j, rq->forwarded);
    json_key(j, "method");
    json_string(j, rq->method);
    put_target(j, rq->target);
    json_key(j, "status");
    json_uint(j, re->status);
    json_key(j, "ms");
    json_int(j, milliseconds);
    if (rq->body && strncmp(rq->target, "/api/v1/session", 15) != 0) {
        json_key(j, "body");
        json_string_len(j, rq->body, strnlen(rq->body, 1024));
    }
    json_end_object(j);
    fputc('\n', out);
    fclose(out);
    return line;
}

void audit_line(struct audit *a, const char *who, const struct request *rq, const struct reply *re,
                int64_t milliseconds)
{
    size_t len = 0;
    if (!a)
        return;
    char *line = make_line(who, rq, re, milliseconds, &len);
    if (!line)
        return;
    pthread_mutex_lock(&a->lock);
    ssize_t n = a->fd >= 0 ? write(a->fd, line, len) : 0;
    a->size += n > 0 ? n : 0;
    if (a->path && a->size > FILE_MAX)
        begin_anew(a);
    pthread_mutex_unlock(&a->lock);
    free(line);
}
