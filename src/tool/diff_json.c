#include <math.h>

#include "tool/diff.h"
#include "util/buf.h"
#include "util/json.h"

/* Six digits of a percentage are more than any recording is worth. */
static void percent_field(struct json *j, const char *key, double share)
{
    json_key(j, key);
    json_double(j, round(1e8 * share) / 1e6 + 0.0);
}

static void print_side(struct json *j, const struct diff_report *r, const char *key,
                       enum diff_moment moment)
{
    const struct diff_side *side = &r->diff->sides[moment];
    json_key(j, key);
    json_begin_object(j);
    json_key(j, "file");
    json_string(j, r->options->names[moment]);
    json_key(j, "samples");
    json_uint(j, side->samples);
    json_key(j, "seconds");
    json_double(j, (double)side->duration / 1e9);
    json_key(j, "rate");
    json_double(j, side->rate);
    json_end_object(j);
}

static void print_change(struct json *j, const char *key, const struct diff_change *c)
{
    json_key(j, key);
    json_begin_object(j);
    percent_field(j, "before", c->before);
    percent_field(j, "after", c->after);
    percent_field(j, "change", c->after - c->before);
    json_key(j, "samples");
    json_begin_array(j);
    json_uint(j, c->before_samples);
    json_uint(j, c->after_samples);
    json_end_array(j);
    json_key(j, "sigmas");
    json_double(j, round(1000 * c->sigmas) / 1000 + 0.0);
    json_key(j, "significant");
    json_bool(j, !diff_is_noise(c));
    json_end_object(j);
}

/* "name (file:line)" in its parts. */
static void print_names(struct json *j, const struct tree *t, uint32_t label)
{
    size_t len, name = t->labels[label].name;
    const char *text = interner_get(&t->texts, label, &len);
    json_key(j, "function");
    json_string_len(j, text, name);
    json_key(j, "file");
    if (len > name + 3)
        json_string_len(j, text + name + 2, len - name - 3);
    else
        json_null(j);
}

void diff_print_json(const struct diff_report *r, FILE *out)
{
    struct json j;
    json_init(&j, out, 2);
    json_begin_object(&j);
    print_side(&j, r, "before", DIFF_BEFORE);
    print_side(&j, r, "after", DIFF_AFTER);
    json_key(&j, "by");
    json_string(&j, r->diff->by == DIFF_BY_TIME ? "time" : "share");
    json_key(&j, "percent_of");
    json_string(&j, diff_whole(r->diff));
    json_key(&j, "functions");
    json_begin_array(&j);
    for (size_t i = 0; i < r->count; i++) {
        json_begin_object(&j);
        print_names(&j, &r->diff->tree, r->functions[i].label);
        print_change(&j, "own", &r->functions[i].own);
        print_change(&j, "total", &r->functions[i].total);
        json_end_object(&j);
    }
    json_end_array(&j);
    json_end_object(&j);
    fputc('\n', out);
}
