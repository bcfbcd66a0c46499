/* Which processes there are, and which are whose children. */
#include "access/process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "access/procfs.h"

#define CHILDREN_MAX (4u << 20) /* bytes of one children file */

void pid_list_done(struct pid_list *list)
{
    free(list->items);
    *list = (struct pid_list){0};
}

static bool list_add(struct pid_list *list, pid_t pid)
{
    if (list->count == list->cap) {
        size_t cap = list->cap ? 2 * list->cap : 64;
        pid_t *grown = realloc(list->items, cap * sizeof(*grown));
        if (!grown)
            return false;
        list->items = grown;
        list->cap = cap;
    }
    list->items[list->count++] = pid;
    return true;
}

static int by_value(const void *a, const void *b)
{
    pid_t x = *(const pid_t *)a, y = *(const pid_t *)b;
    return (x > y) - (x < y);
}

static void list_sort(struct pid_list *list)
{
    size_t kept = 0;
    if (list->count)
        qsort(list->items, list->count, sizeof(*list->items), by_value);
    for (size_t i = 0; i < list->count; i++)
        if (!kept || list->items[i] != list->items[kept - 1])
            list->items[kept++] = list->items[i];
    list->count = kept;
}

/* The numeric names of a folder. */
static int list_folder(const char *path, struct pid_list *list)
{
    DIR *dir = opendir(path);
    if (!dir)
        return errno == EACCES || errno == EPERM ? -SCRY_E_PERMISSION : -SCRY_E_GONE;
    int rc = 0;
    for (struct dirent *entry; !rc && (entry = readdir(dir));) {
        char *end;
        long pid = strtol(entry->d_name, &end, 10);
        if (pid > 0 && !*end && !list_add(list, (pid_t)pid))
            rc = -SCRY_E_NO_MEMORY;
    }
    closedir(dir);
    return rc;
}

int process_list(struct pid_list *ret_list)
{
    struct pid_list list = {0};
    int rc = list_folder("/proc", &list);
    if (rc) {
        pid_list_done(&list);
        return rc;
    }
    list_sort(&list);
    *ret_list = list;
    return 0;
}

static int add_numbers(const char *text, struct pid_list *list)
{
    for (;;) {
        char *end;
        long pid = strtol(text, &end, 10);
        if (end == text)
            return 0;
        if (pid > 0 && !list_add(list, (pid_t)pid))
            return -SCRY_E_NO_MEMORY;
        text = end;
    }
}

/* One pass over the threads of a process. -ENOENT: this kernel has no such file. */
static int children_pass(pid_t pid, struct pid_list *list)
{
    char path[64];
    struct pid_list tids = {0};
    snprintf(path, sizeof(path), "/proc/%d/task", pid);
    int rc = list_folder(path, &tids);
    size_t readable = 0;
    SCOPED_BUF text;
    buf_init(&text);
    for (size_t i = 0; !rc && i < tids.count; i++) {
        snprintf(path, sizeof(path), "/proc/%d/task/%d/children", pid, tids.items[i]);
        buf_reset(&text);
        if (procfs_read(AT_FDCWD, path, CHILDREN_MAX, &text))
            continue;
        readable++;
        rc = add_numbers(text.data, list);
    }
    pid_list_done(&tids);
    list_sort(list);
    return rc ? rc : readable ? 0 : -SCRY_E_IO;
}

/* The folder of threads has a link for each of them, and two of its own. */
static bool has_one_thread(pid_t pid)
{
    char path[64];
    struct stat st;
    snprintf(path, sizeof(path), "/proc/%d/task", pid);
    return stat(path, &st) == 0 && st.st_nlink == 3;
}

int process_children_now(pid_t pid, struct pid_list *ret_list)
{
    struct pid_list list = {0};
    char path[64], text[256];
    int rc = -SCRY_E_IO;
    if (has_one_thread(pid)) {
        snprintf(path, sizeof(path), "/proc/%d/task/%d/children", pid, pid);
        ssize_t len = procfs_read_small(AT_FDCWD, path, text, sizeof(text));
        /* What does not fit may have been cut in the middle of a number. */
        if (len >= 0 && len < (ssize_t)sizeof(text) - 1)
            rc = add_numbers(text, &list);
    }
    if (rc == -SCRY_E_IO)
        rc = children_pass(pid, &list);
    if (rc == -SCRY_E_IO)
        return process_children(pid, ret_list);
    if (rc)
        pid_list_done(&list);
    else
        *ret_list = list;
    return rc;
}

/* The last number of loadavg. What some containers put in its place is up to seconds old. */
uint64_t process_newest(void)
{
    char text[128];
    struct statfs fs;
    int fd = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    bool genuine = fstatfs(fd, &fs) == 0 && fs.f_type == PROC_SUPER_MAGIC;
    ssize_t len = genuine ? procfs_reread(fd, text, sizeof(text)) : -1;
    close(fd);
    const char *last = len > 0 ? strrchr(text, ' ') : NULL;
    return last ? strtoull(last, NULL, 10) : 0;
}

static int children_by_parent(pid_t pid, struct pid_list *list)
{
    struct pid_list all = {0};
    int rc = process_list(&all);
    for (size_t i = 0; !rc && i < all.count; i++) {
        char path[64], text[PROC_STAT_MAX];
        struct proc_stat stat;
        snprintf(path, sizeof(path), "/proc/%d/stat", all.items[i]);
        if (procfs_read_small(AT_FDCWD, path, text, sizeof(text)) > 0 &&
            !proc_stat_parse(text, &stat) && stat.parent == pid && !list_add(list, stat.pid))
            rc = -SCRY_E_NO_MEMORY;
    }
    pid_list_done(&all);
    return rc;
}

static bool list_equal(const struct pid_list *a, const struct pid_list *b)
{
    return a->count == b->count &&
           (!a->count || !memcmp(a->items, b->items, a->count * sizeof(*a->items)));
}

/* While children come and go the kernel may leave some out of a pass: read until two passes agree.
 */
int process_children(pid_t pid, struct pid_list *ret_list)
{
    struct pid_list last = {0}, next = {0};
    int rc = children_pass(pid, &last);
    if (rc == -SCRY_E_IO) {
        last.count = 0;
        rc = children_by_parent(pid, &last);
    } else {
        for (int tries = 0; !rc && tries < 4; tries++) {
            next.count = 0;
            rc = children_pass(pid, &next);
            struct pid_list swap = last;
            last = next;
            next = swap;
            if (list_equal(&last, &next))
                break;
        }
    }
    pid_list_done(&next);
    if (rc) {
        pid_list_done(&last);
        return rc;
    }
    *ret_list = last;
    return 0;
}
