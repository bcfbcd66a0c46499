#include "access/descriptor.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "access/procfs.h"

#define TABLE_MAX  (8u << 20) /* bytes of a socket table that are searched */
#define TCP_LISTEN 0x0a

/* One end of a connection, as the kernel prints it: words of the address in memory order, as
 * hexadecimal numbers, then the port. */
static void add_address(const char *hex, unsigned port, struct buf *to)
{
    uint32_t words[4] = {0};
    char text[INET6_ADDRSTRLEN] = "?";
    size_t len = strlen(hex);
    for (size_t i = 0; i < 4 && (i + 1) * 8 <= len; i++) {
        char word[9];
        memcpy(word, hex + i * 8, 8);
        word[8] = '\0';
        words[i] = (uint32_t)strtoul(word, NULL, 16);
    }
    bool mapped = len == 32 && !words[0] && !words[1] && words[2] == htonl(0xffff);
    if (len == 8 || mapped) {
        inet_ntop(AF_INET, &words[mapped ? 3 : 0], text, sizeof(text));
        buf_addf(to, "%s:%u", text, port);
    } else if (len == 32) {
        inet_ntop(AF_INET6, words, text, sizeof(text));
        buf_addf(to, "[%s]:%u", text, port);
    }
}

/* The next line, copied out: sscanf measures all that follows first, which would make the search through a long
 * table quadratic. Returns what comes after it, NULL at the end. */
#define LINE_MAX_ 256
static const char *take_line(const char *text, char line[LINE_MAX_])
{
    if (!*text)
        return NULL;
    size_t len = strcspn(text, "\n");
    size_t n = len < LINE_MAX_ - 1 ? len : LINE_MAX_ - 1;
    memcpy(line, text, n);
    line[n] = '\0';
    return text + len + (text[len] == '\n');
}

bool socket_find_inet(const char *text, const char *protocol, uint64_t inode, struct buf *to)
{
    char line[LINE_MAX_];
    while ((text = take_line(text, line))) {
        char local[33], remote[33];
        unsigned local_port, remote_port, state;
        uint64_t seen;
        if (sscanf(line,
                   " %*d: %32[0-9A-Fa-f]:%x %32[0-9A-Fa-f]:%x %x %*x:%*x %*x:%*x %*x %*u %*u "
                   "%" SCNu64,
                   local, &local_port, remote, &remote_port, &state, &seen) != 6 ||
            seen != inode)
            continue;
        buf_addf(to, "%s ", protocol);
        if (!strcmp(protocol, "tcp") && state == TCP_LISTEN)
            buf_add_str(to, "listen ");
        if (remote_port)
            add_address(remote, remote_port, to);
        else
            add_address(local, local_port, to);
        return true;
    }
    return false;
}

bool socket_find_unix(const char *text, uint64_t inode, struct buf *to)
{
    char line[LINE_MAX_];
    while ((text = take_line(text, line))) {
        uint64_t seen;
        int end = 0;
        if (sscanf(line, "%*x: %*x %*x %*x %*x %*x %" SCNu64 "%n", &seen, &end) != 1 ||
            seen != inode)
            continue;
        buf_add_str(to, "unix");
        if (line[end] && line[end + 1])
            buf_add_str(to, line + end); /* with the blank before it */
        return true;
    }
    return false;
}

static const struct {
    const char *file;
    const char *protocol; /* NULL: the unix table */
    const char *kernel_name;
} tables[] = {
    {"tcp", "tcp", "TCP"},    {"tcp6", "tcp", "TCPv6"}, {"udp", "udp", "UDP"},
    {"udp6", "udp", "UDPv6"}, {"unix", NULL, "UNIX"},
};

static bool search_table(const struct process *process, pid_t tid, size_t which, uint64_t inode,
                         struct buf *to)
{
    char name[64];
    SCOPED_BUF text;
    buf_init(&text);
    snprintf(name, sizeof(name), "task/%d/net/%s", tid, tables[which].file);
    if (process_read_proc(process, name, TABLE_MAX, &text))
        return false;
    const char *protocol = tables[which].protocol;
    return protocol ? socket_find_inet(text.data, protocol, inode, to)
                    : socket_find_unix(text.data, inode, to);
}

/* The kernel tells the protocol of a socket as an attribute of its inode; so only one table is
 * read. */
static void describe_socket(const struct process *process, pid_t tid, int fd, uint64_t inode,
                            struct buf *to)
{
    char path[96], kernel_name[32];
    snprintf(path, sizeof(path), "/proc/%d/task/%d/fd/%d", process->pid, tid, fd);
    ssize_t len = getxattr(path, "system.sockprotoname", kernel_name, sizeof(kernel_name) - 1);
    kernel_name[len > 0 ? len : 0] = '\0';
    for (size_t i = 0; i < ARRAY_LEN(tables); i++) {
        bool fits = !strcmp(kernel_name, tables[i].kernel_name) ||
                    (!tables[i].protocol && !strncmp(kernel_name, "UNIX", 4));
        if ((fits || len <= 0) && search_table(process, tid, i, inode, to))
            return;
    }
    /* One that is not bound, or of a protocol without a table here. */
    buf_add_str(to, "socket");
    for (size_t i = 0; kernel_name[i]; i++) {
        if (!i)
            buf_add_char(to, ' ');
        buf_add_char(to, (char)tolower((unsigned char)kernel_name[i]));
    }
}

void descriptor_describe(const struct process *process, pid_t tid, int fd, struct buf *to)
{
    char name[64];
    snprintf(name, sizeof(name), "task/%d/fd/%d", tid, fd);
    char *link = procfs_link(process->proc_fd, name);
    if (!link)
        return;
    if (!strncmp(link, "socket:[", 8)) {
        describe_socket(process, tid, fd, strtoull(link + 8, NULL, 10), to);
    } else if (!strncmp(link, "pipe:[", 6)) {
        buf_add_str(to, "pipe");
    } else if (!strncmp(link, "anon_inode:", 11)) {
        const char *kind = link + 11 + (link[11] == '[');
        buf_add(to, kind, strcspn(kind, "]"));
    } else if (!strncmp(link, "/dev/pts/", 9)) {
        buf_addf(to, "terminal %s", link);
    } else {
        buf_add_str(to, process_own_path(process, link));
    }
    free(link);
}
