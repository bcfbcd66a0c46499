/* The other nodes. A request waits only for nodes that answered last time, and for those no longer
 * than its deadline; all others are asked again in the background, less and less often, until they
 * answer. So a node that is gone delays one request at most. */
#include <arpa/inet.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "http/cluster_private.h"
#include "util/json.h"
#include "version.h"

#define FRESH_MS     1000
#define SLOW_MS      30000 /* a node that answered so lately is slow, not down */
#define RETRY_MIN_MS 1000
#define RETRY_MAX_MS 15000
#define ANSWER_MAX   (64u << 20)
#define FIRST        1.5 /* seconds; for a node that was just found */
#define PROBE        3.0 /* seconds; in the background */
#define STEP_MS      500

const char *const process_orders[] = {"node",    "pid",   "cpu",     "rss",
                                      "threads", "title", "started", NULL};

int64_t cluster_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- peers ---- */

bool cluster_parse_address(const char *text, uint16_t port, bool tls, char address[static 300],
                           char url[static 320])
{
    char host[256];
    unsigned number = port;
    if (strncasecmp(text, "http://", 7) == 0) {
        tls = false;
        text += 7;
    } else if (strncasecmp(text, "https://", 8) == 0) {
        tls = true;
        text += 8;
    }
    size_t len = strcspn(text, "/");
    const char *colon = memrchr(text, ':', len), *bracket = memrchr(text, ']', len);
    bool bare_six = colon && *text != '[' && memchr(text, ':', (size_t)(colon - text));
    bool has_port = colon && !bare_six && (!bracket || colon > bracket);
    size_t host_len = has_port ? (size_t)(colon - text) : len;
    if (has_port && (sscanf(colon + 1, "%5u", &number) != 1 || number == 0 || number > 65535))
        return false;
    if (host_len == 0 || host_len >= sizeof(host) - 2)
        return false;
    snprintf(host, sizeof(host), "%s%.*s%s", bare_six ? "[" : "", (int)host_len, text,
             bare_six ? "]" : "");
    for (const char *c = host; *c; c++)
        if (*c <= ' ' || strchr("/?#@\\\"<>", *c))
            return false;
    snprintf(address, 300, "%s:%u", host, number);
    snprintf(url, 320, "%s://%s", tls ? "https" : "http", address);
    return true;
}

struct peer *cluster_add(struct cluster *c, const char *address, unsigned source)
{
    struct peer made = {0};
    if (!cluster_parse_address(address, c->server->port, c->server->tls, made.address, made.url))
        return NULL;
    for (size_t i = 0; i < c->count; i++)
        if (strcmp(c->peers[i]->address, made.address) == 0) {
            c->peers[i]->sources |= source;
            c->peers[i]->gone = false;
            return c->peers[i];
        }
    if (c->count == SERVE_PEERS_MAX)
        return NULL;
    if (c->count == c->cap) {
        size_t cap = c->cap ? 2 * c->cap : 16;
        struct peer **grown = reallocarray(c->peers, cap, sizeof(*grown));
        if (!grown)
            return NULL;
        c->peers = grown;
        c->cap = cap;
    }
    struct peer *p = malloc(sizeof(*p));
    if (!p)
        return NULL;
    made.sources = source;
    snprintf(made.name, sizeof(made.name), "%.120s", made.address);
    snprintf(made.id, sizeof(made.id), "%.79s", made.address);
    snprintf(made.error, sizeof(made.error), "it has not been asked yet");
    *p = made;
    c->peers[c->count++] = p;
    return p;
}

bool peer_healthy(const struct peer *p)
{
    return !p->gone && !p->self && (!p->asked || p->failures == 0);
}

/* Shown, and asked in the background. */
static bool peer_counts(const struct peer *p)
{
    return !p->gone && !p->self;
}

void shared_rows_release(struct cluster *c, struct shared_rows *rows)
{
    if (!rows)
        return;
    pthread_mutex_lock(&c->lock);
    bool last = --rows->refs == 0;
    pthread_mutex_unlock(&c->lock);
    if (last) {
        rows_done(&rows->rows);
        free(rows);
    }
}

/* ---- asking ---- */

static void text_of(const json_t *o, const char *name, char *to, size_t cap)
{
    const char *text = json_string_value(json_object_get(o, name));
    if (text && *text)
        snprintf(to, cap, "%.*s", (int)cap - 1, text);
}

