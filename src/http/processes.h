/* The Python processes of this host, as the API lists them. The list is made anew when it is asked
 * for and older than a moment; what does not change about a process is kept. Only text files of
 * /proc are read here. What takes a look inside, a child process does (scry ps). */
#ifndef SCRY_HTTP_PROCESSES_H
#define SCRY_HTTP_PROCESSES_H

#include "http/policy.h"
#include "util/buf.h"
#include "util/types.h"

struct processes;

/* `node` and `name` of this node go into each row; all three stay the caller's. */
int processes_new(const char *node, const char *name, const struct policy *policy,
                  struct processes **ret);
void processes_free(struct processes *p);
/* Rows say which recording a process is in. */
struct jobs;
void processes_set_jobs(struct processes *p, struct jobs *jobs);

/* {"processes": [...]} as JSON, at most a second old. */
void processes_json(struct processes *p, struct buf *to);
/* One row as a JSON object; false when there is no such Python process. */
bool processes_one(struct processes *p, pid_t pid, struct buf *to);
size_t processes_count(struct processes *p);

/* The addresses of this host and of the networks its Python processes live in. */
struct ip_list;
void processes_addresses(struct processes *p, struct ip_list *list);

/* What the process that listens at an address is to be listed as: "worker alice". */
struct process_role {
    char ip[64];
    uint16_t port;
    char name[96];
};
/* Replaces those given before. */
void processes_set_roles(struct processes *p, const struct process_role *roles, size_t count);

struct process_brief {
    pid_t pid;
    uint64_t start_time;
    char python[32];
    char command[512];
};

/* What a recording says about its target. `pid` may also be the number the process has in its own
 * pid namespace, if exactly one process has it there and, with `ip`, has that address.
 *   -SCRY_E_NO_PROCESS, -SCRY_E_NOT_PYTHON, -SCRY_E_PERMISSION (the policy), ... */
int processes_find(struct processes *p, pid_t pid, const char *ip, struct process_brief *ret,
                   struct error *err);

#endif
