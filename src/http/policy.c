#include "http/policy.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int policy_add_user(struct policy *policy, const char *user, struct error *err)
{
    if (policy->user_count == POLICY_USERS_MAX)
        return error_set(err, -SCRY_E_USAGE, "more than %d users are allowed", POLICY_USERS_MAX);
    char *end;
    unsigned long number = strtoul(user, &end, 10);
    if (*user && !*end && number < UINT32_MAX) {
        policy->users[policy->user_count++] = (uid_t)number;
        return 0;
    }
    const struct passwd *entry = getpwnam(user);
    if (!entry) {
        error_set(err, -SCRY_E_USAGE, "there is no user '%s'", user);
        error_hint(err, "give a name of this host, or a number");
        return -SCRY_E_USAGE;
    }
    policy->users[policy->user_count++] = entry->pw_uid;
    return 0;
}

int policy_set_pid_namespace(struct policy *policy, const char *which, struct error *err)
{
    char path[64];
    struct stat st;
    if (strcmp(which, "self") == 0)
        snprintf(path, sizeof(path), "/proc/self/ns/pid");
    else if (which[strspn(which, "0123456789")] == '\0')
        snprintf(path, sizeof(path), "/proc/%.10s/ns/pid", which);
    else
        snprintf(path, sizeof(path), "%.60s", which);
    if (stat(path, &st) != 0) {
        error_set(err, -SCRY_E_USAGE, "cannot find the pid namespace '%s': %s", which,
                  strerror(errno));
        error_hint(err,
                   "give self, the number of a process in it, or a path such as /proc/1/ns/pid");
        return -SCRY_E_USAGE;
    }
    policy->same_pid_namespace = true;
    policy->pid_namespace = st.st_ino;
    return 0;
}

void policy_confinement(const struct policy *policy, char to[static POLICY_TEXT_MAX])
{
    size_t n = 0;
    to[0] = '\0';
    for (size_t i = 0; i < policy->user_count; i++)
        n += (size_t)snprintf(to + n, POLICY_TEXT_MAX - n, "%s%u",
                              i ? "," : "users=", policy->users[i]);
    if (policy->same_pid_namespace)
        snprintf(to + n, POLICY_TEXT_MAX - n, "%spidns=%llu", n ? " " : "",
                 (unsigned long long)policy->pid_namespace);
}

static bool user_allowed(const struct policy *policy, uid_t uid)
{
    for (size_t i = 0; i < policy->user_count; i++)
        if (policy->users[i] == uid)
            return true;
    return policy->user_count == 0;
}

int policy_check(const struct policy *policy, pid_t pid, uid_t uid, struct error *err)
{
    if (!user_allowed(policy, uid)) {
        error_set(err, -SCRY_E_PERMISSION,
                  "this server has no permission to look into processes of user %u", uid);
        error_hint(err, "its --allow-user says which users' processes it looks into");
        return -SCRY_E_PERMISSION;
    }
    char path[64];
    struct stat st;
    snprintf(path, sizeof(path), "/proc/%d/ns/pid", pid);
    if (policy->same_pid_namespace &&
        (stat(path, &st) != 0 || st.st_ino != policy->pid_namespace)) {
        error_set(err, -SCRY_E_PERMISSION,
                  "this server has no permission to look into process %d: it lives in another pid "
                  "namespace",
                  pid);
        error_hint(err, "its --allow-pid-namespace says which one it looks into");
        return -SCRY_E_PERMISSION;
    }
    return 0;
}
