/* scry serve: the HTTP API, the page and the node of a cluster, in one process. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool/commands.h"
#include "tool/serve_module.h"
#include "tool/text.h"

struct serve_values {
    const char *listen, *token_file, *cert, *key, *peer_ca, *data_dir, *name, *audit;
    const char *peers_dns, *ray, *dask, *pid_namespace;
    struct strings peers, hosts, users;
    uint32_t port, running, queue, connections, store_megabytes, store_days, max_duration;
    bool no_sandbox;
};

static const char *or_empty(const char *text)
{
    return text ? text : "";
}

static int check_range(uint32_t value, uint32_t min, uint32_t max, const char *name,
                       struct error *err)
{
    if (value >= min && value <= max)
        return 0;
    error_set(err, -SCRY_E_USAGE, "--%s must be from %u to %u, not %u", name, min, max, value);
    error_hint(err, "see --help");
    return -SCRY_E_USAGE;
}

static int check(const struct serve_values *v, struct error *err)
{
    int r = check_range(v->port, 0, 65535, "port", err);
    if (r == 0)
        r = check_range(v->running, 1, 64, "jobs", err);
    if (r == 0)
        r = check_range(v->queue, 1, 10000, "queue", err);
    if (r == 0)
        r = check_range(v->connections, 4, 10000, "connections", err);
    if (r == 0)
        r = check_range(v->store_megabytes, 1, 1000000, "store-size", err);
    if (r == 0)
        r = check_range(v->store_days, 1, 36500, "store-days", err);
    if (r == 0)
        r = check_range(v->max_duration, 1, 3600, "max-duration", err);
    return r;
}

static int make_policy(const struct serve_module *module, const struct serve_values *v,
                       struct policy *policy, struct error *err)
{
    int r = 0;
    for (size_t i = 0; i < v->users.count && r == 0; i++)
        r = module->add_user(policy, v->users.items[i], err);
    if (r == 0 && v->pid_namespace)
        r = module->set_pid_namespace(policy, v->pid_namespace, err);
    return r;
}

/* Where it is, on standard output, for a person and for programs that wait for it. */
static void announce(const struct serve_module *module, const struct server *server)
{
    printf("scry: serving on %s\n", module->url(server));
    if (module->token_file(server)[0]) {
        fputs("scry: the token is in ", stdout);
        text_print(stdout, module->token_file(server));
        printf("; in a browser: %s?token=TOKEN\n", module->url(server));
    }
    fflush(stdout);
}

/* Blocked in all threads, so that only this one gets them. */
static void block_signals(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGHUP);
    sigprocmask(SIG_BLOCK, set, NULL);
}

static void wait_for_signal(const sigset_t *set)
{
    int signal_number;
    do {
        if (sigwait(set, &signal_number) != 0)
            return;
    } while (signal_number == SIGHUP);
}

static int run(const struct invocation *call, const void *values, struct error *err)
{
    const struct serve_values *v = values;
    (void)call;
    struct serve_options options = {
        .host = or_empty(v->listen),
        .port = (uint16_t)v->port,
        .token_file = v->token_file,
        .cert = v->cert,
        .key = v->key,
        .peer_ca = v->peer_ca,
        .data_dir = or_empty(v->data_dir),
        .node_name = or_empty(v->name),
        .audit = or_empty(v->audit),
        .peers = v->peers.items,
        .peer_count = v->peers.count,
        .peers_dns = v->peers_dns,
        .ray = v->ray,
        .dask = v->dask,
        .hosts = v->hosts.items,
        .host_count = v->hosts.count,
        .running = v->running,
        .queue = v->queue,
        .connections = v->connections,
        .store_bytes = (uint64_t)v->store_megabytes << 20,
        .store_days = v->store_days,
        .max_duration = v->max_duration,
        .sandbox = !v->no_sandbox,
    };
    const struct serve_module *module;
    struct server *server;
    sigset_t signals;
    int r = check(v, err);
    if (r == 0)
        r = serve_module_load(&module, err);
    if (r == 0)
        r = make_policy(module, v, &options.policy, err);
    if (r < 0)
        return r;
    block_signals(&signals);
    r = module->open(&options, &server, err);
    if (r < 0)
        return r;
    announce(module, server);
    wait_for_signal(&signals);
    module->close(server);
    return 0;
}

#define ROW(option_name, argument_name, option_kind, member, option_group, sentence)               \
    {                                                                                              \
        .name = (option_name), .argument = (argument_name), .kind = (option_kind),                 \
        .offset = offsetof(struct serve_values, member), .group = (option_group),                  \
        .help = (sentence)                                                                         \
    }

