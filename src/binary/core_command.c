/* A process begins with its arguments on the stack: their number, pointers to them and a zero, the
 * same for the environment, then the vector that is also among the notes. That is what it is found
 * by; from there it is read backwards. */
#include <string.h>

#include "binary/core.h"
#include "util/buf.h"

#define WORDS_MAX    (1u << 16) /* arguments and variables */
#define ARGUMENT_MAX 4096
#define COMMAND_MAX  (32u << 10)

static const struct core_segment *stack_of(const struct core *c)
{
    for (size_t i = 0; i < c->segment_count; i++)
        if (c->program_name_at >= c->segments[i].start && c->program_name_at < c->segments[i].end)
            return &c->segments[i];
    return NULL;
}

static bool find_auxv(const struct core *c, scry_addr *ret_at)
{
    const struct core_segment *stack = stack_of(c);
    /* Several entries, so that nothing else looks like it. */
    size_t len = c->auxv_size < 128 ? c->auxv_size : 128;
    if (!stack || !stack->there || len < 32)
        return false;
    const unsigned char *from = c->data + stack->offset;
    const unsigned char *found = memmem(from, (size_t)stack->there, c->auxv, len);
    if (!found || (found - from) % 8)
        return false;
    *ret_at = stack->start + (scry_addr)(found - from);
    return true;
}

/* Backwards over pointers to the zero before them; `at` stands behind the zero that ends them. */
static bool skip_pointers(struct mem *mem, scry_addr *at, uint64_t *ret_last)
{
    uint64_t word = 1;
    for (unsigned i = 0; i < WORDS_MAX; i++) {
        *at -= 8;
        *ret_last = word;
        if (mem_read_u64(mem, *at, &word) < 0)
            return false;
        if (!word)
            return true;
    }
    return false;
}

/* The number of arguments stands before them, and no pointer is as small as that. */
static bool find_arguments(struct mem *mem, scry_addr end, scry_addr *ret_first,
                           uint64_t *ret_count)
{
    for (uint64_t n = 0; n < WORDS_MAX; n++) {
        uint64_t word;
        if (mem_read_u64(mem, end - 8 * (n + 1), &word) < 0)
            return false;
        if (word == n) {
            *ret_first = end - 8 * n;
            *ret_count = n;
            return n > 0;
        }
    }
    return false;
}

bool core_command(const struct core *c, struct mem *mem, struct buf *ret_command)
{
    scry_addr at, first;
    uint64_t word, count;
    /* Before the vector: the zero that ends the environment. */
    if (!find_auxv(c, &at) || mem_read_u64(mem, at -= 8, &word) < 0 || word ||
        !skip_pointers(mem, &at, &word) || !find_arguments(mem, at, &first, &count))
        return false;
    for (uint64_t i = 0; i < count && ret_command->len < COMMAND_MAX; i++) {
        char argument[ARGUMENT_MAX];
        if (mem_read_u64(mem, first + 8 * i, &word) < 0 ||
            mem_read_cstr(mem, word, argument, sizeof(argument)) < 0)
            return false;
        buf_addf(ret_command, "%s%s", i ? " " : "", argument);
    }
    return !ret_command->failed;
}
