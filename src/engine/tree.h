/* The processes being sampled together: one, or one and all its descendants that run Python. */
#ifndef SCRY_ENGINE_TREE_H
#define SCRY_ENGINE_TREE_H

#include "engine/target.h"
#include "util/table.h"

#define REC_NONE UINT32_MAX

/* One process that runs Python, with the numbers its things have in the recording. */
struct member {
    struct target *target;
    bool ended;
    uint32_t scans;          /* it was there */
    bool counted;            /* in the statistics */
    bool reader_chosen;      /* where its stacks are read */
    scry_nsec next_collect;  /* when, if in the kernel; since the start */
    scry_nsec held;          /* of its stats: what is accounted for */
    uint32_t process_number; /* REC_NONE = not given yet */
    struct table thread_numbers;
    struct table frame_numbers;
    struct table native_numbers; /* of native frames, by the serial of their code */
};

/* A descendant that is not a member: not Python yet, or not at all. */
struct candidate {
    pid_t pid;
    struct process *process; /* NULL when it could not be opened */
    scry_nsec next_try;
    unsigned tries;
};

struct tree {
    struct process **roots;
    size_t root_count;
    bool follow;
    bool roots_ended;
    struct member *members;
    size_t count, cap;
    struct candidate *candidates;
    size_t candidate_count, candidate_cap;
    scry_nsec next_scan;
    unsigned scans;
    scry_nsec scanned;         /* when all were last looked for */
    uint64_t newest;           /* process of the machine, then */
    struct pid_list known;     /* while they are looked for: members and candidates, sorted */
    size_t listed;             /* candidates in it */
    struct target_stats ended; /* of members that are gone */
};

/* The recording begins anew, with no numbers given yet. */
void member_forget_numbers(struct member *m);

struct tree_wish {
    const pid_t *pids; /* none twice */
    size_t count;
    bool any;    /* those that run Python and may be looked into, at least one; else each of them */
    bool follow; /* their descendants, too */
    scry_nsec patience;
};

/* Waits up to `patience` for Python to start in the processes or, with `follow`, in any descendant. */
int tree_open(struct tree *tree, const struct tree_wish *wish, struct error *err);
void tree_close(struct tree *tree);
/* Find descendants that are new and processes that have exec'ed; cheap when called often. */
void tree_refresh(struct tree *tree, scry_nsec now);
void tree_drop_ended(struct tree *tree);
/* All roots have ended, or nobody is left and nobody can come. */
bool tree_ended(const struct tree *tree);

#endif