static void take_node(struct cluster *c, struct peer *p, const struct rows *rows)
{
    json_t *node = json_loadb(rows->node.at, rows->node.len, 0, NULL);
    size_t i;
    json_t *ip;
    text_of(node, "id", p->id, sizeof(p->id));
    text_of(node, "name", p->name, sizeof(p->name));
    if (!p->ips)
        p->ips = calloc(1, sizeof(*p->ips));
    if (p->ips) {
        p->ips->count = 0;
        json_array_foreach(json_object_get(node, "ips"), i, ip)
        {
            const char *text = json_string_value(ip);
            if (text && strlen(text) < sizeof(p->ips->items[0]) && p->ips->count < FACTS_IPS_MAX)
                strcpy(p->ips->items[p->ips->count++], text);
        }
    }
    p->self = strcmp(p->id, c->server->node) == 0;
    json_decref(node);
}

static void note_failure(struct peer *p, const char *why)
{
    int64_t pause = RETRY_MIN_MS << (p->failures < 5 ? p->failures : 5);
    p->failures++;
    p->next_try = cluster_now() + (pause < RETRY_MAX_MS ? pause : RETRY_MAX_MS);
    snprintf(p->error, sizeof(p->error), "%.255s", why);
}

/* With the lock held. What it sent is read without, and comes as `rows`; NULL = nonsense. */
static void note_answer(struct cluster *c, struct peer *p, const struct call *call,
                        struct shared_rows *rows, struct shared_rows **ret_old)
{
    p->asked = true;
    p->rtt = call->seconds;
    if (call->status != 200 || !rows) {
        char why[300];
        if (call->status == 0)
            snprintf(why, sizeof(why), "%s", call->error);
        else if (call->status == 401)
            snprintf(why, sizeof(why), "it refuses the token of this node");
        else if (call->status != 200)
            snprintf(why, sizeof(why), "it answers with status %ld", call->status);
        else
            snprintf(why, sizeof(why), "its answer makes no sense");
        note_failure(p, why);
        return;
    }
    p->failures = 0;
    p->error[0] = '\0';
    p->last_ok = reply_now();
    p->fetched = cluster_now();
    *ret_old = p->rows;
    p->rows = rows;
    if (rows->rows.node.len)
        take_node(c, p, &rows->rows);
}

static struct shared_rows *read_rows(struct call *call)
{
    if (call->status != 200)
        return NULL;
    struct shared_rows *rows = calloc(1, sizeof(*rows));
    size_t len = call->answer.len;
    char *text = buf_detach(&call->answer);
    if (rows && rows_read(&rows->rows, text, len)) {
        rows->refs = 1;
        return rows;
    }
    if (!rows)
        free(text);
    free(rows);
    return NULL;
}

static bool is_stopping(void *context)
{
    struct cluster *c = context;
    return atomic_load(&c->stopping);
}

void cluster_ask(struct cluster *c, struct peer **peers, size_t count, double timeout)
{
    struct call *calls = calloc(count + 1, sizeof(*calls));
    if (!calls)
        return;
    for (size_t i = 0; i < count; i++) {
        call_init(&calls[i]);
        snprintf(calls[i].url, sizeof(calls[i].url), "%s/api/v1/processes", peers[i]->url);
        calls[i].timeout = timeout;
        calls[i].max = ANSWER_MAX;
    }
    client_all(c->client, calls, count, is_stopping, c);
    for (size_t i = 0; i < count; i++) {
        struct shared_rows *rows = read_rows(&calls[i]), *old = NULL;
        pthread_mutex_lock(&c->lock);
        note_answer(c, peers[i], &calls[i], rows, &old);
        pthread_mutex_unlock(&c->lock);
        shared_rows_release(c, old);
        call_done(&calls[i]);
    }
    free(calls);
}

/* One for all who ask at the same time. */
static void refresh(struct cluster *c, double timeout)
{
    pthread_mutex_lock(&c->lock);
    while (c->refreshing)
        pthread_cond_wait(&c->refreshed, &c->lock);
    bool fresh = cluster_now() - c->refreshed_at < FRESH_MS || c->count == 0;
    struct peer **due = fresh ? NULL : calloc(c->count, sizeof(struct peer *));
    size_t count = 0;
    for (size_t i = 0; due && i < c->count; i++)
        if (peer_healthy(c->peers[i]))
            due[count++] = c->peers[i];
    c->refreshing = count > 0;
    pthread_mutex_unlock(&c->lock);
    if (count) {
        cluster_ask(c, due, count, timeout);
        pthread_mutex_lock(&c->lock);
        c->refreshing = false;
        c->refreshed_at = cluster_now();
        pthread_cond_broadcast(&c->refreshed);
        pthread_mutex_unlock(&c->lock);
    }
    free(due);
}

