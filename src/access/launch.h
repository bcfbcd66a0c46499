/* A program that scry starts itself. */
#ifndef SCRY_ACCESS_LAUNCH_H
#define SCRY_ACCESS_LAUNCH_H

#include "util/error.h"
#include "util/types.h"

struct launch {
    pid_t pid;
    bool ended;
    int status; /* as wait() says, when ended */
};

/* argv[0] is looked up in PATH. A program that cannot be executed is reported here (LAUNCH, naming
 * it), not by a silent child. The child has default signal handling and an empty signal mask, keeps
 * standard streams, and under sudo runs as the calling user (SUDO_UID, SUDO_GID, their groups). */
int launch_program(struct launch *l, char *const argv[], struct error *err);
/* The same with other standard streams: input, output, error; -1 keeps scry's own. The descriptors
 * stay the caller's. */
int launch_program_with(struct launch *l, char *const argv[], const int streams[3],
                        struct error *err);
/* Has it ended? Never blocks; safe beside ptrace. */
bool launch_poll(struct launch *l);
/* Wait for its end, no longer than that; whether it came. */
bool launch_wait(struct launch *l, scry_nsec limit);
/* End it: SIGTERM, and SIGKILL when it is still there after `grace`. Reaps it. */
void launch_end(struct launch *l, scry_nsec grace);
/* What a shell would say: the exit status, or 128 + signal. */
int launch_exit_status(const struct launch *l);

#endif
