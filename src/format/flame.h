/* Drawing flame graphs: the page and the boxes of one call tree. What the boxes say and which
 * colours they have is up to whoever draws: flamegraph.c for one recording, flamegraph_diff.c for
 * two. */
#ifndef SCRY_FORMAT_FLAME_H
#define SCRY_FORMAT_FLAME_H

#include "format/tree.h"

struct flame;

/* A box is a node, or with `rest` all the children of a node that are too narrow to be drawn. */
struct flame_part {
    uint32_t node;
    bool rest;
    uint64_t width; /* in the tree's totals */
};

struct flame_kind {
    /* What stands in the tooltip behind the label, in parentheses. */
    void (*note)(const struct flame *f, const struct flame_part *part, struct buf *b);
    /* Of flamegraph.css. Begins with r or x where the label is no function. */
    void (*class)(const struct flame *f, const struct flame_part *part, char ret_class[static 8]);
    /* May be NULL: told of each node that goes into the rest of its parent. */
    void (*fold)(const struct flame *f, uint32_t node);
};

#define FLAME_NARROWEST 0.0002 /* of all samples; less is folded into one box per parent */

struct flame {
    const struct tree *tree; /* boxes are as wide as the totals of its nodes */
    const struct flame_kind *kind;
    void *context;        /* for `kind` */
    enum measure measure; /* what the totals are */
    FILE *out;
    /* private to flame.c */
    uint32_t *boxes; /* the nodes drawn, by parent, heaviest first; the root stands first */
    size_t count;
    uint32_t *first; /* node -> index in `boxes` of its first child; 0 = none is drawn */
    struct flame_rest *rests;
    uint64_t narrowest;
    uint32_t deepest;
    /* after flame_arrange() */
    uint64_t folded; /* nodes not drawn */
    uint32_t rows;
};

/* Choose what is drawn and where. The root has a total above 0. */
int flame_arrange(struct flame *f);
void flame_done(struct flame *f); /* harmless on a zeroed struct */

/* The page from top to bottom: head, boxes once or more, foot, header, script and end. */
uint32_t flame_height(uint32_t rows); /* of a page with so many rows, in pixels */
void flame_put_head(FILE *out, const char *title, uint32_t height);
/* `view` is "" for the only one, else its name; a `hidden` one is there to be switched to. */
int flame_put_boxes(const struct flame *f, const char *view, bool hidden);
void flame_put_foot(FILE *out, const char *footer, uint32_t height);
void flame_begin_header(FILE *out, const char *title);
void flame_end_header(FILE *out);
void flame_put_end(FILE *out);
/* A page that says why there is nothing to be seen. */
void flame_put_empty(FILE *out, const char *title, const char *what, const char *why,
                     const char *footer);

/* One patch of colour with its meaning, at *x of the header; moves *x on. */
void flame_put_legend(FILE *out, const char *class, const char *text, int *x);

/* 1234567 -> "1,234,567" */
const char *flame_grouped(uint64_t number, char text[static 32]);
const char *flame_plural(uint64_t number, const char *one, const char *many);
/* "30.0 s", "2 min 05 s" */
void flame_add_span(struct buf *b, double seconds);

#endif
