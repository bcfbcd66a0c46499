/* What this server may be asked to look into. Empty lists allow all. */
#ifndef SCRY_HTTP_POLICY_H
#define SCRY_HTTP_POLICY_H

#include "util/error.h"
#include "util/types.h"

#define POLICY_USERS_MAX 32
#define POLICY_TEXT_MAX  512

struct policy {
    uid_t users[POLICY_USERS_MAX];
    size_t user_count;
    bool same_pid_namespace; /* only processes of the pid namespace given below */
    ino_t pid_namespace;
};

/* By name or number. */
int policy_add_user(struct policy *policy, const char *user, struct error *err);
/* "self", the pid of a process in it, or a path such as /proc/1/ns/pid. */
int policy_set_pid_namespace(struct policy *policy, const char *which, struct error *err);
/* The same for jobs, as access/confine.h reads it; "" = all is allowed. */
void policy_confinement(const struct policy *policy, char to[static POLICY_TEXT_MAX]);
/* 0 or -SCRY_E_PERMISSION. */
int policy_check(const struct policy *policy, pid_t pid, uid_t uid, struct error *err);

#endif