/* ---- in the background ---- */

static void ask_failing(struct cluster *c)
{
    int64_t at = cluster_now();
    size_t count = 0;
    pthread_mutex_lock(&c->lock);
    struct peer **due = calloc(c->count + 1, sizeof(struct peer *));
    for (size_t i = 0; due && i < c->count; i++) {
        const struct peer *p = c->peers[i];
        if (peer_counts(p) && p->failures && at >= p->next_try)
            due[count++] = c->peers[i];
    }
    pthread_mutex_unlock(&c->lock);
    if (count)
        cluster_ask(c, due, count, PROBE);
    free(due);
}

static bool somebody_new(struct cluster *c)
{
    bool new = false;
    pthread_mutex_lock(&c->lock);
    for (size_t i = 0; i < c->count; i++)
        new |= peer_counts(c->peers[i]) && !c->peers[i]->asked;
    pthread_mutex_unlock(&c->lock);
    return new;
}

static void *watch(void *context)
{
    struct cluster *c = context;
    while (!atomic_load(&c->stopping)) {
        cluster_discover(c);
        if (somebody_new(c))
            refresh(c, FIRST);
        ask_failing(c);
        for (int i = 0; i < 5 && !atomic_load(&c->stopping); i++) {
            struct timespec pause = {.tv_nsec = STEP_MS / 5 * 1000000L};
            nanosleep(&pause, NULL);
        }
    }
    return NULL;
}

int cluster_new(struct server *s, struct cluster **ret, struct error *err)
{
    struct cluster *c = calloc(1, sizeof(*c));
    if (!c || client_new(s->guard.token, s->options.peer_ca, s->node, &c->client) < 0) {
        free(c);
        return error_set(err, -SCRY_E_NO_MEMORY, "out of memory");
    }
    c->server = s;
    c->refreshed_at = -FRESH_MS;
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->refreshed, NULL);
    for (size_t i = 0; i < s->options.peer_count; i++)
        if (!cluster_add(c, s->options.peers[i], SOURCE_PEER)) {
            error_set(err, -SCRY_E_USAGE, "'%.200s' is no address of a node", s->options.peers[i]);
            error_hint(err, "write --peer HOST or --peer HOST:PORT");
            cluster_free(c);
            return -SCRY_E_USAGE;
        }
    *ret = c;
    return 0;
}

int cluster_start(struct cluster *c, struct error *err)
{
    const struct serve_options *o = &c->server->options;
    if (!o->peer_count && !o->peers_dns && !o->ray && !o->dask)
        return 0;
    if (pthread_create(&c->thread, NULL, watch, c) != 0)
        return error_set(err, -SCRY_E_NO_MEMORY, "a thread cannot be started");
    c->running = true;
    return 0;
}

void cluster_stop(struct cluster *c)
{
    if (!c)
        return;
    atomic_store(&c->stopping, true);
    if (c->running)
        pthread_join(c->thread, NULL);
    c->running = false;
}

void cluster_free(struct cluster *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < c->count; i++) {
        shared_rows_release(c, c->peers[i]->rows);
        free(c->peers[i]->ips);
        free(c->peers[i]);
    }
    free(c->peers);
    free(c->ray_nodes);
    client_free(c->client);
    pthread_mutex_destroy(&c->lock);
    pthread_cond_destroy(&c->refreshed);
    free(c);
}

void cluster_counts(struct cluster *c, unsigned *ret_nodes, unsigned *ret_up)
{
    *ret_nodes = *ret_up = 1;
    pthread_mutex_lock(&c->lock);
    for (size_t i = 0; i < c->count; i++) {
        *ret_nodes += peer_counts(c->peers[i]);
        *ret_up += peer_counts(c->peers[i]) && c->peers[i]->asked && !c->peers[i]->failures;
    }
    pthread_mutex_unlock(&c->lock);
}

/* ---- who is meant ---- */

