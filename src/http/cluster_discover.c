/* Names in, peers out: DNS again and again, Ray's and Dask's own lists. */
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "http/cluster_private.h"

#define DNS_MS  5000
#define LIST_MS 5000

void cluster_forget(struct cluster *c, unsigned source)
{
    for (size_t i = 0; i < c->count; i++) {
        struct peer *p = c->peers[i];
        p->sources &= ~source;
        p->gone = p->sources == 0;
    }
}

bool cluster_covers(const struct cluster *c, const char *ip, unsigned source)
{
    for (size_t i = 0; i < c->count; i++) {
        const struct peer *p = c->peers[i];
        if (!p->gone && p->ips && ip_list_has(p->ips, ip) && !(p->sources & source))
            return true;
    }
    return false;
}

/* A name that cannot be resolved just now keeps what it had. */
static void ask_dns(struct cluster *c, const char *name)
{
    char address[300], url[320], host[256], text[128];
    struct addrinfo *found = NULL, hints = {.ai_socktype = SOCK_STREAM};
    if (!cluster_parse_address(name, c->server->port, false, address, url))
        return;
    const char *colon = strrchr(address, ':');
    snprintf(host, sizeof(host), "%.*s", (int)(colon - address), address);
    if (getaddrinfo(host, NULL, &hints, &found) != 0)
        return;
    pthread_mutex_lock(&c->lock);
    cluster_forget(c, SOURCE_DNS);
    for (const struct addrinfo *a = found; a; a = a->ai_next) {
        bool six = a->ai_family == AF_INET6;
        if (getnameinfo(a->ai_addr, a->ai_addrlen, host, sizeof(host), NULL, 0, NI_NUMERICHOST) ||
            strchr(host, '%'))
            continue;
        snprintf(text, sizeof(text), "%s%.100s%s%s", six ? "[" : "", host, six ? "]" : "", colon);
        cluster_add(c, text, SOURCE_DNS);
    }
    pthread_mutex_unlock(&c->lock);
    freeaddrinfo(found);
}

void cluster_discover(struct cluster *c)
{
    const struct serve_options *o = &c->server->options;
    int64_t now = cluster_now();
    if (o->peers_dns && now >= c->dns_next) {
        ask_dns(c, o->peers_dns);
        c->dns_next = now + DNS_MS;
    }
    if (now >= c->list_next) {
        if (o->ray)
            ray_discover(c);
        if (o->dask)
            dask_discover(c);
        c->list_next = now + LIST_MS;
    }
}
