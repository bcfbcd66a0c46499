/* What the server says about itself. */
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "format/format.h"
#include "http/child.h"
#include "http/cluster.h"
#include "http/inside.h"
#include "http/routes.h"
#include "util/json.h"
#include "version.h"

static void put(struct json *j, const char *key, const char *text)
{
    json_key(j, key);
    json_string(j, text);
}

static void put_int(struct json *j, const char *key, int64_t value)
{
    json_key(j, key);
    json_int(j, value);
}

static void put_flag(struct json *j, const char *key, bool value)
{
    json_key(j, key);
    json_bool(j, value);
}

static void put_formats(struct json *j)
{
    json_key(j, "formats");
    json_begin_array(j);
    for (const struct format *f = formats; f->name; f++) {
        json_begin_object(j);
        put(j, "name", f->name);
        put(j, "extension", f->extension);
        put(j, "summary", f->summary);
        put(j, "content_type", inside_type(f->name));
        put_flag(j, "binary", f->binary);
        json_end_object(j);
    }
    json_end_array(j);
}

void info_get(struct server *s, struct request *rq, struct reply *re)
{
    (void)rq;
    FILE *out = reply_json(re, 200);
    if (!out)
        return;
    struct json writer, *j = &writer;
    json_init(j, out, 0);
    json_begin_object(j);
    put(j, "name", "scry");
    put(j, "version", SCRY_VERSION);
    put_int(j, "api", 1);
    put(j, "node", s->node);
    put(j, "hostname", s->name);
    put(j, "auth", s->guard.token[0] ? "token" : "none");
    put_flag(j, "native", true);
    put_formats(j);
    json_key(j, "defaults");
    json_begin_object(j);
    put_int(j, "duration", 5);
    put_int(j, "rate", 100);
    put(j, "format", "flamegraph");
    put_flag(j, "native", false);
    put_flag(j, "idle", false);
    put_flag(j, "subprocesses", false);
    json_end_object(j);
    json_key(j, "limits");
    json_begin_object(j);
    put_int(j, "max_duration", s->options.max_duration);
    put_int(j, "max_rate", 1000);
    put_int(j, "max_targets", JOB_TARGETS_MAX);
    put_int(j, "running", s->options.running);
    put_int(j, "queue", s->options.queue);
    put_int(j, "store_bytes", (int64_t)s->options.store_bytes);
    put_int(j, "store_days", (int64_t)s->options.store_days);
    json_end_object(j);
    json_end_object(j);
    reply_json_end(re, out);
}

void profiling_enabled_get(struct server *s, struct request *rq, struct reply *re)
{
    (void)rq;
    FILE *out = reply_json(re, 200);
    if (!out)
        return;
    struct json writer, *j = &writer;
    json_init(j, out, 0);
    json_begin_object(j);
    put_flag(j, "result", true);
    put(j, "msg", "");
    json_key(j, "data");
    json_begin_object(j);
    put_flag(j, "profilingEnabled", true);
    json_key(j, "profilingDefaults");
    json_begin_object(j);
    put_flag(j, "native", false);
    put_flag(j, "subprocesses", false);
    put_flag(j, "idle", false);
    put_flag(j, "leaks", false);
    put_flag(j, "tracePythonAllocators", false);
    put_int(j, "cpuDuration", 5);
    put_int(j, "memoryDuration", 10);
    put_int(j, "maxDuration", s->options.max_duration);
    put(j, "cpuFormat", "flamegraph");
    put(j, "memoryFormat", "flamegraph");
    put_flag(j, "pyspyNativeSupported", true);
    json_end_object(j);
    json_end_object(j);
    json_end_object(j);
    reply_json_end(re, out);
}

void health_get(struct server *s, struct request *rq, struct reply *re)
{
    (void)s, (void)rq;
    reply_text(re, 200, "ok\n");
}