static void refer_to_self(struct server *s, struct node_ref *ret)
{
    ret->self = true;
    snprintf(ret->id, sizeof(ret->id), "%s", s->node);
    snprintf(ret->name, sizeof(ret->name), "%s", s->name);
    snprintf(ret->address, sizeof(ret->address), "%s", s->address);
}

static void refer_to(const struct peer *p, struct node_ref *ret)
{
    snprintf(ret->id, sizeof(ret->id), "%s", p->id);
    snprintf(ret->name, sizeof(ret->name), "%s", p->name);
    snprintf(ret->address, sizeof(ret->address), "%s", p->address);
    snprintf(ret->url, sizeof(ret->url), "%s", p->url);
}

static bool is_ip(const char *text)
{
    struct in6_addr room;
    return inet_pton(AF_INET, text, &room) == 1 || inet_pton(AF_INET6, text, &room) == 1;
}

static bool self_has(struct server *s, const char *ip)
{
    struct ip_list *ips = calloc(1, sizeof(*ips));
    bool has = false;
    if (ips) {
        processes_addresses(s->processes, ips);
        has = ip_list_has(ips, ip) || strncmp(ip, "127.", 4) == 0 || strcmp(ip, "::1") == 0;
    }
    free(ips);
    return has;
}

static bool is_self(struct server *s, const char *name)
{
    return strcmp(name, "self") == 0 || strcmp(name, s->node) == 0 ||
           strcasecmp(name, s->name) == 0 || strcmp(name, s->address) == 0;
}

/* With the lock held. By id and name first: addresses may be shared. */
static const struct peer *find_peer(const struct cluster *c, const char *name)
{
    for (size_t i = 0; i < c->count; i++) {
        const struct peer *p = c->peers[i];
        if (peer_counts(p) && (strcmp(p->id, name) == 0 || strcasecmp(p->name, name) == 0 ||
                               strcmp(p->address, name) == 0))
            return p;
    }
    for (size_t i = 0; i < c->count; i++) {
        const struct peer *p = c->peers[i];
        size_t len = strlen(name);
        bool host = strncmp(p->address, name, len) == 0 && p->address[len] == ':';
        if (peer_counts(p) && (host || (p->ips && ip_list_has(p->ips, name))))
            return p;
    }
    return NULL;
}

/* Ray's name for a node is looked up as its address. With the lock held. */
static const char *ray_address(const struct cluster *c, const char *id)
{
    for (size_t i = 0; i < c->ray_count; i++)
        if (strcasecmp(c->ray_nodes[i].id, id) == 0)
            return c->ray_nodes[i].ip;
    return NULL;
}

bool cluster_locate(struct server *s, const struct request *rq, struct reply *re, const char *name,
                    const char *parameter, struct node_ref *ret)
{
    struct cluster *c = s->cluster;
    *ret = (struct node_ref){0};
    const char *asked = query_get(&rq->query, "ip");
    if (rq->forwarded || is_self(s, name)) {
        refer_to_self(s, ret);
        if (asked && is_ip(asked))
            snprintf(ret->ip, sizeof(ret->ip), "%.63s", asked);
        return true;
    }
    pthread_mutex_lock(&c->lock);
    const char *ray = ray_address(c, name);
    const char *wanted = ray ? ray : name;
    if (is_ip(wanted))
        snprintf(ret->ip, sizeof(ret->ip), "%.63s", wanted);
    const struct peer *p = find_peer(c, wanted);
    if (p)
        refer_to(p, ret);
    pthread_mutex_unlock(&c->lock);
    if (p)
        return true;
    if (ret->ip[0] && self_has(s, ret->ip)) {
        refer_to_self(s, ret);
        return true;
    }
    reply_error(re, 404, "no_node", parameter, "the nodes are listed at /api/v1/nodes",
                "there is no node '%.200s'", name);
    return false;
}

/* ---- forwarding ---- */

struct forward_wait {
    struct server *server;
    const struct request *rq;
};

static bool forward_over(void *context)
{
    const struct forward_wait *w = context;
    return request_gone(w->rq) || atomic_load(&w->server->stopping);
}

/* A content type that lives as long as the program. */
static const char *known_type(const char *type)
{
    static const char *const types[] = {"application/json",          "image/svg+xml",
                                        "text/plain; charset=utf-8", "text/plain",
                                        "text/html; charset=utf-8",  "application/gzip"};
    for (size_t i = 0; i < ARRAY_LEN(types); i++)
        if (strcmp(types[i], type) == 0)
            return types[i];
    return "application/octet-stream";
}

