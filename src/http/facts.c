#include "http/facts.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "access/procfs.h"
#include "util/json.h"
#include "version.h"

#define FIB_MAX (4u << 20)

bool ip_list_has(const struct ip_list *list, const char *ip)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->items[i], ip) == 0)
            return true;
    return false;
}

/*     |-- 10.0.0.7
 *        /32 host LOCAL */
void facts_parse_addresses(const char *text, struct ip_list *list)
{
    char ip[48] = "";
    struct in_addr room;
    for (const char *line = text; *line;) {
        size_t len = strcspn(line, "\n");
        const char *leaf = memmem(line, len, "|-- ", 4);
        if (leaf)
            snprintf(ip, sizeof(ip), "%.*s", (int)(line + len - leaf - 4), leaf + 4);
        else if (ip[0] && memmem(line, len, "/32 host LOCAL", 14) &&
                 inet_pton(AF_INET, ip, &room) == 1 && strncmp(ip, "127.", 4) != 0 &&
                 !ip_list_has(list, ip) && list->count < FACTS_IPS_MAX)
            memcpy(list->items[list->count++], ip, sizeof(ip));
        line += len + (line[len] == '\n');
    }
}

void facts_addresses(pid_t pid, struct ip_list *list)
{
    char path[64];
    SCOPED_BUF text;
    buf_init(&text);
    snprintf(path, sizeof(path), "/proc/%d/net/fib_trie", pid);
    if (procfs_read(AT_FDCWD, path, FIB_MAX, &text) == 0)
        facts_parse_addresses(text.data, list);
}

static uint64_t meminfo(const char *text, const char *name)
{
    const char *line = strstr(text, name);
    unsigned long long kib = 0;
    if (!line || sscanf(line + strlen(name), " %llu", &kib) != 1)
        return 0;
    return kib * 1024;
}

static void put(struct json *j, const char *key, const char *text)
{
    json_key(j, key);
    json_string(j, text);
}

static void put_number(struct json *j, const char *key, double value)
{
    json_key(j, key);
    json_double(j, value);
}

static ssize_t into_buf(void *cookie, const char *data, size_t len)
{
    buf_add(cookie, data, len);
    return (ssize_t)len;
}

static void put_figures(struct server *s, struct json *j)
{
    double load = 0;
    SCOPED_BUF memory;
    buf_init(&memory);
    procfs_read(AT_FDCWD, "/proc/meminfo", 1u << 16, &memory);
    if (getloadavg(&load, 1) != 1)
        load = 0;
    put_number(j, "cpus", (double)sysconf(_SC_NPROCESSORS_ONLN));
    put_number(j, "load", load);
    put_number(j, "memory_total", (double)meminfo(memory.data, "MemTotal:"));
    put_number(j, "memory_available", (double)meminfo(memory.data, "MemAvailable:"));
    put_number(j, "processes", (double)processes_count(s->processes));
}

void facts_json(struct server *s, struct buf *to)
{
    char time[REPLY_TIME_MAX];
    struct ip_list *ips = calloc(1, sizeof(*ips));
    FILE *out = fopencookie(to, "w", (cookie_io_functions_t){.write = into_buf});
    if (!out || !ips) {
        free(ips);
        return;
    }
    processes_addresses(s->processes, ips);
    struct json writer, *j = &writer;
    json_init(j, out, 0);
    reply_time(reply_now(), time);
    json_begin_object(j);
    put(j, "id", s->node);
    put(j, "name", s->name);
    put(j, "address", s->address);
    json_key(j, "self");
    json_bool(j, true);
    put(j, "state", "up");
    put(j, "error", NULL);
    put(j, "version", SCRY_VERSION);
    put_figures(s, j);
    put(j, "last_seen", time);
    json_key(j, "rtt_ms");
    json_double(j, 0);
    json_key(j, "sources");
    json_begin_array(j);
    json_string(j, "self");
    json_end_array(j);
    put(j, "ray_node_id", NULL);
    json_key(j, "ips");
    json_begin_array(j);
    for (size_t i = 0; i < ips->count; i++)
        json_string(j, ips->items[i]);
    json_end_array(j);
    json_end_object(j);
    fclose(out);
    free(ips);
}
