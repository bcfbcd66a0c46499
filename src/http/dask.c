/* What a Dask scheduler says about its cluster, through the HTTP server of its dashboard: where scheduler, workers
 * and nannies listen. The hosts of the workers are nodes to be asked; the processes of this host that listen there are
 * listed by what they are. */
#include <stdlib.h>
#include <string.h>

#include "http/cluster_private.h"
#include "http/json_in.h"

#define ANSWER_MAX   (32u << 20)
#define LIST_SECONDS 2.5
#define ROLES_MAX    20000

static bool over(void *context)
{
    struct cluster *c = context;
    return atomic_load(&c->stopping);
}

static json_t *ask(struct cluster *c)
{
    struct call call;
    const char *base = c->server->options.dask;
    size_t len = strlen(base);
    while (len && base[len - 1] == '/')
        len--;
    call_init(&call);
    snprintf(call.url, sizeof(call.url), "%s%.*s/json/identity.json",
             strstr(base, "://") ? "" : "http://", (int)len, base);
    call.foreign = true;
    call.timeout = LIST_SECONDS;
    call.max = ANSWER_MAX;
    client_all(c->client, &call, 1, over, c);
    json_t *root =
        call.status == 200 ? json_loadb(call.answer.data, call.answer.len, 0, NULL) : NULL;
    call_done(&call);
    return root;
}

/* "tcp://10.0.0.7:38753", "tls://[::1]:8786"; what lives inside another process has no such address. */
static bool read_address(const char *text, struct process_role *role)
{
    const char *host = text ? strstr(text, "://") : NULL;
    const char *colon = host ? strrchr(host + 3, ':') : NULL;
    if (!colon)
        return false;
    host += 3;
    size_t len = (size_t)(colon - host);
    if (*host == '[' && len > 2) {
        host++;
        len -= 2;
    }
    char *end;
    unsigned long port = strtoul(colon + 1, &end, 10);
    if (len == 0 || len >= sizeof(role->ip) || *end || port == 0 || port > 65535)
        return false;
    memcpy(role->ip, host, len);
    role->ip[len] = '\0';
    role->port = (uint16_t)port;
    return true;
}

struct roles {
    struct process_role *items;
    size_t count;
};

static void add_role(struct roles *to, const char *address, const char *what, const json_t *name)
{
    struct process_role *role = &to->items[to->count];
    if (to->count >= ROLES_MAX || !read_address(address, role))
        return;
    if (json_is_integer(name))
        snprintf(role->name, sizeof(role->name), "%s %lld", what,
                 (long long)json_integer_value(name));
    else if (json_is_string(name))
        snprintf(role->name, sizeof(role->name), "%s %.80s", what, json_string_value(name));
    else
        snprintf(role->name, sizeof(role->name), "%s", what);
    to->count++;
}

static bool read_roles(const json_t *root, struct roles *to)
{
    json_t *workers = json_object_get(root, "workers"), *worker;
    const char *address;
    to->items = calloc(ROLES_MAX + 1, sizeof(*to->items));
    if (!to->items || !json_is_object(workers))
        return false;
    add_role(to, json_string_value(json_object_get(root, "address")), "scheduler", NULL);
    json_object_foreach(workers, address, worker)
    {
        const json_t *name = json_object_get(worker, "name");
        add_role(to, address, "worker", name);
        add_role(to, json_string_value(json_object_get(worker, "nanny")), "nanny", name);
    }
    return true;
}

static void take_nodes(struct cluster *c, const struct roles *roles)
{
    struct ip_list *own = calloc(1, sizeof(*own));
    if (!own)
        return;
    processes_addresses(c->server->processes, own);
    pthread_mutex_lock(&c->lock);
    cluster_forget(c, SOURCE_DASK);
    for (size_t i = 0; i < roles->count; i++) {
        const char *ip = roles->items[i].ip;
        if (strncmp(ip, "127.", 4) != 0 && !strchr(ip, ':') && !ip_list_has(own, ip) &&
            !cluster_covers(c, ip, SOURCE_DASK))
            cluster_add(c, ip, SOURCE_DASK);
    }
    pthread_mutex_unlock(&c->lock);
    free(own);
}

/* A scheduler that does not answer keeps what it had. */
void dask_discover(struct cluster *c)
{
    struct roles roles = {0};
    json_t *root = ask(c);
    if (read_roles(root, &roles)) {
        take_nodes(c, &roles);
        processes_set_roles(c->server->processes, roles.items, roles.count);
    }
    free(roles.items);
    json_decref(root);
}
