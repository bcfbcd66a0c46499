#include "http/pod.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "util/buf.h"

#define UID_LENGTH  36
#define CGROUP_MAX  (1u << 16)
#define MOUNTS_MAX  (1u << 20)
#define ENVIRON_MAX (1u << 17)

/* "0d4d8a4e-5b11-4f67-9a3b-1f1f5d3f2a10"; systemd's slices have '_' for '-'. */
static bool read_uid(const char *s, char to[static 40])
{
    for (size_t i = 0; i < UID_LENGTH; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        if (dash ? s[i] != '-' && s[i] != '_' : !isxdigit((unsigned char)s[i]))
            return false;
        to[i] = dash ? '-' : s[i];
    }
    to[UID_LENGTH] = '\0';
    return !isalnum((unsigned char)s[UID_LENGTH]);
}

bool pod_parse_cgroup(const char *cgroup, struct pod *ret)
{
    const char *at = strstr(cgroup, "kubepods");
    while (at && (at = strstr(at, "pod"))) {
        at += 3;
        if (read_uid(at, ret->uid))
            return true;
    }
    return false;
}

/* A name as Kubernetes has them, up to one of `ends`. */
static bool read_name(const char *s, const char *ends, char *to, size_t cap, const char **ret_end)
{
    size_t n = 0;
    while (s[n] && (isalnum((unsigned char)s[n]) || s[n] == '-' || s[n] == '.') && n + 1 < cap)
        n++;
    if (n == 0 || !s[n] || !strchr(ends, s[n]))
        return false;
    memcpy(to, s, n);
    to[n] = '\0';
    *ret_end = s + n;
    return true;
}

/* "…/pods/UID/containers/NAME/HASH": what is mounted on /dev/termination-log. */
static void find_container(const char *mounts, struct pod *pod)
{
    char part[64];
    const char *end;
    snprintf(part, sizeof(part), "/pods/%s/containers/", pod->uid);
    const char *at = strstr(mounts, part);
    if (at && !pod->container[0])
        read_name(at + strlen(part), "/", pod->container, sizeof(pod->container), &end);
}

void pod_parse_mounts(const char *mountinfo, struct pod *pod)
{
    if (!pod->uid[0]) {
        const char *at = strstr(mountinfo, "/kubelet/pods/");
        if (!at || !read_uid(at + 14, pod->uid))
            return;
    }
    find_container(mountinfo, pod);
}

/* HOSTNAME of a pod is its name unless the pod has host networking or another one was given. */
static void find_name(const struct process *process, struct pod *pod)
{
    SCOPED_BUF text;
    buf_init(&text);
    if (process_read_proc(process, "environ", ENVIRON_MAX, &text))
        return;
    static const struct {
        const char *name;
        size_t offset;
    } wanted[] = {
        {"POD_NAME=", offsetof(struct pod, name)},
        {"POD_NAMESPACE=", offsetof(struct pod, space)},
        {"HOSTNAME=", offsetof(struct pod, name)},
    };
    for (size_t w = 0; w < ARRAY_LEN(wanted); w++) {
        char *to = (char *)pod + wanted[w].offset;
        size_t len = strlen(wanted[w].name);
        for (size_t at = 0; at < text.len && !to[0]; at += strlen(text.data + at) + 1) {
            const char *line = text.data + at, *end;
            if (strncmp(line, wanted[w].name, len) == 0 && line[len]) {
                char value[POD_TEXT_MAX + 1];
                snprintf(value, sizeof(value), "%.*s/", POD_TEXT_MAX - 1, line + len);
                if (!read_name(value, "/", to, POD_TEXT_MAX, &end))
                    to[0] = '\0';
            }
        }
    }
}

/* A pod with a service account has its namespace in a file. */
static void find_space(const struct process *process, struct pod *pod)
{
    static const char path[] = "/run/secrets/kubernetes.io/serviceaccount/namespace";
    char text[POD_TEXT_MAX + 1] = "";
    const char *end;
    if (pod->space[0])
        return;
    int fd = process_open_path(process, path);
    ssize_t n = fd >= 0 ? read(fd, text, POD_TEXT_MAX - 1) : 0;
    if (fd >= 0)
        close(fd);
    if (n <= 0)
        return;
    text[n] = '\n';
    if (!read_name(text, "\n", pod->space, sizeof(pod->space), &end))
        pod->space[0] = '\0';
}

bool pod_of(const struct process *process, struct pod *ret)
{
    SCOPED_BUF text;
    buf_init(&text);
    *ret = (struct pod){0};
    if (!process_read_proc(process, "cgroup", CGROUP_MAX, &text))
        pod_parse_cgroup(text.data, ret);
    buf_reset(&text);
    if (!process_read_proc(process, "mountinfo", MOUNTS_MAX, &text))
        pod_parse_mounts(text.data, ret);
    if (!ret->uid[0])
        return false;
    find_name(process, ret);
    find_space(process, ret);
    return true;
}
