#include "http/request.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN_MAX 60 /* bytes of a wrong value that a message repeats */

bool request_gone(const struct request *rq)
{
    struct pollfd fd = {.fd = rq->fd, .events = POLLRDHUP};
    return rq->fd >= 0 && poll(&fd, 1, 0) == 1 && fd.revents & (POLLRDHUP | POLLHUP | POLLERR);
}

static bool wrong(struct reply *re, const char *name, const char *value, const char *must)
{
    int shown = (int)strnlen(value, SHOWN_MAX);
    /* Not in the middle of a character. */
    while (shown == SHOWN_MAX && shown > 0 && ((unsigned char)value[shown] & 0xc0) == 0x80)
        shown--;
    reply_error(re, 400, "bad_parameter", name, "", "%s must be %s, not '%.*s%s'", name, must,
                shown, value, value[shown] ? "..." : "");
    return false;
}

bool parse_whole(const char *text, int64_t min, int64_t max, int64_t *ret)
{
    const char *digits = text + (*text == '-');
    size_t len = strlen(digits);
    if (len == 0 || len > 18 || digits[strspn(digits, "0123456789")])
        return false;
    int64_t value = strtoll(text, NULL, 10);
    if (value < min || value > max)
        return false;
    *ret = value;
    return true;
}

bool param_flag(const struct request *rq, struct reply *re, const char *name, bool *ret)
{
    const char *value = query_get(&rq->query, name);
    if (!value)
        return true;
    if (strcmp(value, "0") != 0 && strcmp(value, "1") != 0)
        return wrong(re, name, value, "1 or 0");
    *ret = *value == '1';
    return true;
}

bool param_whole(const struct request *rq, struct reply *re, const char *name, int64_t min,
                 int64_t max, int64_t *ret)
{
    const char *value = query_get(&rq->query, name);
    if (!value || parse_whole(value, min, max, ret))
        return true;
    char must[96];
    snprintf(must, sizeof(must), "a whole number from %lld to %lld", (long long)min,
             (long long)max);
    return wrong(re, name, value, must);
}

static bool parse_number(const char *text, double min, double max, double *ret)
{
    char *end;
    size_t len = strlen(text);
    if (len == 0 || len > 24 || text[strspn(text, "0123456789.-")])
        return false;
    double value = strtod(text, &end);
    if (*end || !isfinite(value) || value < min || value > max)
        return false;
    *ret = value;
    return true;
}

static void say_range(char to[static 96], double min, double max)
{
    snprintf(to, 96, "a number from %g to %g", min, max);
}

bool param_number(const struct request *rq, struct reply *re, const char *name, double min,
                  double max, double *ret)
{
    const char *value = query_get(&rq->query, name);
    if (!value || parse_number(value, min, max, ret))
        return true;
    char must[96];
    say_range(must, min, max);
    return wrong(re, name, value, must);
}

static bool choose(struct reply *re, const char *name, const char *value,
                   const char *const *choices, int *ret)
{
    SCOPED_BUF must;
    buf_init(&must);
    buf_add_str(&must, "one of ");
    for (int i = 0; choices[i]; i++) {
        if (strcmp(choices[i], value) == 0) {
            *ret = i;
            return true;
        }
        buf_addf(&must, "%s%s", i ? ", " : "", choices[i]);
    }
    return wrong(re, name, value, must.data);
}

bool param_choice(const struct request *rq, struct reply *re, const char *name,
                  const char *const *choices, int *ret)
{
    const char *value = query_get(&rq->query, name);
    return !value || choose(re, name, value, choices, ret);
}

static bool check_text(struct reply *re, const char *name, const char *value, size_t max)
{
    char must[96];
    if (strlen(value) > max) {
        snprintf(must, sizeof(must), "at most %zu bytes long", max);
        return wrong(re, name, value, must);
    }
    for (const char *s = value; *s; s++)
        if (iscntrl((unsigned char)*s)) {
            reply_error(re, 400, "bad_parameter", name, "", "%s must not hold control characters",
                        name);
            return false;
        }
    return true;
}

bool param_text(const struct request *rq, struct reply *re, const char *name, size_t max,
                const char **ret)
{
    const char *value = query_get(&rq->query, name);
    if (!value)
        return true;
    if (!check_text(re, name, value, max))
        return false;
    *ret = value;
    return true;
}

bool param_required(const struct request *rq, struct reply *re, const char *name)
{
    if (query_get(&rq->query, name))
        return true;
    reply_error(re, 400, "bad_parameter", name, "", "the parameter %s is missing", name);
    return false;
}

/* ---- the body ---- */

json_t *request_json(const struct request *rq, struct reply *re)
{
    json_error_t fault;
    if (!rq->body || !rq->body_len) {
        reply_error(re, 400, "bad_request", NULL, "", "a JSON object is wanted as body");
        return NULL;
    }
    json_t *root = json_loadb(rq->body, rq->body_len, JSON_REJECT_DUPLICATES, &fault);
    if (!root) {
        reply_error(re, 400, "bad_request", NULL, "", "the body is not JSON: line %d, column %d",
                    fault.line, fault.column);
        return NULL;
    }
    if (!json_is_object(root)) {
        json_decref(root);
        reply_error(re, 400, "bad_request", NULL, "", "the body must be a JSON object");
        return NULL;
    }
    return root;
}

static bool wrong_member(struct reply *re, const char *name, const char *must)
{
    reply_error(re, 400, "bad_parameter", name, "", "%s must be %s", name, must);
    return false;
}

bool member_flag(const json_t *o, struct reply *re, const char *name, bool *ret)
{
    const json_t *value = json_object_get(o, name);
    if (!value)
        return true;
    if (!json_is_boolean(value))
        return wrong_member(re, name, "true or false");
    *ret = json_is_true(value);
    return true;
}

bool member_number(const json_t *o, struct reply *re, const char *name, double min, double max,
                   double *ret)
{
    const json_t *value = json_object_get(o, name);
    if (!value)
        return true;
    double number = json_number_value(value);
    char must[96];
    say_range(must, min, max);
    if (!json_is_number(value) || !(number >= min && number <= max))
        return wrong_member(re, name, must);
    *ret = number;
    return true;
}

bool member_choice(const json_t *o, struct reply *re, const char *name, const char *const *choices,
                   int *ret)
{
    const json_t *value = json_object_get(o, name);
    if (!value)
        return true;
    if (!json_is_string(value))
        return wrong_member(re, name, "a string");
    return choose(re, name, json_string_value(value), choices, ret);
}

bool member_text(const json_t *o, struct reply *re, const char *name, size_t max, const char **ret)
{
    const json_t *value = json_object_get(o, name);
    if (!value)
        return true;
    if (!json_is_string(value) || strlen(json_string_value(value)) != json_string_length(value))
        return wrong_member(re, name, "a string");
    if (!check_text(re, name, json_string_value(value), max))
        return false;
    *ret = json_string_value(value);
    return true;
}

bool member_known(const json_t *o, struct reply *re, const char *const *names)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)o, key, value)
    {
        size_t i = 0;
        while (names[i] && strcmp(names[i], key) != 0)
            i++;
        if (!names[i]) {
            reply_error(re, 400, "bad_parameter", key, "", "there is no member '%.60s' here", key);
            return false;
        }
    }
    return true;
}
