#include "tool/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/format.h"
#include "tool/values.h"

#define OPTIONS_MAX 64

struct parser {
    const struct option *options;
    char **next; /* the next argument */
    void *values;
    struct words *words;
    struct error *err;
};

void words_done(struct words *words)
{
    free(words->items);
    *words = (struct words){0};
}

bool option_takes_value(const struct option *option)
{
    return option->argument != NULL;
}

bool option_repeats(const struct option *option)
{
    return option->kind == OPT_COUNT || option->kind == OPT_PIDS || option->kind == OPT_STRINGS;
}

bool option_visible(const struct option *option)
{
    return !option->hidden && option->kind != OPT_UNAVAILABLE;
}

size_t option_choices(const struct option *option, const char **ret_names, size_t max)
{
    size_t count = 0;
    for (size_t i = 0; option->choices && option->choices[i] && count < max; i++)
        ret_names[count++] = option->choices[i];
    for (size_t i = 0; option->kind == OPT_FORMAT && formats[i].name && count < max; i++)
        ret_names[count++] = formats[i].name;
    return count;
}

static const struct option *find_letter(const struct option *options, char letter)
{
    for (; options->name; options++)
        if (letter && options->letter == letter)
            return options;
    return NULL;
}

static const struct option *find_name(const struct option *options, const char *name, size_t len)
{
    for (; options->name; options++)
        if (strlen(options->name) == len && memcmp(options->name, name, len) == 0)
            return options;
    return NULL;
}

static int unknown_name(struct parser *p, const char *written, size_t len)
{
    const char *names[OPTIONS_MAX + 1];
    size_t count = 0;
    for (const struct option *o = p->options; o->name && count < OPTIONS_MAX; o++)
        if (option_visible(o))
            names[count++] = o->name;
    names[count] = NULL;

    char typed[64];
    snprintf(typed, sizeof(typed), "%.*s", (int)len, written);
    const char *near = nearest_name(typed, names);
    error_set(p->err, -SCRY_E_USAGE, "unknown option '--%.*s'", (int)len, written);
    if (near)
        error_hint(p->err, "did you mean --%s?", near);
    else
        error_hint(p->err, "see --help for the options there are");
    return -SCRY_E_USAGE;
}

static int store_string(struct parser *p, const struct option *option, const char *written,
                        const char *value, const char **at)
{
    if (!value || !*value) {
        error_set(p->err, -SCRY_E_USAGE, "%s was given an empty %s", written, option->argument);
        error_hint(p->err, "see --help");
        return -SCRY_E_USAGE;
    }
    *at = value;
    return 0;
}

static int too_many(struct parser *p, const char *written)
{
    error_set(p->err, -SCRY_E_USAGE, "%s is given more than %d times", written, REPEATS_MAX);
    error_hint(p->err, "leave some of them out");
    return -SCRY_E_USAGE;
}

static int store_another(struct parser *p, const struct option *option, const char *written,
                         const char *value, struct strings *to)
{
    if (to->count == REPEATS_MAX)
        return too_many(p, written);
    int r = store_string(p, option, written, value, &to->items[to->count]);
    to->count += r == 0;
    return r;
}

static int store_another_pid(struct parser *p, const char *written, const char *value,
                             struct pids *to)
{
    if (to->count == REPEATS_MAX)
        return too_many(p, written);
    int r = value_pid(value, written, &to->items[to->count], p->err);
    to->count += r == 0;
    return r;
}

static int store(struct parser *p, const struct option *option, const char *written,
                 const char *value)
{
    void *at = (char *)p->values + option->offset;
    switch (option->kind) {
    case OPT_FLAG:
        *(bool *)at = true;
        return 0;
    case OPT_COUNT:
        *(int *)at += 1;
        return 0;
    case OPT_STRING:
    case OPT_FILE:
        return store_string(p, option, written, value, at);
    case OPT_STRINGS:
        return store_another(p, option, written, value, at);
    case OPT_PIDS:
        return store_another_pid(p, written, value, at);
    case OPT_SIGNAL:
        return value_signal(value, written, at, p->err);
    case OPT_PID:
        if (*(pid_t *)at) {
            error_set(p->err, -SCRY_E_USAGE, "%s is given twice", written);
            error_hint(p->err, "name one process; --subprocesses takes in its children");
            return -SCRY_E_USAGE;
        }
        return value_pid(value, written, at, p->err);
    case OPT_RATE:
        return value_rate(value, written, at, p->err);
    case OPT_PERCENT:
        return value_percent(value, written, at, p->err);
    case OPT_DURATION:
        return value_duration(value, written, at, p->err);
    case OPT_NUMBER:
        return value_number(value, written, at, p->err);
    case OPT_CHOICE:
        return value_choice(value, written, option->choices, at, p->err);
    case OPT_FORMAT:
        return value_format(value, written, at, p->err);
    case OPT_HELP:
        return OPTIONS_HELP;
    case OPT_VERSION:
        return OPTIONS_VERSION;
    case OPT_UNAVAILABLE:
        error_set(p->err, -SCRY_E_USAGE, "%s: %s", written, option->help);
        error_hint(p->err, "leave the option out");
        return -SCRY_E_USAGE;
    }
    return error_set(p->err, -SCRY_E_INTERNAL, "option %s has no kind", written);
}