static void pass_on(struct reply *re, struct call *call)
{
    re->status = (unsigned)call->status;
    re->type = known_type(call->type);
    re->sandboxed = strcmp(re->type, "image/svg+xml") == 0 || strstr(re->type, "html");
    buf_done(&re->body);
    re->body = call->answer;
    buf_init(&call->answer);
    if (call->recording[0])
        reply_header(re, "X-Scry-Recording", "%s", call->recording);
    if (call->warning[0])
        reply_header(re, "X-Ray-Profiling-Warning", "%s", call->warning);
    if (call->retry_after[0])
        reply_header(re, "Retry-After", "%s", call->retry_after);
    if (call->disposition[0])
        reply_header(re, "Content-Disposition", "%s", call->disposition);
}

/* How long an answer may take: a recording lasts as long as it was asked to, and may have to wait
 * its turn. */
static double patience(const struct server *s, const struct request *rq)
{
    bool records = strstr(rq->target, "cpu_profile") != NULL;
    return records ? 600.0 + s->options.max_duration : 30.0;
}

void cluster_forward(struct server *s, const struct node_ref *node, const struct request *rq,
                     struct reply *re)
{
    struct forward_wait wait = {.server = s, .rq = rq};
    struct call call;
    call_init(&call);
    bool address = node->ip[0] && !query_get(&rq->query, "ip") && strchr(rq->target, '?');
    int len = snprintf(call.url, sizeof(call.url), "%s%s%s%s", node->url, rq->target,
                       address ? "&ip=" : "", address ? node->ip : "");
    if (len < 0 || (size_t)len >= sizeof(call.url)) {
        reply_error(re, 414, "too_long", NULL, "", "the address is too long to be forwarded");
        return;
    }
    if (rq->query.segment_count == 6 && strcmp(rq->query.segments[5], "top") == 0) {
        client_stream(s->cluster->client, call.url, rq->fd, re);
        return;
    }
    call.timeout = patience(s, rq);
    call.max = ANSWER_MAX * 4;
    client_all(s->cluster->client, &call, 1, forward_over, &wait);
    if (call.status >= 200)
        pass_on(re, &call);
    else if (call.late)
        reply_error(re, 504, "peer_timeout", NULL, "", "node %s did not answer in time",
                    node->name);
    else
        reply_error(re, 502, "peer", NULL, "", "node %s cannot be asked: %s", node->name,
                    call.error);
    call_done(&call);
}

/* ---- lists ---- */

static const char *peer_state(const struct peer *p)
{
    if (p->asked && !p->failures)
        return "up";
    return p->last_ok && reply_now() - p->last_ok < SLOW_MS ? "slow" : "down";
}

static void put(struct json *j, const char *key, const char *text)
{
    json_key(j, key);
    json_string(j, text);
}

static void put_sources(struct json *j, unsigned sources)
{
    static const struct {
        unsigned bit;
        const char *word;
    } rows[] = {
        {SOURCE_PEER, "peer"}, {SOURCE_DNS, "dns"}, {SOURCE_RAY, "ray"}, {SOURCE_DASK, "dask"}};
    json_key(j, "sources");
    json_begin_array(j);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (sources & rows[i].bit)
            json_string(j, rows[i].word);
    json_end_array(j);
}

static const char *ray_id_of(const struct cluster *c, const struct peer *p)
{
    for (size_t i = 0; i < c->ray_count; i++)
        if (p->ips && c->ray_nodes[i].alive && ip_list_has(p->ips, c->ray_nodes[i].ip))
            return c->ray_nodes[i].id;
    return NULL;
}

static void put_number_of(struct json *j, const json_t *node, const char *name)
{
    json_key(j, name);
    json_double(j, json_number_value(json_object_get(node, name)));
}

