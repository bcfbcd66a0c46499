#include "dwarf/symbolizer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dwarf/cython.h"
#include "dwarf/demangle.h"
#include "dwarf/extents.h"
#include "dwarf/inlines.h"
#include "dwarf/symbols.h"

#define MAX_CODES   (1u << 20)
#define CYTHON_MARK "__pyx_"

void symbolizer_init(struct symbolizer *s, struct modules *modules)
{
    *s = (struct symbolizer){.modules = modules};
    table_init(&s->by_addr);
}

static void code_free(struct native_code *c)
{
    while (c) {
        struct native_code *next = c->next;
        free(c->name);
        free(c->symbol);
        free(c->file);
        free(c);
        c = next;
    }
}

void symbolizer_done(struct symbolizer *s)
{
    for (size_t i = 0; i < s->count; i++)
        code_free(s->codes[i]);
    free(s->codes);
    table_done(&s->by_addr);
    cython_sources_free(s->cython);
    *s = (struct symbolizer){0};
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

const char *native_code_file(const struct native_code *code, bool full)
{
    const char *file = code->file[0] ? code->file : code->module;
    return full ? file : base_name(file);
}

/* One name for the whole function, where the unwind tables say which one it is. */
static uint64_t function_start(const struct module *module, scry_addr addr)
{
    struct binary *b = module->binary;
    uint64_t inside = addr - module->bias, start;
    if (!b->extents_tried && b->elf)
        b->extents = extents_new(b->elf);
    b->extents_tried = true;
    return b->extents && extents_find(b->extents, inside, &start) ? start : inside;
}

static char *place_name(const struct module *module, scry_addr addr)
{
    char text[512];
    if (!module)
        snprintf(text, sizeof(text), "0x%" PRIx64, addr);
    else if (!module->binary)
        snprintf(text, sizeof(text), "[anonymous]+0x%" PRIx64, addr - module->start);
    else
        snprintf(text, sizeof(text), "%.400s+0x%" PRIx64, base_name(module->binary->path),
                 module->has_bias ? function_start(module, addr)
                                  : addr - module->start + module->offset);
    return strdup(text);
}

static size_t find_places(struct symbolizer *s, const struct module *module, scry_addr addr,
                          struct source_place *places)
{
    if (!module || !module->has_bias)
        return 0;
    struct binary *b = module->binary;
    if (!b->debug)
        b->debug = debug_info_new(s->modules, b);
    return b->debug ? debug_info_places(b->debug, addr - module->bias, places, INLINE_MAX) : 0;
}

static char *whole_path(const struct source_place *place)
{
    SCOPED_BUF path;
    buf_init(&path);
    if (place && place->file && place->file[0] != '/' && place->folder)
        buf_addf(&path, "%s/", place->folder);
    buf_add_str(&path, place && place->file ? place->file : "");
    return path.failed ? NULL : strdup(path.data);
}

static char *readable_name(const char *symbol, const struct source_place *place,
                           const struct module *module, scry_addr addr)
{
    const char *mangled = place && place->linkage ? place->linkage : NULL;
    const char *plain = place ? place->name : NULL;
    const char *best = mangled ? mangled : plain ? plain : symbol;
    if (!best || !*best)
        return place_name(module, addr);
    char *name = cython_name(best);
    return name ? name : demangle(best);
}

/* In what Cython generates the lines are those of the C file; comments there tell those of the
 * .pyx. */
static void map_cython(struct symbolizer *s, struct native_code *c)
{
    if (!c->file[0] || !c->line)
        return;
    if (!s->cython)
        s->cython = cython_sources_new(s->modules);
    struct cython_place found;
    if (!s->cython || !cython_sources_find(s->cython, c->file, c->line, &found))
        return;
    char *file = strdup(found.file);
    if (!file)
        return;
    free(c->file);
    c->file = file;
    c->line = found.line;
    c->first_line = 0;
}

static struct native_code *make_code(struct symbolizer *s, const struct module *module,
                                     scry_addr addr, const char *symbol,
                                     const struct source_place *place)
{
    struct native_code *c = calloc(1, sizeof(*c));
    if (!c)
        return NULL;
    const char *mangled = place && place->linkage ? place->linkage : place ? place->name : NULL;
    *c = (struct native_code){
        .serial = s->next_serial++,
        .name = readable_name(symbol, place, module, addr),
        .symbol = strdup(symbol),
        .file = whole_path(place),
        .module = module && module->binary ? module->binary->path : "[unknown]",
        .line = place ? place->line : 0,
        .first_line = place ? place->first_line : 0,
        .helper = cython_is_helper(mangled ? mangled : symbol),
    };
    if (!c->name || !c->symbol || !c->file) {
        code_free(c);
        return NULL;
    }
    if (strncmp(symbol, CYTHON_MARK, strlen(CYTHON_MARK)) == 0)
        map_cython(s, c);
    return c;
}

static struct native_code *resolve(struct symbolizer *s, scry_addr addr)
{
    struct source_place places[INLINE_MAX];
    const struct module *module = modules_find(s->modules, addr);
    const struct symbol *symbol = symbol_at(s->modules, module, addr);
    const char *name = symbol ? symbol->name : "";
    size_t count = find_places(s, module, addr, places);
    struct native_code *code = NULL;
    for (size_t i = count ? count : 1; i-- > 0;) {
        struct native_code *c = make_code(s, module, addr, name, count ? &places[i] : NULL);
        if (!c) {
            code_free(code);
            return NULL;
        }
        c->next = code;
        c->inlined = code != NULL;
        code = c;
    }
    return code;
}

struct native_code *symbolizer_find(struct symbolizer *s, scry_addr pc, bool exact)
{
    scry_addr addr = exact ? pc : pc - 1;
    uint64_t index;
    if (s->generation != s->modules->generation) {
        table_reset(&s->by_addr);
        s->generation = s->modules->generation;
    }
    if (table_get(&s->by_addr, addr, &index))
        return s->codes[index];
    if (s->count == s->cap) {
        size_t cap = s->cap ? s->cap * 2 : 256;
        struct native_code **grown =
            cap <= MAX_CODES ? realloc(s->codes, cap * sizeof(*grown)) : NULL;
        if (!grown)
            return NULL;
        s->codes = grown;
        s->cap = cap;
    }
    struct native_code *code = resolve(s, addr);
    if (!code)
        return NULL;
    s->codes[s->count] = code;
    if (!table_put(&s->by_addr, addr, s->count)) {
        code_free(code);
        return NULL;
    }
    return s->codes[s->count++];
}
