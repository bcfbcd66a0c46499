/* For KCachegrind and callgrind_annotate: what each line of each function costs by itself, and what its calls cost with
 * all below. Costs are microseconds. A function that is on a stack several times counts once per call that is
 * written, so that recursion does not multiply the time. */
#include "format/writers.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "format/path.h"
#include "format/words.h"
#include "util/table.h"
#include "version.h"

struct cost { /* of a line by itself, or of the calls it makes to one function */
    uint32_t caller;
    int32_t line;
    uint32_t callee; /* NOBODY: by itself */
    uint64_t samples;
    scry_nsec time;
    uint32_t last_stack; /* that was added, so that recursion is added once */
};
#define NOBODY UINT32_MAX

struct function {
    uint32_t name, file; /* in `texts` */
    int32_t first_line;
};

struct grind {
    struct recording *recording;
    const struct format_options *options;
    struct interner texts;
    struct interner keys; /* of functions: two text numbers */
    struct function *functions;
    size_t function_cap;
    struct table known; /* hash of (caller, line, callee) -> index in costs */
    struct cost *costs;
    size_t cost_count, cost_cap;
    uint64_t *samples; /* by stack */
    scry_nsec *times;
    size_t stack_cap;
    struct path path;
    struct buf text;
    FILE *out;
    bool *named_function, *named_file;
};

static uint32_t text_number(struct grind *g, const char *text, const char *fallback)
{
    buf_reset(&g->text);
    words_clean(&g->text, *text ? text : fallback);
    return interner_add(&g->texts, g->text.data, g->text.len, NULL);
}

static uint32_t function_number(struct grind *g, uint32_t frame)
{
    const struct rec_frame *f = recording_frame(g->recording, frame);
    const char *file = f->module[0] && !f->file[0]  ? f->module
                       : g->options->full_filenames ? f->file
                                                    : f->short_file;
    uint32_t key[2] = {text_number(g, f->name, "?"), text_number(g, file, "???")};
    bool fresh;
    uint32_t number = interner_add(&g->keys, key, sizeof(key), &fresh);
    if (key[0] == INTERN_FAILED || key[1] == INTERN_FAILED || number == INTERN_FAILED)
        return NOBODY;
    if (number >= g->function_cap) {
        size_t cap = g->function_cap ? g->function_cap * 2 : 256;
        struct function *grown = reallocarray(g->functions, cap, sizeof(*grown));
        if (!grown)
            return NOBODY;
        g->functions = grown;
        g->function_cap = cap;
    }
    if (fresh)
        g->functions[number] = (struct function){key[0], key[1], f->first_line};
    return number;
}

static struct cost *cost_of(struct grind *g, uint32_t caller, int32_t line, uint32_t callee)
{
    uint32_t key[3] = {caller, (uint32_t)line, callee};
    uint64_t hash = hash_bytes(key, sizeof(key), 0), index;
    if (table_get(&g->known, hash, &index))
        return &g->costs[index];
    if (g->cost_count == g->cost_cap) {
        size_t cap = g->cost_cap ? g->cost_cap * 2 : 1024;
        struct cost *grown = reallocarray(g->costs, cap, sizeof(*grown));
        if (!grown)
            return NULL;
        g->costs = grown;
        g->cost_cap = cap;
    }
    if (!table_put(&g->known, hash, g->cost_count))
        return NULL;
    g->costs[g->cost_count] = (struct cost){.caller = caller, .line = line, .callee = callee};
    return &g->costs[g->cost_count++];
}

/* Adds the samples of one stack to each line on it. */
static int add_stack(struct grind *g, uint32_t stack)
{
    uint32_t callee = NOBODY;
    if (!path_read(&g->path, g->recording, stack))
        return -SCRY_E_NO_MEMORY;
    for (size_t i = 0; i < g->path.count; i++) {
        uint32_t frame = g->path.items[i];
        uint32_t caller = function_number(g, frame);
        int32_t line = words_line(recording_frame(g->recording, frame), g->options->lines);
        struct cost *cost = caller == NOBODY ? NULL : cost_of(g, caller, line, callee);
        if (!cost)
            return -SCRY_E_NO_MEMORY;
        if (cost->last_stack != stack) {
            cost->samples += g->samples[stack];
            cost->time += g->times[stack];
        }
        cost->last_stack = stack;
        callee = caller;
    }
    return 0;
}

static int reserve_stacks(struct grind *g, size_t count)
{
    if (g->stack_cap >= count)
        return 0;
    size_t cap = count * 2;
    uint64_t *samples = reallocarray(g->samples, cap, sizeof(*samples));
    g->samples = samples ? samples : g->samples;
    scry_nsec *times = reallocarray(g->times, cap, sizeof(*times));
    g->times = times ? times : g->times;
    if (!samples || !times)
        return -SCRY_E_NO_MEMORY;
    memset(samples + g->stack_cap, 0, (cap - g->stack_cap) * sizeof(*samples));
    memset(times + g->stack_cap, 0, (cap - g->stack_cap) * sizeof(*times));
    g->stack_cap = cap;
    return 0;
}