/* What the node said about itself, with how we see it. */
static void put_peer(struct json *j, const struct cluster *c, const struct peer *p)
{
    static const char *const figures[] = {"cpus", "load", "memory_total", "memory_available",
                                          "processes"};
    char time[REPLY_TIME_MAX];
    json_t *node = p->rows && p->rows->rows.node.len
                       ? json_loadb(p->rows->rows.node.at, p->rows->rows.node.len, 0, NULL)
                       : NULL;
    reply_time(p->last_ok, time);
    json_begin_object(j);
    put(j, "id", p->id);
    put(j, "name", p->name);
    put(j, "address", p->address);
    json_key(j, "self");
    json_bool(j, false);
    put(j, "state", peer_state(p));
    put(j, "error", p->error[0] ? p->error : NULL);
    put(j, "version", json_string_value(json_object_get(node, "version")));
    for (size_t i = 0; i < ARRAY_LEN(figures); i++)
        put_number_of(j, node, figures[i]);
    put(j, "last_seen", time[0] ? time : NULL);
    json_key(j, "rtt_ms");
    if (p->last_ok)
        json_double(j, (double)(int64_t)(p->rtt * 1e5) / 100);
    else
        json_null(j);
    put_sources(j, p->sources);
    put(j, "ray_node_id", ray_id_of(c, p));
    json_key(j, "ips");
    json_begin_array(j);
    for (size_t i = 0; p->ips && i < p->ips->count; i++)
        json_string(j, p->ips->items[i]);
    json_end_array(j);
    json_end_object(j);
    json_decref(node);
}

void cluster_nodes(struct server *s, struct reply *re, double timeout)
{
    struct cluster *c = s->cluster;
    SCOPED_BUF own;
    buf_init(&own);
    refresh(c, timeout);
    facts_json(s, &own);
    FILE *out = reply_json(re, 200);
    if (!out)
        return;
    struct json j;
    fprintf(out, "{\"nodes\":[%s", own.data);
    pthread_mutex_lock(&c->lock);
    for (size_t i = 0; i < c->count; i++) {
        if (!peer_counts(c->peers[i]))
            continue;
        fputc(',', out);
        json_init(&j, out, 0);
        put_peer(&j, c, c->peers[i]);
    }
    pthread_mutex_unlock(&c->lock);
    fputs("]}", out);
    reply_json_end(re, out);
}

bool cluster_node(struct server *s, const struct node_ref *node, struct reply *re)
{
    struct cluster *c = s->cluster;
    if (node->self) {
        facts_json(s, &re->body);
        re->type = "application/json";
        return true;
    }
    refresh(c, 1.5);
    FILE *out = reply_json(re, 200);
    if (!out)
        return false;
    struct json j;
    json_init(&j, out, 0);
    pthread_mutex_lock(&c->lock);
    const struct peer *p = find_peer(c, node->id);
    if (p)
        put_peer(&j, c, p);
    else
        json_null(&j);
    pthread_mutex_unlock(&c->lock);
    reply_json_end(re, out);
    return true;
}

/* ---- processes of all nodes ---- */

struct gathered {
    struct shared_rows **lists; /* references */
    size_t list_count;
    const struct row **rows;
    size_t count;
    struct buf nodes; /* JSON: how each node did */
};

static void gathered_done(struct cluster *c, struct gathered *g)
{
    for (size_t i = 0; i < g->list_count; i++)
        shared_rows_release(c, g->lists[i]);
    free(g->lists);
    free(g->rows);
    buf_done(&g->nodes);
}

static void add_node_state(struct buf *to, const char *id, const char *name, const char *state,
                           const char *error)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    if (!out)
        return;
    struct json j;
    json_init(&j, out, 0);
    json_begin_object(&j);
    put(&j, "id", id);
    put(&j, "name", name);
    put(&j, "state", state);
    put(&j, "error", error);
    json_end_object(&j);
    fclose(out);
    buf_addf(to, "%s%s", to->len ? "," : "", text ? text : "");
    free(text);
}

static struct shared_rows *own_rows(struct server *s)
{
    struct buf text;
    buf_init(&text);
    processes_json(s->processes, &text);
    struct shared_rows *rows = calloc(1, sizeof(*rows));
    size_t len = text.len;
    char *data = buf_detach(&text);
    if (rows && rows_read(&rows->rows, data, len)) {
        rows->refs = 1;
        return rows;
    }
    if (!rows)
        free(data);
    free(rows);
    return NULL;
}

/* The lists of this node and of those that answered, or of the one that is wanted. */
static bool gather(struct server *s, struct gathered *g, const struct node_ref *only)
{
    struct cluster *c = s->cluster;
    g->lists = calloc(c->cap + SERVE_PEERS_MAX + 1, sizeof(struct shared_rows *));
    if (!g->lists)
        return false;
    if (!only || only->self) {
        struct shared_rows *own = own_rows(s);
        add_node_state(&g->nodes, s->node, s->name, "up", NULL);
        if (own)
            g->lists[g->list_count++] = own;
    }
    pthread_mutex_lock(&c->lock);
    for (size_t i = 0; i < c->count; i++) {
        struct peer *p = c->peers[i];
        if (!peer_counts(p) || (only && (only->self || strcmp(only->id, p->id) != 0)))
            continue;
        add_node_state(&g->nodes, p->id, p->name, peer_state(p), p->error[0] ? p->error : NULL);
        if (!p->rows || p->failures)
            continue;
        p->rows->refs++;
        g->lists[g->list_count++] = p->rows;
    }
    pthread_mutex_unlock(&c->lock);
    return true;
}

