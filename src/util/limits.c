#include "util/limits.h"

#include <stdbool.h>
#include <sys/resource.h>

static struct rlimit before;
static bool raised;

void limits_raise_files(void)
{
    if (raised || getrlimit(RLIMIT_NOFILE, &before) != 0)
        return;
    struct rlimit most = {before.rlim_max, before.rlim_max};
    raised = setrlimit(RLIMIT_NOFILE, &most) == 0;
}

void limits_restore_files(void)
{
    if (raised)
        setrlimit(RLIMIT_NOFILE, &before);
}
