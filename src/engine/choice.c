#include "engine/choice.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MODULE_MAX 512

bool choice_of_frames(const struct choice *c)
{
    return c->include.count || c->exclude.count;
}

static bool is_number(const char *text, pid_t number)
{
    char *end;
    return *text && strtol(text, &end, 10) == number && !*end;
}

bool choice_takes_thread(const struct choice *c, pid_t tid, const char *name)
{
    if (!c->threads.count)
        return true;
    for (size_t i = 0; i < c->threads.count; i++) {
        const char *wanted = c->threads.items[i];
        if ((tid > 0 && is_number(wanted, tid)) || fnmatch(wanted, name, 0) == 0)
            return true;
    }
    return false;
}

/* "a/b/__init__.py" -> "a.b"; what is no path ("<string>") stays as it is. */
static void module_name(const char *short_file, char to[static MODULE_MAX])
{
    static const char package[] = ".__init__";
    snprintf(to, MODULE_MAX, "%s", short_file);
    size_t len = strlen(to);
    if (len > 3 && strcmp(to + len - 3, ".py") == 0)
        to[len -= 3] = '\0';
    for (char *slash = to; (slash = strchr(slash, '/'));)
        *slash = '.';
    size_t tail = sizeof(package) - 1;
    if (len > tail && strcmp(to + len - tail, package) == 0)
        to[len - tail] = '\0';
}

static bool is_in_package(const char *module, const char *package)
{
    size_t len = strlen(package);
    return strncmp(module, package, len) == 0 && module[len] == '.';
}

static bool any_matches(const struct patterns *p, const char *file, const char *short_file,
                        const char *module)
{
    for (size_t i = 0; i < p->count; i++) {
        const char *wanted = p->items[i];
        if (fnmatch(wanted, file, 0) == 0 || fnmatch(wanted, short_file, 0) == 0 ||
            fnmatch(wanted, module, 0) == 0 || is_in_package(module, wanted))
            return true;
    }
    return false;
}

bool choice_shows_frame(const struct choice *c, const char *file, const char *short_file)
{
    char module[MODULE_MAX];
    if (!choice_of_frames(c))
        return true;
    module_name(short_file, module);
    if (c->include.count && !any_matches(&c->include, file, short_file, module))
        return false;
    return !any_matches(&c->exclude, file, short_file, module);
}
