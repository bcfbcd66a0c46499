#include "access/task.h"

void task_wait_reason(const struct process *process, pid_t tid, char *to, size_t cap)
{
    (void)process, (void)tid;
    if (cap)
        to[0] = '\0';
}
