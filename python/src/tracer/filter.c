#include "filter.h"

#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool patterns_add(struct patterns *p, const char *pattern)
{
    char **items = realloc(p->items, (p->count + 1) * sizeof(*items));
    if (!items)
        return false;
    p->items = items;
    p->items[p->count] = strdup(pattern);
    return p->items[p->count] && ++p->count;
}

static void patterns_done(struct patterns *p)
{
    for (size_t i = 0; i < p->count; i++)
        free(p->items[i]);
    free(p->items);
    *p = (struct patterns){0};
}

void filter_done(struct filter *f)
{
    patterns_done(&f->include);
    patterns_done(&f->exclude);
    free(f->folder);
    free(f->own);
    *f = (struct filter){0};
}

static bool begins_with_part(const char *path, const char *part)
{
    size_t n = strlen(part);
    while (n > 1 && part[n - 1] == '/')
        n--;
    return strncmp(path, part, n) == 0 && (path[n] == 0 || path[n] == '/' || n == 1);
}

static bool matches(const char *path, const char *pattern)
{
    if (strpbrk(pattern, "*?["))
        return fnmatch(pattern, path, 0) == 0;
    if (pattern[0] == '/')
        return begins_with_part(path, pattern);
    for (const char *at = path; at; at = strchr(at, '/')) {
        at += *at == '/';
        if (begins_with_part(at, pattern))
            return true;
    }
    return false;
}

static bool any_matches(const struct patterns *p, const char *path)
{
    for (size_t i = 0; i < p->count; i++)
        if (matches(path, p->items[i]))
            return true;
    return false;
}

bool filter_excludes(const struct filter *f, const char *file)
{
    char whole[PATH_MAX * 2];
    if (f->own && begins_with_part(file, f->own))
        return true;
    if (f->ignore_frozen && strncmp(file, "<frozen ", 8) == 0)
        return true;
    if (file[0] != '/' && file[0] != '<' && f->folder) {
        const char *rest = strncmp(file, "./", 2) == 0 ? file + 2 : file;
        if (snprintf(whole, sizeof(whole), "%s/%s", f->folder, rest) < (int)sizeof(whole))
            file = whole;
    }
    if (f->include.count && !any_matches(&f->include, file))
        return true;
    return any_matches(&f->exclude, file);
}
