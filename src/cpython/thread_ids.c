#include "cpython/thread_ids.h"

#include <string.h>

#define PTHREAD_SIZE      2048
#define MAX_THREADS_ASKED 8
#define WORDS             (PTHREAD_SIZE / 4)

int32_t thread_ids_learn(struct mem *mem, const struct py_threads *threads,
                         const struct task_list *tasks)
{
    bool possible[WORDS];
    memset(possible, 1, sizeof(possible));
    size_t asked = 0;
    for (size_t i = 0; i < threads->count && asked < MAX_THREADS_ASKED; i++) {
        int32_t words[WORDS];
        if (!threads->items[i].thread_id ||
            mem_read(mem, threads->items[i].thread_id, words, sizeof(words)) < 0)
            continue;
        asked++;
        for (size_t w = 0; w < WORDS; w++)
            possible[w] = possible[w] && words[w] > 0 && tasks_by_ns_tid(tasks, words[w]);
    }
    if (!asked)
        return THREAD_ID_UNKNOWN;
    for (size_t w = 0; w < WORDS; w++)
        if (possible[w])
            return (int32_t)(w * 4);
    return THREAD_ID_UNKNOWN;
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
