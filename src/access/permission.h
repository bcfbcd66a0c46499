/* May scry look into this process, and if not, exactly why, and what helps? */
#ifndef SCRY_ACCESS_PERMISSION_H
#define SCRY_ACCESS_PERMISSION_H

#include "util/error.h"
#include "util/types.h"

struct diagnosis {
    bool can_attach;
    const char *reason; /* a stable word: "ok", "yama", "uid", "capability", "seccomp", "userns",
                           "pidns", "not-dumpable", "lsm", "zombie", "gone", "kernel-thread" */
    char why[512]; /* one sentence, without a full stop; contains the word "permission" if it is one
                    */
    char remedy[512]; /* what to do; "" when nothing helps */
};

/* Tries a harmless read and, if that is refused, finds the cause in /proc. Never stops the target.
 */
void permission_diagnose(pid_t pid, struct diagnosis *ret);
/* The same as an error: -SCRY_E_PERMISSION (or NO_PROCESS, ZOMBIE ...) with why and remedy filled
 * in. */
int permission_error(pid_t pid, struct error *err);

#endif