void ready_get(struct server *s, struct request *rq, struct reply *re)
{
    struct jobs_counts counts;
    (void)rq;
    jobs_counts(s->jobs, &counts);
    if (!store_works(s->store))
        reply_error(re, 503, "unavailable", NULL, "", "the store does not answer");
    else if (counts.queued >= s->options.queue)
        reply_error(re, 503, "busy", NULL, "", "the queue is full");
    else
        reply_text(re, 200, "ready\n");
    if (reply_failed(re))
        reply_header(re, "Retry-After", "5");
}

/* ---- metrics ---- */

static void metric(struct buf *b, const char *name, const char *kind, const char *help,
                   double value)
{
    buf_addf(b, "# HELP %s %s\n# TYPE %s %s\n%s %.17g\n", name, help, name, kind, name, value);
}

static void request_metrics(struct server *s, struct buf *b)
{
    buf_add_str(b,
                "# HELP scry_requests_total Requests answered, by the first digit of the status\n"
                "# TYPE scry_requests_total counter\n");
    for (int i = 1; i <= 5; i++)
        buf_addf(b, "scry_requests_total{status=\"%dxx\"} %llu\n", i,
                 (unsigned long long)atomic_load(&s->requests[i]));
}

static void job_metrics(struct server *s, struct buf *b)
{
    struct jobs_counts counts;
    uint64_t started, failed;
    jobs_counts(s->jobs, &counts);
    child_counts(&started, &failed);
    buf_add_str(b, "# HELP scry_recordings_total Recordings that ended, by how\n"
                   "# TYPE scry_recordings_total counter\n");
    for (int i = JOB_DONE; i <= JOB_CANCELLED; i++)
        buf_addf(b, "scry_recordings_total{state=\"%s\"} %llu\n", job_states[i],
                 (unsigned long long)counts.ended[i]);
    metric(b, "scry_recordings_running", "gauge", "Recordings going on", counts.running);
    metric(b, "scry_recordings_queued", "gauge", "Recordings that wait", counts.queued);
    metric(b, "scry_children_total", "counter", "Child processes started", (double)started);
    metric(b, "scry_children_failed_total", "counter", "Child processes that failed",
           (double)failed);
}

static void own_metrics(struct server *s, struct buf *b)
{
    struct rusage use;
    uint64_t bytes, recordings;
    unsigned nodes, up;
    long pages = 0;
    FILE *statm = fopen("/proc/self/statm", "re");
    if (statm && fscanf(statm, "%*s %ld", &pages) != 1)
        pages = 0;
    if (statm)
        fclose(statm);
    getrusage(RUSAGE_SELF, &use);
    store_usage(s->store, &bytes, &recordings);
    cluster_counts(s->cluster, &nodes, &up);
    metric(b, "scry_store_bytes", "gauge", "Size of the kept recordings", (double)bytes);
    metric(b, "scry_store_recordings", "gauge", "Number of the kept recordings",
           (double)recordings);
    metric(b, "scry_nodes", "gauge", "Nodes known, this one included", nodes);
    metric(b, "scry_nodes_up", "gauge", "Nodes that answer", up);
    metric(b, "scry_connections", "gauge", "Open connections", atomic_load(&s->connections));
    metric(b, "scry_event_streams", "gauge", "Open event streams", atomic_load(&s->streams));
    metric(b, "process_resident_memory_bytes", "gauge", "Resident memory",
           (double)pages * (double)sysconf(_SC_PAGESIZE));
    metric(b, "process_cpu_seconds_total", "counter", "CPU time of the server itself",
           (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
               (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1e6);
    metric(b, "process_start_time_seconds", "gauge", "When it was started",
           (double)s->started / 1000);
}

void metrics_get(struct server *s, struct request *rq, struct reply *re)
{
    (void)rq;
    re->type = "text/plain; version=0.0.4; charset=utf-8";
    buf_addf(&re->body,
             "# HELP scry_info The version\n# TYPE scry_info gauge\nscry_info{version=\"%s\"} 1\n",
             SCRY_VERSION);
    metric(&re->body, "scry_processes", "gauge", "Python processes of this host",
           (double)processes_count(s->processes));
    request_metrics(s, &re->body);
    job_metrics(s, &re->body);
    own_metrics(s, &re->body);
}
