/* What a launched program prints would spoil the screen: the end of it is kept. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "tool/top.h"

#define KEPT_MAX  (64 * 1024)
#define READS_MAX 64 /* at a time: a program that prints without end must not stop the keys */

int top_output_open(struct top_output *o, int *ret_write_end, struct error *err)
{
    int ends[2];
    buf_init(&o->kept);
    o->fd = -1;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return error_set(err, -SCRY_E_IO, "no pipe for the program's output: %s", strerror(errno));
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    o->fd = ends[0];
    *ret_write_end = ends[1];
    return 0;
}

static void drop_beginning(struct top_output *o)
{
    if (o->kept.len <= KEPT_MAX)
        return;
    size_t surplus = o->kept.len - KEPT_MAX / 2;
    const char *newline = memchr(o->kept.data + surplus, '\n', o->kept.len - surplus);
    if (newline)
        surplus = (size_t)(newline + 1 - o->kept.data);
    memmove(o->kept.data, o->kept.data + surplus, o->kept.len - surplus);
    buf_truncate(&o->kept, o->kept.len - surplus);
    o->cut = true;
}

void top_output_read(struct top_output *o)
{
    char chunk[4096];
    for (int i = 0; i < READS_MAX && o->fd >= 0; i++) {
        ssize_t n = read(o->fd, chunk, sizeof(chunk));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0) {
            close(o->fd);
            o->fd = -1;
            return;
        }
        buf_add(&o->kept, chunk, (size_t)n);
        drop_beginning(o);
    }
}

void top_output_done(struct top_output *o)
{
    if (o->fd >= 0)
        close(o->fd);
    o->fd = -1;
    buf_done(&o->kept);
}
