#include "http/recordings.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void recordings_paths_free(char **paths)
{
    for (size_t i = 0; paths && paths[i]; i++)
        free(paths[i]);
    free(paths);
}

static void refuse_empty(struct reply *re, const char *parameter, const json_t *doc)
{
    const char *state = json_string_value(json_object_get(doc, "state"));
    if (state && (strcmp(state, "queued") == 0 || strcmp(state, "recording") == 0)) {
        reply_error(re, 409, "not_finished", parameter, "follow its events",
                    "the recording has not ended yet");
        reply_header(re, "Retry-After", "1");
        return;
    }
    const json_t *error = json_object_get(doc, "error");
    const char *why = json_string_value(json_object_get(error, "message"));
    reply_error(re, 409, "no_result", parameter, "", "the recording has no result%s%s",
                why ? ": " : "", why ? why : "");
}

static char **add_paths(struct server *s, const json_t *doc, const char *id, int64_t part)
{
    size_t count = json_array_size(json_object_get(doc, "targets")), n = 0;
    char **paths = calloc(count + 1, sizeof(char *));
    for (size_t i = 0; paths && i < count; i++) {
        if (part >= 0 && (size_t)part != i)
            continue;
        char *path = store_path(s->store, id, i);
        if (path && access(path, R_OK) == 0)
            paths[n++] = path;
        else
            free(path);
    }
    return paths;
}

char **recordings_paths(struct server *s, struct reply *re, const char *id, const char *parameter,
                        int64_t part)
{
    SCOPED_BUF text;
    buf_init(&text);
    if (!recordings_doc(s, re, id, parameter, &text))
        return NULL;
    json_t *doc = json_loads(text.data, 0, NULL);
    const char *state = json_string_value(json_object_get(doc, "state"));
    bool ended = state && strcmp(state, "queued") != 0 && strcmp(state, "recording") != 0;
    char **paths = ended ? add_paths(s, doc, id, part) : NULL;
    if (!paths || !paths[0]) {
        refuse_empty(re, parameter, doc);
        recordings_paths_free(paths);
        paths = NULL;
    }
    json_decref(doc);
    return paths;
}

/* ---- changing ---- */

static void set_in_job(struct server *s, struct job *job, const char *name, bool pinned)
{
    jobs_lock(s->jobs);
    snprintf(job->options.name, sizeof(job->options.name), "%s", name);
    job->pinned = pinned;
    job_changed(s->jobs, job);
    jobs_unlock(s->jobs);
}

static void add_lower(struct buf *to, const char *text)
{
    for (; text && *text; text++)
        buf_add_char(to, *text >= 'A' && *text <= 'Z' ? (char)(*text | 0x20) : *text);
    buf_add_char(to, '\n');
}

static void add_search(struct buf *search, struct buf *places, const json_t *doc)
{
    size_t i;
    const json_t *t;
    buf_add_char(places, ' ');
    json_array_foreach(json_object_get(doc, "targets"), i, t)
    {
        long long pid = (long long)json_integer_value(json_object_get(t, "pid"));
        const char *node = json_string_value(json_object_get(t, "node"));
        const char *name = json_string_value(json_object_get(t, "node_name"));
        add_lower(search, json_string_value(json_object_get(t, "command")));
        add_lower(search, name);
        buf_addf(search, "%lld\n", pid);
        buf_addf(places, "%s:%lld %s:%lld ", node ? node : "", pid, name ? name : "", pid);
    }
}

/* What jansson has under a name that is our writer's. */
static json_t *text_value(const char *text)
{
    return json_stringn(text, strlen(text));
}

int recordings_change(struct server *s, json_t *doc, const char *id, const char *name, bool pinned,
                      struct error *err)
{
    struct job *job = jobs_find(s->jobs, id);
    if (job) {
        set_in_job(s, job, name, pinned);
        job_release(s->jobs, job);
    }
    SCOPED_BUF search;
    SCOPED_BUF places;
    buf_init(&search);
    buf_init(&places);
    add_lower(&search, name);
    add_lower(&search, id);
    add_search(&search, &places, doc);
    json_object_set_new(doc, "name", text_value(name));
    json_object_set_new(doc, "pinned", json_boolean(pinned));
    char *text = json_dumps(doc, JSON_COMPACT);
    struct store_row row = {
        .id = id,
        .state = json_string_value(json_object_get(doc, "state")),
        .created = 0,
        .size = (uint64_t)json_integer_value(json_object_get(doc, "size")),
        .pinned = pinned,
        .search = search.data,
        .places = places.data,
        .doc = text,
    };
    int r = text ? store_update(s->store, &row, err) : -SCRY_E_NO_MEMORY;
    free(text);
    return r;
}
