/* Folded stacks: one line per distinct stack, root first, frames joined by `;`, a blank, the number
 * of samples; sorted by bytes, so that two runs can be compared line by line. A `;` inside a label
 * is written as `:`. */
#include "format/writers.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "format/tree.h"

static void add_line(struct buf *b, const struct tree *t, uint32_t node)
{
    uint32_t depth = t->nodes[node].depth;
    SCOPED_BUF path;
    buf_init(&path);
    for (uint32_t n = node; n != TREE_ROOT; n = t->nodes[n].parent)
        buf_add(&path, &n, sizeof(n));
    b->failed |= path.failed;
    for (uint32_t i = depth; i-- > 0 && !path.failed;) {
        uint32_t n;
        memcpy(&n, path.data + i * sizeof(n), sizeof(n));
        if (i + 1 != depth)
            buf_add_char(b, ';');
        buf_add_str(b, tree_text(t, n));
    }
    buf_addf(b, " %" PRIu64 "\n", t->nodes[node].self);
}

static int compare_lines(const struct tree *t, uint32_t a, uint32_t b)
{
    SCOPED_BUF x, y;
    buf_init(&x);
    buf_init(&y);
    add_line(&x, t, a);
    add_line(&y, t, b);
    return strcmp(x.data, y.data);
}

/* Two nodes by the lines they make. The texts differ first where the paths part, so nothing needs
 * to be put together, unless one label begins with the other. */
static int compare_nodes(const void *pa, const void *pb, void *tree)
{
    const struct tree *t = tree;
    uint32_t a = *(const uint32_t *)pa, b = *(const uint32_t *)pb;
    uint32_t x = a, y = b;
    while (t->nodes[x].depth > t->nodes[y].depth)
        x = t->nodes[x].parent;
    while (t->nodes[y].depth > t->nodes[x].depth)
        y = t->nodes[y].parent;
    if (x == y) /* one calls the other: a blank sorts before `;` */
        return t->nodes[a].depth < t->nodes[b].depth ? -1 : t->nodes[a].depth > t->nodes[b].depth;
    while (t->nodes[x].parent != t->nodes[y].parent) {
        x = t->nodes[x].parent;
        y = t->nodes[y].parent;
    }
    const char *s = tree_text(t, x), *u = tree_text(t, y);
    size_t shorter = strlen(s) < strlen(u) ? strlen(s) : strlen(u);
    int order = memcmp(s, u, shorter);
    return order ? order : compare_lines(t, a, b);
}

static int write_lines(const struct tree *t, FILE *out)
{
    uint32_t *nodes = malloc(t->count * sizeof(*nodes));
    if (!nodes)
        return -SCRY_E_NO_MEMORY;
    size_t count = 0;
    for (uint32_t i = 0; i < t->count; i++)
        if (t->nodes[i].self)
            nodes[count++] = i;
    qsort_r(nodes, count, sizeof(*nodes), compare_nodes, (void *)t);
    SCOPED_BUF line;
    buf_init(&line);
    for (size_t i = 0; i < count && !line.failed && !ferror(out); i++) {
        buf_reset(&line);
        add_line(&line, t, nodes[i]);
        fwrite(line.data, 1, line.len, out);
    }
    free(nodes);
    return line.failed ? -SCRY_E_NO_MEMORY : 0;
}

int raw_write(struct recording *recording, const struct format_options *options, FILE *out,
              struct error *err)
{
    struct tree tree;
    int r = tree_read(&tree, recording, options, true, err);
    if (r < 0)
        return r;
    r = write_lines(&tree, out);
    tree_done(&tree);
    return r < 0 ? error_set(err, r, "out of memory") : writers_check(out, err);
}
