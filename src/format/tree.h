/* The call tree of a recording: every sample added up by what is on its stack, as text. Memory
 * grows with the distinct stacks, not with time. Parents come before their children in `nodes`. */
#ifndef SCRY_FORMAT_TREE_H
#define SCRY_FORMAT_TREE_H

#include "format/format.h"
#include "format/words.h"
#include "util/table.h"

struct tree_node {
    uint32_t parent; /* TREE_ROOT is its own */
    uint32_t label;
    uint32_t depth; /* TREE_ROOT: 0 */
    uint64_t self;  /* samples that end here; or their microseconds, see words_measure() */
    uint64_t total; /* and in what it calls */
    scry_nsec time; /* weights of `total` */
};
#define TREE_ROOT 0

struct tree_label {
    enum origin origin;
    uint32_t hue;  /* the same for every line of one function */
    uint32_t name; /* length of the function's name at the start of the text; all of it in roots */
};

struct tree {
    struct tree_node *nodes;
    size_t count, cap;
    struct interner texts; /* label -> text; label 0 is the root's, "" */
    struct tree_label *labels;
    size_t label_cap;
    struct table children; /* (parent, label) -> node */
    struct table places;   /* (root node, stack) -> node, so that a stack is resolved once */
};

/* Reads the recording from its start to its end; samples without a frame are left out. With
 * `folded`, `;` in a label becomes `:`, because folded lines are joined by it. */
int tree_read(struct tree *t, struct recording *r, const struct format_options *options,
              bool folded, struct error *err);
void tree_done(struct tree *t);

/* The same in steps, for a tree of more than one recording. tree_add() adds samples to `self` and
 * their time to `time` of the node they end in; tree_add_up() then makes the sums. A tree that
 * failed is still the caller's. */
int tree_init(struct tree *t, struct error *err);
int tree_add(struct tree *t, struct recording *r, const struct format_options *options, bool folded,
             struct error *err);
void tree_add_up(struct tree *t);

const char *tree_text(const struct tree *t, uint32_t node);

#endif