/* The value that stands in the next argument. Something that is itself an option is not taken for
 * one, so that a forgotten value is noticed; numbers may be negative here, and are refused with a
 * better sentence later. */
static const char *next_value(struct parser *p)
{
    const char *next = *p->next;
    if (!next || strcmp(next, "--") == 0)
        return NULL;
    if (next[0] == '-' && next[1] == '-' && find_name(p->options, next + 2, strcspn(next + 2, "=")))
        return NULL;
    if (next[0] == '-' && find_letter(p->options, next[1]))
        return NULL;
    p->next++;
    return next;
}

static int missing_value(struct parser *p, const struct option *option, const char *written)
{
    error_set(p->err, -SCRY_E_USAGE, "%s needs a value", written);
    error_hint(p->err, "write %s %s", written, option->argument);
    return -SCRY_E_USAGE;
}

static int parse_long(struct parser *p, const char *arg)
{
    size_t len = strcspn(arg + 2, "=");
    const char *value = arg[2 + len] == '=' ? arg + 2 + len + 1 : NULL;
    const struct option *option = find_name(p->options, arg + 2, len);
    if (!option)
        return unknown_name(p, arg + 2, len);

    char written[64];
    snprintf(written, sizeof(written), "--%s", option->name);
    if (option_takes_value(option)) {
        if (!value)
            value = next_value(p);
        if (!value)
            return missing_value(p, option, written);
    } else if (value) {
        error_set(p->err, -SCRY_E_USAGE, "%s takes no value, but was given '%s'", written, value);
        error_hint(p->err, "write %s alone", written);
        return -SCRY_E_USAGE;
    }
    return store(p, option, written, value);
}

/* "-s", "-sl", "-o value", "-ovalue", "-so=value". */
static int parse_letters(struct parser *p, const char *arg)
{
    for (const char *c = arg + 1; *c; c++) {
        char written[3] = {'-', *c, '\0'};
        const struct option *option = find_letter(p->options, *c);
        if (!option) {
            if (c == arg + 1)
                error_set(p->err, -SCRY_E_USAGE, "unknown option '%s'", arg);
            else
                error_set(p->err, -SCRY_E_USAGE, "unknown option '-%.*s' in '%s'",
                          (unsigned char)*c < 0x80 ? 1 : (int)strlen(c), c, arg);
            error_hint(p->err, "see --help for the options there are");
            return -SCRY_E_USAGE;
        }
        const char *value = NULL;
        if (option_takes_value(option)) {
            if (c[1])
                value = c[1] == '=' ? c + 2 : c + 1;
            else
                value = next_value(p);
            if (!value)
                return missing_value(p, option, written);
        }
        int r = store(p, option, written, value);
        if (r || value)
            return r;
    }
    return 0;
}

static void add_word(struct parser *p, char *word)
{
    p->words->items[p->words->count++] = word;
    p->words->items[p->words->count] = NULL;
}

static void add_rest(struct parser *p)
{
    while (*p->next)
        add_word(p, *p->next++);
}

int options_parse(const struct option *options, char **args, bool stop_at_word, void *values,
                  struct words *ret_words, struct error *err)
{
    size_t count = 0;
    while (args[count])
        count++;
    *ret_words = (struct words){.items = calloc(count + 1, sizeof(char *))};
    if (!ret_words->items)
        return error_set(err, -SCRY_E_NO_MEMORY, "out of memory");

    struct parser p = {options, args, values, ret_words, err};
    int r = 0;
    while (*p.next && r == 0) {
        char *arg = *p.next++;
        if (strcmp(arg, "--") == 0) {
            add_rest(&p);
        } else if (arg[0] != '-' || arg[1] == '\0') {
            add_word(&p, arg);
            if (stop_at_word)
                add_rest(&p);
        } else if (arg[1] == '-') {
            r = parse_long(&p, arg);
        } else {
            r = parse_letters(&p, arg);
        }
    }
    if (r != 0)
        words_done(ret_words);
    return r;
}