static bool filter(struct gathered *g, const char *q)
{
    size_t total = 0;
    for (size_t i = 0; i < g->list_count; i++)
        total += g->lists[i]->rows.count;
    g->rows = calloc(total + 1, sizeof(struct row *));
    if (!g->rows)
        return false;
    for (size_t i = 0; i < g->list_count; i++) {
        const struct rows *rows = &g->lists[i]->rows;
        for (size_t k = 0; k < rows->count; k++)
            if (!q || row_matches(&rows->items[k], q))
                g->rows[g->count++] = &rows->items[k];
    }
    return true;
}

static int compare_text(const struct row *a, const struct row *b, enum row_text which)
{
    const struct slice *x = &a->texts[which], *y = &b->texts[which];
    size_t len = x->len < y->len ? x->len : y->len;
    int order = len ? strncasecmp(x->at, y->at, len) : 0;
    return order ? order : (x->len > y->len) - (x->len < y->len);
}

static int compare_number(const struct row *a, const struct row *b, enum row_number which)
{
    return (a->numbers[which] > b->numbers[which]) - (a->numbers[which] < b->numbers[which]);
}

static int compare(const void *left, const void *right, void *context)
{
    const struct process_query *q = context;
    const struct row *a = *(const struct row *const *)left, *b = *(const struct row *const *)right;
    static const int number_of[] = {-1, ROW_PID, ROW_CPU, ROW_RSS, ROW_THREADS, -1, -1};
    int order;
    if (number_of[q->sort] >= 0)
        order = compare_number(a, b, (enum row_number)number_of[q->sort]);
    else
        order = compare_text(a, b,
                             q->sort == 0   ? ROW_NODE_NAME
                             : q->sort == 5 ? ROW_TITLE
                                            : ROW_STARTED);
    if (q->descending)
        order = -order;
    if (!order)
        order = compare_text(a, b, ROW_NODE_NAME);
    return order ? order : compare_number(a, b, ROW_PID);
}

static void write_rows(struct reply *re, const struct gathered *g, const struct process_query *q)
{
    size_t first = q->offset < g->count ? q->offset : g->count;
    size_t end = g->count - first > q->limit ? first + q->limit : g->count;
    size_t room = 256 + g->nodes.len;
    for (size_t i = first; i < end; i++)
        room += g->rows[i]->whole.len + 1;
    buf_reserve(&re->body, room);
    buf_add_str(&re->body, "{\"processes\":[");
    for (size_t i = first; i < end; i++) {
        if (i > first)
            buf_add_char(&re->body, ',');
        buf_add(&re->body, g->rows[i]->whole.at, g->rows[i]->whole.len);
    }
    buf_addf(&re->body, "],\"total\":%zu,\"nodes\":[%s]", g->count, g->nodes.data);
    re->type = "application/json";
}

void cluster_processes(struct server *s, const struct request *rq, struct reply *re,
                       const struct process_query *query)
{
    struct cluster *c = s->cluster;
    struct gathered g = {0};
    struct process_query q = *query;
    struct node_ref only;
    if (!cluster_locate(s, rq, re, q.node ? q.node : "self", "node", &only))
        return;
    buf_init(&g.nodes);
    if (!only.self || (!q.node && !rq->forwarded))
        refresh(c, q.timeout);
    if (gather(s, &g, q.node || rq->forwarded ? &only : NULL) && filter(&g, q.q)) {
        qsort_r(g.rows, g.count, sizeof(g.rows[0]), compare, &q);
        write_rows(re, &g, &q);
        if (rq->forwarded) {
            buf_add_str(&re->body, ",\"node\":");
            facts_json(s, &re->body);
        }
        buf_add_str(&re->body, "}\n");
    } else {
        reply_error(re, 503, "unavailable", NULL, "", "out of memory");
    }
    gathered_done(c, &g);
}