static const struct option options[] = {
    ROW("listen", "ADDRESS", OPT_STRING, listen, "Address",
        "Where to listen, 127.0.0.1 if not given; any other address than the loopback needs "
        "--token-file"),
    ROW("port", "PORT", OPT_NUMBER, port, "Address",
        "The port, 8266 if not given; 0 for any that is free"),
    ROW("cert", "FILE", OPT_FILE, cert, "Address", "Certificate for TLS, in PEM form; needs --key"),
    ROW("key", "FILE", OPT_FILE, key, "Address", "The private key of --cert"),
    ROW("host-name", "NAME", OPT_STRINGS, hosts, "Address",
        "A further name the server may be called by, such as scry.example.org or *.example.org; "
        "may be given several times"),
    ROW("token-file", "FILE", OPT_FILE, token_file, "Safety",
        "Ask for the token in this file; it is made, readable by its owner alone, if it is "
        "missing"),
    ROW("allow-user", "USER", OPT_STRINGS, users, "Safety",
        "Look only into processes of this user, a name or a number; may be given several times"),
    ROW("allow-pid-namespace", "WHICH", OPT_STRING, pid_namespace, "Safety",
        "Look only into processes of this pid namespace: self, a process id in it, or a path such "
        "as /proc/1/ns/pid"),
    ROW("audit", "FILE", OPT_FILE, audit, "Safety",
        "Where to write a line per request, - for standard error; audit.log in the data folder if "
        "not given"),
    ROW("no-sandbox", NULL, OPT_FLAG, no_sandbox, "Safety",
        "Keep all capabilities and allow all system calls"),
    ROW("peer", "HOST:PORT", OPT_STRINGS, peers, "Cluster",
        "Another node that runs scry serve; may be given several times"),
    ROW("peers-dns", "NAME[:PORT]", OPT_STRING, peers_dns, "Cluster",
        "A name whose addresses are the nodes, such as a headless Kubernetes Service; asked again "
        "and again"),
    ROW("ray", "URL", OPT_STRING, ray, "Cluster",
        "The dashboard of a Ray cluster, such as http://127.0.0.1:8265: its nodes and tasks"),
    ROW("dask", "URL", OPT_STRING, dask, "Cluster",
        "The dashboard of a Dask scheduler, such as http://127.0.0.1:8787: its hosts, and which "
        "process is which worker"),
    ROW("peer-ca", "FILE", OPT_FILE, peer_ca, "Cluster",
        "Certificates to trust when other nodes are asked over TLS"),
    ROW("node-name", "NAME", OPT_STRING, name, "Cluster",
        "What to call this node; the host's name if not given"),
    ROW("data-dir", "FOLDER", OPT_FILE, data_dir, "Limits",
        "Where recordings are kept; ~/.local/share/scry if not given"),
    ROW("store-size", "MEGABYTES", OPT_NUMBER, store_megabytes, "Limits",
        "How much is kept, 1024 if not given: the oldest go first"),
    ROW("store-days", "DAYS", OPT_NUMBER, store_days, "Limits",
        "How long recordings are kept, 30 if not given"),
    ROW("max-duration", "SECONDS", OPT_NUMBER, max_duration, "Limits",
        "The longest recording that can be asked for, 60 if not given"),
    ROW("jobs", "N", OPT_NUMBER, running, "Limits",
        "Processes recorded at the same time, 8 if not given"),
    ROW("queue", "N", OPT_NUMBER, queue, "Limits", "Recordings that may wait, 64 if not given"),
    ROW("connections", "N", OPT_NUMBER, connections, "Limits",
        "Connections at the same time, 512 if not given"),
    OPTION_HELP,
    OPTIONS_END,
};

static const struct example examples[] = {
    {"The page and the API for this host, on http://127.0.0.1:8266/:", "serve"},
    {"For others as well, who need the token:",
     "serve --listen 0.0.0.0 --token-file /etc/scry/token"},
    {"On each node of a Kubernetes cluster, all of which show all:",
     "serve --listen 0.0.0.0 --token-file /etc/scry/token --peers-dns scry.scry.svc"},
    {NULL, NULL},
};

const struct command cmd_serve = {
    .name = "serve",
    .summary = "Serve a page and an HTTP API: processes, stack traces, flame graphs, of one host "
               "or of many",
    .usage = (const char *const[]){"[OPTIONS]", NULL},
    .description =
        "Shows the Python processes of this host, and of all nodes of a cluster that run it as "
        "well, in a browser: what they do, their stacks, flame graphs, live. The addresses of the "
        "Ray dashboard's profiling are answered too. Ends at Control-C; recordings that go on "
        "then are kept as far as they came.",
    .options = options,
    .examples = examples,
    .values_size = sizeof(struct serve_values),
    .defaults =
        &(const struct serve_values){
            .port = SERVE_PORT,
            .running = 8,
            .queue = 64,
            .connections = 512,
            .store_megabytes = 1024,
            .store_days = 30,
            .max_duration = 60,
        },
    .run = run,
};
