/* The Kubernetes pod and container a process lives in, from its control group, its mounts and its
 * host name: no question is sent to the Kubernetes API. */
#ifndef SCRY_HTTP_POD_H
#define SCRY_HTTP_POD_H

#include "access/process.h"

#define POD_TEXT_MAX 254

struct pod {
    char uid[40];                                                          /* "" = no pod */
    char name[POD_TEXT_MAX], space[POD_TEXT_MAX], container[POD_TEXT_MAX]; /* "" = unknown */
};

/* From the text of /proc/PID/cgroup: "…/kubepods-burstable-pod0d4d8a4e_5b11_….slice/…". */
bool pod_parse_cgroup(const char *cgroup, struct pod *ret);
/* From the text of /proc/PID/mountinfo: kubelet's folders name the container, and the folder of its
 * logs name, namespace and uid. Adds to what is known. */
void pod_parse_mounts(const char *mountinfo, struct pod *pod);
/* False when it lives in no pod. */
bool pod_of(const struct process *process, struct pod *ret);

#endif
