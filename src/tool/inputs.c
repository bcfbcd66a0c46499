#include "tool/inputs.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "tool/text.h"

/* An input that is spoilt stops us, unless its user knows and wants what is left. One that merely
 * has no end was whole when its writer was killed. */
static int check_one(const char *tool, const char *path, const struct rec_summary *s, bool partial,
                     struct error *err)
{
    if (s->damaged && !partial) {
        error_set(err, -SCRY_E_BAD_FILE, "'%s' is cut off or damaged after %" PRIu64 " samples",
                  path, s->samples);
        error_hint(err, "to take what comes before the damage, add --partial");
        return -SCRY_E_BAD_FILE;
    }
    if (s->complete)
        return 0;
    fprintf(stderr, "%s: '", tool);
    text_print(stderr, path);
    fprintf(stderr, "' %s: taking the %" PRIu64 " samples of %.1f s that are there\n",
            s->damaged ? "is cut off or damaged" : "has no end, as when scry is killed", s->samples,
            (double)s->duration / 1e9);
    return 0;
}

int inputs_check(const char *tool, struct recording *r, const char *const *paths, size_t count,
                 bool partial, struct error *err)
{
    struct rec_sample sample;
    int result;
    while ((result = recording_next(r, &sample)) > 0)
        ;
    for (size_t i = 0; result == 0 && i < count; i++)
        result = check_one(tool, paths[i], recording_file_summary(r, i), partial, err);
    return result == 0 ? recording_rewind(r) : result;
}

int inputs_check_output(const char *const *paths, size_t count, const char *output,
                        struct error *err)
{
    struct stat out, in;
    if (stat(output, &out) != 0 || !S_ISREG(out.st_mode))
        return 0;
    for (size_t i = 0; i < count; i++) {
        if (stat(paths[i], &in) != 0 || in.st_dev != out.st_dev || in.st_ino != out.st_ino)
            continue;
        error_set(err, -SCRY_E_USAGE, "'%s' is to be read and cannot be written at the same time",
                  paths[i]);
        error_hint(err, "name another file with -o");
        return -SCRY_E_USAGE;
    }
    return 0;
}

int inputs_check_default_name(const char *name, struct error *err)
{
    struct stat st;
    if (lstat(name, &st) != 0)
        return 0;
    error_set(err, -SCRY_E_OUTPUT, "'%s' is there already", name);
    error_hint(err, "to replace it, name it with -o");
    return -SCRY_E_OUTPUT;
}

size_t inputs_stem(const char *path)
{
    size_t len = strlen(path);
    return len > 5 && strcmp(path + len - 5, ".scry") == 0 ? len - 5 : len;
}