static int read_samples(struct grind *g)
{
    struct rec_sample s;
    int more = recording_rewind(g->recording);
    while (more >= 0 && (more = recording_next(g->recording, &s)) > 0) {
        more = reserve_stacks(g, s.stack + 1);
        if (more < 0)
            break;
        g->samples[s.stack]++;
        g->times[s.stack] += s.weight;
    }
    for (uint32_t stack = 1; more == 0 && stack < g->stack_cap; stack++)
        if (g->samples[stack])
            more = add_stack(g, stack);
    return more;
}

/* ---- writing ---- */

static int by_function(const void *a, const void *b)
{
    const struct cost *x = a, *y = b;
    if (x->caller != y->caller)
        return x->caller < y->caller ? -1 : 1;
    if (x->line != y->line)
        return x->line < y->line ? -1 : 1;
    return x->callee == y->callee ? 0 : x->callee > y->callee ? -1 : 1; /* by itself first */
}

/* A name is written out once and then called by its number. */
static void put_name(struct grind *g, const char *what, bool *named, uint32_t number, uint32_t text)
{
    fprintf(g->out, "%s=(%" PRIu32 ")", what, number + 1);
    if (!named[number])
        fprintf(g->out, " %s", interner_get(&g->texts, text, NULL));
    named[number] = true;
    fputc('\n', g->out);
}

static void put_function(struct grind *g, uint32_t number, const char *file, const char *function)
{
    const struct function *f = &g->functions[number];
    put_name(g, file, g->named_file, f->file, f->file);
    put_name(g, function, g->named_function, number, f->name);
}

static uint64_t microseconds(scry_nsec time)
{
    return (time + 500) / 1000;
}

static void put_costs(struct grind *g)
{
    uint32_t current = NOBODY;
    if (g->cost_count)
        qsort(g->costs, g->cost_count, sizeof(*g->costs), by_function);
    for (size_t i = 0; i < g->cost_count && !ferror(g->out); i++) {
        const struct cost *c = &g->costs[i];
        if (c->caller != current) {
            fputc('\n', g->out);
            put_function(g, c->caller, "fl", "fn");
            current = c->caller;
        }
        if (c->callee != NOBODY) {
            put_function(g, c->callee, "cfi", "cfn");
            fprintf(g->out, "calls=%" PRIu64 " %" PRId32 "\n", c->samples,
                    g->functions[c->callee].first_line);
        }
        fprintf(g->out, "%" PRId32 " %" PRIu64 "\n", c->line, microseconds(c->time));
    }
}

static void put_head(struct grind *g)
{
    const char *what = words_measure(g->recording) == MEASURE_CPU ? "CPU time" : "wall clock time";
    fputs("# callgrind format\nversion: 1\ncreator: scry " SCRY_VERSION "\n", g->out);
    if (recording_process_count(g->recording)) {
        buf_reset(&g->text);
        words_program(&g->text, recording_process(g->recording, 0)->command);
        fprintf(g->out, "cmd: %s\n", g->text.data);
    }
    fprintf(g->out, "positions: line\nevent: us : microseconds of %s\nevents: us\n", what);
    /* What the lines by themselves add up to. */
    scry_nsec all = 0;
    for (size_t i = 0; i < g->cost_count; i++)
        all += g->costs[i].callee == NOBODY ? g->costs[i].time : 0;
    fprintf(g->out, "summary: %" PRIu64 "\n", microseconds(all));
}

static int put_all(struct grind *g)
{
    g->named_function = calloc(g->keys.count + 1, sizeof(bool));
    g->named_file = calloc(g->texts.count + 1, sizeof(bool));
    if (!g->named_function || !g->named_file || g->text.failed)
        return -SCRY_E_NO_MEMORY;
    put_head(g);
    put_costs(g);
    return 0;
}

int callgrind_write(struct recording *recording, const struct format_options *options, FILE *out,
                    struct error *err)
{
    struct grind g = {.recording = recording, .options = options, .out = out};
    buf_init(&g.text);
    interner_init(&g.texts);
    interner_init(&g.keys);
    table_init(&g.known);
    int r = read_samples(&g);
    if (r == 0)
        r = put_all(&g);
    free(g.functions);
    free(g.costs);
    free(g.samples);
    free(g.times);
    free(g.named_function);
    free(g.named_file);
    interner_done(&g.texts);
    interner_done(&g.keys);
    table_done(&g.known);
    path_done(&g.path);
    buf_done(&g.text);
    return r < 0 ? error_set(err, r, "%s", error_sentence(r)) : writers_check(out, err);
}
