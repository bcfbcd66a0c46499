#include "http/listeners.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "access/procfs.h"
#include "util/buf.h"

#define TABLE_MAX  (8u << 20)
#define FDS_MAX    65536
#define TCP_LISTEN 0x0A

/* "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 27031 1 ..." */
uint64_t listeners_parse(const char *table, uint16_t port)
{
    for (const char *line = table; *line;) {
        unsigned local = 0, state = 0;
        uint64_t number = 0;
        if (sscanf(line, " %*u: %*[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x %*s %*s %*s %*u %*u %" SCNu64,
                   &local, &state, &number) == 3 &&
            state == TCP_LISTEN && local == port)
            return number;
        line += strcspn(line, "\n");
        line += *line == '\n';
    }
    return 0;
}

uint64_t listeners_find(pid_t pid, uint16_t port)
{
    static const char *const tables[] = {"tcp", "tcp6"};
    uint64_t number = 0;
    for (size_t i = 0; i < 2 && !number; i++) {
        char path[64];
        SCOPED_BUF text;
        buf_init(&text);
        snprintf(path, sizeof(path), "/proc/%d/net/%s", pid, tables[i]);
        if (procfs_read(AT_FDCWD, path, TABLE_MAX, &text) == 0)
            number = listeners_parse(text.data, port);
    }
    return number;
}

bool listeners_holds(pid_t pid, uint64_t number)
{
    char path[64], wanted[64], target[64];
    snprintf(path, sizeof(path), "/proc/%d/fd", pid);
    snprintf(wanted, sizeof(wanted), "socket:[%" PRIu64 "]", number);
    DIR *folder = opendir(path);
    bool holds = false;
    const struct dirent *entry;
    for (unsigned i = 0; folder && !holds && i < FDS_MAX && (entry = readdir(folder)); i++) {
        ssize_t len = readlinkat(dirfd(folder), entry->d_name, target, sizeof(target) - 1);
        if (len <= 0)
            continue;
        target[len] = '\0';
        holds = strcmp(target, wanted) == 0;
    }
    if (folder)
        closedir(folder);
    return holds;
}
