#include "dwarf/cython.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_FILES  256
#define MAX_SOURCE (64u << 20)
#define MAX_MARKS  (1u << 20)

/* From this line of the C file on, up to the next mark. */
struct mark {
    int32_t at;
    struct cython_place to;
};

struct source {
    char *path;
    char *text;
    struct mark *marks;
    size_t count, cap;
};

struct cython_sources {
    const struct modules *modules;
    struct source files[MAX_FILES];
    size_t count;
};

struct cython_sources *cython_sources_new(const struct modules *modules)
{
    struct cython_sources *s = calloc(1, sizeof(*s));
    if (s)
        s->modules = modules;
    return s;
}

void cython_sources_free(struct cython_sources *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->count; i++) {
        free(s->files[i].path);
        free(s->files[i].text);
        free(s->files[i].marks);
    }
    free(s);
}

static char *read_file(const struct modules *modules, const char *path)
{
    int fd = modules_open_path(modules, path);
    struct stat st;
    char *text = NULL;
    if (fd < 0)
        return NULL;
    if (fstat(fd, &st) == 0 && st.st_size > 0 && st.st_size <= MAX_SOURCE)
        text = malloc((size_t)st.st_size + 1);
    size_t len = 0;
    for (ssize_t got = 1;
         text && got > 0 && len<(size_t)st.st_size; len += got> 0 ? (size_t)got : 0)
        got = read(fd, text + len, (size_t)st.st_size - len);
    if (text)
        text[len] = '\0';
    close(fd);
    return text;
}

static void add_mark(struct source *f, int32_t at, const char *file, int32_t line)
{
    if (f->count == f->cap) {
        size_t cap = f->cap ? f->cap * 2 : 256;
        struct mark *grown = cap <= MAX_MARKS ? realloc(f->marks, cap * sizeof(*grown)) : NULL;
        if (!grown)
            return;
        f->marks = grown;
        f->cap = cap;
    }
    f->marks[f->count++] = (struct mark){at, {file, line}};
}

/* A mark is a line of the form   / * "path/module.pyx":12   The text is cut into strings on the way.
 */
static void take_mark(struct source *f, char *line, int32_t number)
{
    line += strspn(line, " \t");
    if (strncmp(line, "/* \"", 4) != 0)
        return;
    char *file = line + 4, *quote = strchr(file, '"');
    if (!quote || quote[1] != ':')
        return;
    long at = strtol(quote + 2, NULL, 10);
    *quote = '\0';
    if (at > 0 && at < INT32_MAX)
        add_mark(f, number, file, (int32_t)at);
}

static void parse(struct source *f)
{
    int32_t number = 1;
    for (char *line = f->text; line && number < INT32_MAX; number++) {
        char *end = strchr(line, '\n');
        if (end)
            *end = '\0';
        take_mark(f, line, number);
        line = end ? end + 1 : NULL;
    }
}

static struct source *find_source(struct cython_sources *s, const char *path)
{
    for (size_t i = 0; i < s->count; i++)
        if (strcmp(s->files[i].path, path) == 0)
            return &s->files[i];
    if (s->count == MAX_FILES)
        return NULL;
    struct source *f = &s->files[s->count];
    *f = (struct source){.path = strdup(path), .text = read_file(s->modules, path)};
    if (!f->path) {
        free(f->text);
        return NULL;
    }
    s->count++;
    parse(f);
    return f;
}

bool cython_sources_find(struct cython_sources *s, const char *file, int32_t line,
                         struct cython_place *ret)
{
    const struct source *f = find_source(s, file);
    size_t low = 0, high = f ? f->count : 0;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (f->marks[mid].at <= line)
            low = mid + 1;
        else
            high = mid;
    }
    if (!low)
        return false;
    *ret = f->marks[low - 1].to;
    return true;
}
