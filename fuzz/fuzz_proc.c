/* The parsers of /proc against arbitrary text. Names of processes, paths of files and control groups are the
 * target's to choose, so any of it may stand there. The first byte says which parser gets the rest. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "access/container.h"
#include "access/descriptor.h"
#include "access/maps.h"
#include "access/procfs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "fuzz_proc: broken promise: %s\n", what);
    abort();
}

static void check_maps(const char *text)
{
    struct maps maps;
    if (maps_parse(text, &maps))
        return;
    for (size_t i = 0; i < maps.count; i++) {
        const struct mapping *m = &maps.items[i];
        require(m->start < m->end, "no mapping is empty");
        require(!i || m[-1].end <= m->start, "mappings are sorted and do not overlap");
        require(maps_find(&maps, m->start) == m, "a mapping is found by its first byte");
        require(maps_find(&maps, m->end - 1) == m, "a mapping is found by its last byte");
        require(m->path != NULL && strlen(m->path) <= strlen(text), "each has a path");
    }
    maps_done(&maps);
}

static void check_container(const char *text)
{
    char name[24] = "";
    if (!container_parse(text, name, sizeof(name)))
        return;
    require(name[0] != '\0' && strlen(name) < sizeof(name), "a container has a name that fits");
    for (const char *c = name; *c; c++)
        require(*c >= ' ' && *c < 0x7f, "its name is printable");
}

static void check_sockets(const char *text)
{
    SCOPED_BUF to;
    buf_init(&to);
    for (uint64_t inode = 0; inode < 4; inode++) {
        buf_reset(&to);
        require(socket_find_inet(text, "tcp", inode, &to) == (to.len > 0), "found or nothing");
        buf_reset(&to);
        require(socket_find_unix(text, inode, &to) == (to.len > 0), "found or nothing");
    }
}

static void check_stat(const char *text)
{
    struct proc_stat stat;
    if (!proc_stat_parse(text, &stat))
        require(strlen(stat.comm) < sizeof(stat.comm), "the name fits");
    require(proc_status_ns_depth(text) >= 0, "a number of namespaces");
    proc_status_ns_pid(text);
    const char *value = proc_status_find(text, "State");
    require(!value || (value > text && value <= text + strlen(text)), "a value lies in the text");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const parsers[])(const char *) = {check_maps, check_container, check_sockets,
                                                    check_stat};
    if (!size)
        return 0;
    char *text = strndup((const char *)data + 1, size - 1);
    require(text != NULL, "memory");
    parsers[data[0] % (sizeof(parsers) / sizeof(parsers[0]))](text);
    free(text);
    return 0;
}
