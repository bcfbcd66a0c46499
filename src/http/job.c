#include "http/job.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "util/json.h"

const char *const job_states[] = {
    [JOB_QUEUED] = "queued", [JOB_RECORDING] = "recording", [JOB_DONE] = "done",
    [JOB_FAILED] = "failed", [JOB_CANCELLED] = "cancelled", NULL,
};

const char *const job_modes[] = {
    [JOB_WALL] = "wall",
    [JOB_CPU] = "cpu",
    [JOB_GIL] = "gil",
    NULL,
};

bool job_ended(const struct job *job)
{
    return job->state != JOB_QUEUED && job->state != JOB_RECORDING;
}

double job_elapsed(const struct job *job)
{
    double longest = 0;
    for (size_t i = 0; i < job->target_count; i++)
        if (job->targets[i].elapsed > longest)
            longest = job->targets[i].elapsed;
    return longest;
}

uint64_t job_samples(const struct job *job)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < job->target_count; i++)
        sum += job->targets[i].samples;
    return sum;
}

void job_warn(struct job *job, const char *format, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, format);
    int len = vasprintf(&text, format, args);
    va_end(args);
    if (len < 0)
        return;
    for (size_t i = 0; i < job->warning_count; i++)
        if (strcmp(job->warnings[i], text) == 0)
            len = -1;
    if (len < 0 || job->warning_count == JOB_WARNINGS_MAX)
        free(text);
    else
        job->warnings[job->warning_count++] = text;
}

void job_error_set(struct job_error *error, const char *code, const char *message, const char *hint)
{
    snprintf(error->code, sizeof(error->code), "%s", code);
    snprintf(error->message, sizeof(error->message), "%.590s", message ? message : "");
    snprintf(error->hint, sizeof(error->hint), "%.590s", hint ? hint : "");
}

void job_error_word(const char *symbol, char to[static 32])
{
    snprintf(to, 32, "%.31s", *symbol ? symbol : "failed");
    for (char *c = to; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    if (strcmp(to, "gone") == 0 || strcmp(to, "zombie") == 0 || strcmp(to, "kernel_thread") == 0)
        strcpy(to, "no_process");
}

unsigned job_error_status(const char *code)
{
    static const struct {
        const char *code;
        unsigned status;
    } rows[] = {
        {"no_process", 404},   {"not_python", 404}, {"no_node", 404},   {"no_task", 404},
        {"permission", 403},   {"forbidden", 403},  {"not_ready", 409}, {"conflict", 409},
        {"unsupported", 501},  {"usage", 501},      {"busy", 429},      {"peer", 502},
        {"peer_timeout", 504}, {"cancelled", 409},  {"no_memory", 503}, {"unavailable", 503},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (strcmp(code, rows[i].code) == 0)
            return rows[i].status;
    return 500;
}

/* ---- as JSON ---- */

static void put(struct json *j, const char *key, const char *text)
{
    json_key(j, key);
    json_string(j, text);
}

static void put_time(struct json *j, const char *key, int64_t unix_ms)
{
    char text[REPLY_TIME_MAX];
    reply_time(unix_ms, text);
    put(j, key, text[0] ? text : NULL);
}

static void put_flag(struct json *j, const char *key, bool value)
{
    json_key(j, key);
    json_bool(j, value);
}

static void put_uint(struct json *j, const char *key, uint64_t value)
{
    json_key(j, key);
    json_uint(j, value);
}

static void put_double(struct json *j, const char *key, double value)
{
    json_key(j, key);
    json_double(j, (double)(int64_t)(value * 1000 + 0.5) / 1000);
}

static void put_error(struct json *j, const struct job_error *error)
{
    json_key(j, "error");
    if (!error->code[0]) {
        json_null(j);
        return;
    }
    json_begin_object(j);
    put(j, "code", error->code);
    put(j, "message", error->message);
    put(j, "hint", error->hint);
    json_end_object(j);
}

static void put_target(struct json *j, const struct job_target *t)
{
    json_begin_object(j);
    put(j, "node", t->node);
    put(j, "node_name", t->node_name);
    put_uint(j, "pid", (uint64_t)t->pid);
    put(j, "command", t->command);
    put(j, "python", t->python);
    put(j, "state", job_states[t->state]);
    put_uint(j, "samples", t->samples);
    put_uint(j, "size", t->size);
    put_error(j, &t->error);
    json_end_object(j);
}

static void put_options(struct json *j, const struct job_options *o)
{
    put_double(j, "duration", o->duration);
    put_double(j, "rate", o->rate);
    put(j, "mode", job_modes[o->mode]);
    put_flag(j, "idle", o->idle);
    put_flag(j, "native", o->native);
    put_flag(j, "subprocesses", o->subprocesses);
    put_flag(j, "merge", o->merge);
}

void job_json(const struct job *job, FILE *out)
{
    struct json writer, *j = &writer;
    json_init(j, out, 0);
    json_begin_object(j);
    put(j, "id", job->id);
    put(j, "name", job->options.name);
    put(j, "state", job_states[job->state]);
    put_time(j, "created", job->created);
    put_time(j, "started", job->started);
    put_time(j, "ended", job->ended);
    put_options(j, &job->options);
    put_flag(j, "pinned", job->pinned);
    json_key(j, "targets");
    json_begin_array(j);
    for (size_t i = 0; i < job->target_count; i++)
        put_target(j, &job->targets[i]);
    json_end_array(j);
    put_double(j, "elapsed", job_elapsed(job));
    put_uint(j, "samples", job_samples(job));
    put_uint(j, "size", job->size);
    json_key(j, "warnings");
    json_begin_array(j);
    for (size_t i = 0; i < job->warning_count; i++)
        json_string(j, job->warnings[i]);
    json_end_array(j);
    put_error(j, &job->error);
    put(j, "origin", job->options.origin);
    json_end_object(j);
}

/* ---- in the store ---- */

static void add_lower(struct buf *to, const char *text)
{
    for (; *text; text++)
        buf_add_char(to, *text >= 'A' && *text <= 'Z' ? (char)(*text | 0x20) : *text);
    buf_add_char(to, '\n');
}

int job_store(struct store *store, const struct job *job, struct error *err)
{
    SCOPED_BUF search;
    SCOPED_BUF places;
    buf_init(&search);
    buf_init(&places);
    add_lower(&search, job->options.name);
    add_lower(&search, job->id);
    buf_add_char(&places, ' ');
    for (size_t i = 0; i < job->target_count; i++) {
        const struct job_target *t = &job->targets[i];
        add_lower(&search, t->command);
        add_lower(&search, t->node_name);
        buf_addf(&search, "%d\n", t->pid);
        buf_addf(&places, "%s:%d %s:%d ", t->node, t->pid, t->node_name, t->pid);
    }
    char *doc = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&doc, &len);
    if (out) {
        job_json(job, out);
        fclose(out);
    }
    struct store_row row = {
        .id = job->id,
        .state = job_states[job->state],
        .created = job->created,
        .size = job->size,
        .pinned = job->pinned,
        .search = search.data,
        .places = places.data,
        .doc = doc,
    };
    int r =
        doc && !search.failed && !places.failed ? store_put(store, &row, err) : -SCRY_E_NO_MEMORY;
    free(doc);
    return r;
}
