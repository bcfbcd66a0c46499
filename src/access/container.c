#include "access/container.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define ID_LENGTH 64 /* hexadecimal digits of a container id */
#define ID_SHOWN  12
#define NAME_MAX_ 48

/* What the runtimes put before the id or the name, in one part of the control group's path. */
static const struct {
    const char *prefix, *runtime;
} prefixes[] = {
    {"docker-", "docker"},      {"libpod-conmon-", NULL},
    {"libpod-", "podman"},      {"cri-containerd-", "containerd"},
    {"nerdctl-", "containerd"}, {"crio-conmon-", NULL},
    {"crio-", "cri-o"},
};

/* Parts whose next part is an id or a name. */
static const struct {
    const char *folder, *runtime;
} folders[] = {
    {"docker", "docker"},
    {"libpod_parent", "podman"},
    {"garden", "garden"},
};

static bool is_id(const char *s, size_t len)
{
    for (size_t i = 0; i < ID_LENGTH; i++)
        if (i >= len || !isxdigit((unsigned char)s[i]))
            return false;
    return len == ID_LENGTH || !isalnum((unsigned char)s[ID_LENGTH]);
}

static void write_name(const char *runtime, const char *name, size_t len, char *to, size_t cap)
{
    char shown[NAME_MAX_ + 1];
    size_t n = len < NAME_MAX_ ? len : NAME_MAX_;
    for (size_t i = 0; i < n; i++)
        shown[i] = isalnum((unsigned char)name[i]) || strchr("._-@", name[i]) ? name[i] : '?';
    shown[n] = '\0';
    snprintf(to, cap, "%s %s", runtime, shown);
}

static bool starts(const char *s, size_t len, const char *prefix)
{
    size_t n = strlen(prefix);
    return len >= n && !memcmp(s, prefix, n);
}

/* "lxc.payload.web", "machine-web.scope". */
static bool parse_named(const char *part, size_t len, char *to, size_t cap)
{
    static const char lxc[] = "lxc.payload.", machine[] = "machine-", scope[] = ".scope";
    if (starts(part, len, lxc) && len > sizeof(lxc) - 1) {
        write_name("lxc", part + sizeof(lxc) - 1, len - (sizeof(lxc) - 1), to, cap);
        return true;
    }
    size_t frame = sizeof(machine) - 1 + sizeof(scope) - 1;
    if (starts(part, len, machine) && len > frame && !memcmp(part + len - 6, scope, 6)) {
        write_name("machine", part + sizeof(machine) - 1, len - frame, to, cap);
        return true;
    }
    return false;
}

/* One part of the path, with the part before it. */
static bool parse_part(const char *part, size_t len, const char *before, size_t before_len,
                       bool kubernetes, char *to, size_t cap)
{
    for (size_t i = 0; i < ARRAY_LEN(prefixes); i++) {
        size_t n = strlen(prefixes[i].prefix);
        if (!starts(part, len, prefixes[i].prefix) || !is_id(part + n, len - n))
            continue;
        if (!prefixes[i].runtime)
            return false;
        write_name(prefixes[i].runtime, part + n, ID_SHOWN, to, cap);
        return true;
    }
    if (!is_id(part, len)) {
        if (before_len == 3 && !memcmp(before, "lxc", 3) && len) {
            write_name("lxc", part, len, to, cap);
            return true;
        }
        return parse_named(part, len, to, cap);
    }
    const char *runtime = kubernetes ? "kubernetes" : "container";
    for (size_t i = 0; i < ARRAY_LEN(folders); i++)
        if (before_len == strlen(folders[i].folder) &&
            !memcmp(before, folders[i].folder, before_len))
            runtime = folders[i].runtime;
    write_name(runtime, part, ID_SHOWN, to, cap);
    return true;
}

/* The innermost part that names a container wins: containers may lie in containers. */
static bool parse_path(const char *path, size_t len, char *to, size_t cap)
{
    bool found = false, kubernetes = false;
    const char *before = path;
    size_t before_len = 0;
    for (size_t at = 0; at < len;) {
        size_t start = at + (path[at] == '/');
        size_t end = start;
        while (end < len && path[end] != '/')
            end++;
        kubernetes |= starts(path + start, end - start, "kubepods");
        found |= parse_part(path + start, end - start, before, before_len, kubernetes, to, cap);
        before = path + start;
        before_len = end - start;
        at = end > at ? end : at + 1;
    }
    return found;
}

bool container_parse(const char *cgroup, char *to, size_t cap)
{
    /* Lines are "number:controllers:path". */
    for (const char *line = cgroup; *line;) {
        size_t len = strcspn(line, "\n");
        const char *path = memchr(line, ':', len);
        path = path ? memchr(path + 1, ':', len - (size_t)(path + 1 - line)) : NULL;
        if (path && parse_path(path + 1, len - (size_t)(path + 1 - line), to, cap))
            return true;
        line += len + (line[len] == '\n');
    }
    return false;
}

void process_container(const struct process *process, char *to, size_t cap)
{
    struct stat theirs, ours;
    SCOPED_BUF cgroup;
    buf_init(&cgroup);
    to[0] = '\0';
    if (!process_read_proc(process, "cgroup", 1u << 16, &cgroup) &&
        container_parse(cgroup.data, to, cap))
        return;
    if (fstatat(process->proc_fd, "root", &theirs, 0) || stat("/", &ours) ||
        (theirs.st_dev == ours.st_dev && theirs.st_ino == ours.st_ino))
        return;
    bool seen_from_here = process->root && strcmp(process->root, "/") != 0;
    snprintf(to, cap, "%s", seen_from_here ? "chroot" : "other root");
}
