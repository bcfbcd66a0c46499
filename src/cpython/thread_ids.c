#include "cpython/thread_ids.h"

#include <string.h>

#define PTHREAD_SIZE      2048
#define MAX_THREADS_ASKED 8
#define WORDS             (PTHREAD_SIZE / 4)
#define GLIBC_OFFSET      720 /* where glibc keeps it on x86-64 */

struct asked {
    uint64_t thread_id;
    int32_t words[WORDS];
};

/* Several states may belong to one thread (one in each interpreter): it is asked once. */
static bool was_asked(const struct asked *asked, size_t count, uint64_t thread_id)
{
    for (size_t i = 0; i < count; i++)
        if (asked[i].thread_id == thread_id)
            return true;
    return false;
}

static size_t ask(struct mem *mem, const struct py_threads *threads, struct asked *asked)
{
    size_t count = 0;
    for (size_t i = 0; i < threads->count && count < MAX_THREADS_ASKED; i++) {
        uint64_t id = threads->items[i].thread_id;
        if (!id || was_asked(asked, count, id) ||
            mem_read(mem, id, asked[count].words, sizeof(asked[count].words)) < 0)
            continue;
        asked[count++].thread_id = id;
    }
    return count;
}

/* In how many threads this word is a live thread id; 0 if it is the same one in two of them. */
static size_t votes_for(size_t word, const struct asked *asked, size_t count,
                        const struct task_list *tasks)
{
    size_t votes = 0;
    for (size_t i = 0; i < count; i++) {
        int32_t tid = asked[i].words[word];
        if (tid <= 0 || !tasks_by_ns_tid(tasks, tid))
            continue;
        for (size_t j = 0; j < i; j++)
            if (asked[j].words[word] == tid)
                return 0;
        votes++;
    }
    return votes;
}

int32_t thread_ids_learn(struct mem *mem, const struct py_threads *threads,
                         const struct task_list *tasks)
{
    struct asked asked[MAX_THREADS_ASKED];
    size_t count = ask(mem, threads, asked), best_votes = 0;
    int32_t best = THREAD_ID_UNKNOWN;
    for (size_t w = 0; w < WORDS; w++) {
        size_t votes = votes_for(w, asked, count, tasks);
        /* In a namespace of its own a process has small numbers, which other words hold by chance.
         */
        if (votes > best_votes || (votes && votes == best_votes && w * 4 == GLIBC_OFFSET)) {
            best_votes = votes;
            best = (int32_t)(w * 4);
        }
    }
    return best;
}

void thread_ids_fill(struct mem *mem, int32_t offset, struct py_threads *threads)
{
    if (offset == THREAD_ID_UNKNOWN)
        return;
    for (size_t i = 0; i < threads->count; i++) {
        struct py_thread *t = &threads->items[i];
        uint32_t tid;
        if (!t->ns_tid && t->thread_id &&
            mem_read_u32(mem, t->thread_id + (scry_addr)offset, &tid) == 0)
            t->ns_tid = (pid_t)tid;
    }
}
