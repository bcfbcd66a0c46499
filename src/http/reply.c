#include "http/reply.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "util/json.h"

void reply_init(struct reply *re)
{
    *re = (struct reply){.status = 200, .fd = -1};
    buf_init(&re->body);
}

void reply_done(struct reply *re)
{
    buf_done(&re->body);
    if (re->fd >= 0)
        close(re->fd);
    if (re->stream.free)
        re->stream.free(re->stream.context);
    for (size_t i = 0; i < re->header_count; i++)
        free(re->headers[i].value);
    reply_init(re);
}

void reply_header(struct reply *re, const char *name, const char *format, ...)
{
    if (re->header_count == REPLY_HEADERS_MAX)
        return;
    va_list args;
    va_start(args, format);
    char *value = NULL;
    int len = vasprintf(&value, format, args);
    va_end(args);
    if (len < 0)
        return;
    for (char *s = value; *s; s++)
        if ((unsigned char)*s < ' ' || *s == 0x7f)
            *s = ' ';
    re->headers[re->header_count++] = (struct reply_header){.name = name, .value = value};
}

/* Nothing of an answer that was begun may go out with an error. */
static void drop_body(struct reply *re)
{
    buf_reset(&re->body);
    if (re->fd >= 0)
        close(re->fd);
    re->fd = -1;
    if (re->stream.free)
        re->stream.free(re->stream.context);
    re->stream = (struct reply_stream){0};
    re->fixed = NULL;
    re->sandboxed = false;
}

void reply_text(struct reply *re, unsigned status, const char *format, ...)
{
    drop_body(re);
    re->status = status;
    re->type = "text/plain; charset=utf-8";
    va_list args;
    va_start(args, format);
    char *text = NULL;
    if (vasprintf(&text, format, args) >= 0)
        buf_add_str(&re->body, text);
    free(text);
    va_end(args);
}

static void error_json(struct reply *re, const char *code, const char *parameter, const char *hint,
                       const char *message)
{
    FILE *out = reply_json(re, re->status);
    struct json j;
    if (!out)
        return;
    json_init(&j, out, 0);
    json_begin_object(&j);
    json_key(&j, "error");
    json_begin_object(&j);
    json_key(&j, "code");
    json_string(&j, code);
    json_key(&j, "message");
    json_string(&j, message);
    json_key(&j, "hint");
    json_string(&j, hint ? hint : "");
    json_key(&j, "parameter");
    json_string(&j, parameter);
    json_end_object(&j);
    json_end_object(&j);
    reply_json_end(re, out);
}

void reply_error(struct reply *re, unsigned status, const char *code, const char *parameter,
                 const char *hint, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *message = NULL;
    if (vasprintf(&message, format, args) < 0)
        message = NULL;
    va_end(args);
    drop_body(re);
    re->status = status;
    if (re->plain_errors) {
        re->type = "text/plain; charset=utf-8";
        buf_addf(&re->body, "%s\n", message ? message : code);
        if (hint && *hint)
            buf_addf(&re->body, "%s\n", hint);
    } else {
        error_json(re, code, parameter, hint, message ? message : code);
    }
    free(message);
}

bool reply_failed(const struct reply *re)
{
    return re->status >= 400;
}

/* A stream into the body itself. */
static ssize_t write_body(void *cookie, const char *data, size_t len)
{
    buf_add(cookie, data, len);
    return (ssize_t)len;
}

FILE *reply_json(struct reply *re, unsigned status)
{
    drop_body(re);
    re->status = status;
    re->type = "application/json";
    FILE *out = fopencookie(&re->body, "w", (cookie_io_functions_t){.write = write_body});
    if (!out)
        re->status = 503;
    return out;
}

void reply_json_end(struct reply *re, FILE *out)
{
    if (!out)
        return;
    fputc('\n', out);
    fclose(out);
    if (re->body.failed)
        re->status = 503;
}

void reply_time(int64_t unix_ms, char to[static REPLY_TIME_MAX])
{
    time_t seconds = (time_t)(unix_ms / 1000);
    struct tm utc;
    to[0] = '\0';
    if (unix_ms <= 0 || !gmtime_r(&seconds, &utc))
        return;
    size_t n = strftime(to, REPLY_TIME_MAX, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(to + n, REPLY_TIME_MAX - n, ".%03dZ", (int)(unix_ms % 1000));
}

int64_t reply_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}
