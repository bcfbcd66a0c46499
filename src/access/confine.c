#include "access/confine.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Whether the numbers, separated by commas, hold this one; *text is moved behind them. */
static bool list_has(const char **text, unsigned long long wanted)
{
    bool found = false;
    for (;;) {
        char *end;
        if (**text < '0' || **text > '9')
            return false;
        found |= strtoull(*text, &end, 10) == wanted;
        *text = end;
        if (*end != ',')
            return found;
        (*text)++;
    }
}

static bool allows(const char *rule, int proc_fd)
{
    struct stat st;
    while (*rule) {
        bool users = strncmp(rule, "users=", 6) == 0;
        if (!users && strncmp(rule, "pidns=", 6) != 0)
            return false;
        rule += 6;
        if (fstatat(proc_fd, users ? "." : "ns/pid", &st, 0) != 0 ||
            !list_has(&rule, users ? st.st_uid : st.st_ino) || (*rule && *rule != ' '))
            return false;
        rule += strspn(rule, " ");
    }
    return true;
}

int confine_check(int proc_fd, pid_t pid, struct error *err)
{
    const char *rule = getenv(CONFINE_VARIABLE);
    if (!rule || allows(rule, proc_fd))
        return 0;
    error_set(err, -SCRY_E_PERMISSION, "there is no permission to look into process %d", pid);
    error_hint(err, "the policy in %s says which processes may be looked into", CONFINE_VARIABLE);
    return -SCRY_E_PERMISSION;
}
