/* What record says before and after. Under the name py-spy it says what py-spy says, where it says
 * it. */
#include "tool/record.h"

#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tool/text.h"
#include "tool/traced.h"
#include "tool/values.h"
#include "util/json.h"

/* Is the profile itself written to where standard output goes? */
static bool shares_stdout(const struct outfile *out)
{
    struct stat file, standard;
    return !out->temp && fstat(fileno(out->file), &file) == 0 &&
           fstat(STDOUT_FILENO, &standard) == 0 && file.st_dev == standard.st_dev &&
           file.st_ino == standard.st_ino;
}

struct voice voice_for(const struct invocation *call, const struct outfile *out)
{
    return (struct voice){
        .out = call->as_py_spy && !shares_stdout(out) ? stdout : stderr,
        .as_py_spy = call->as_py_spy,
        .tool = call->tool,
    };
}

static void put_rate(const struct voice *v, const struct sampler_options *options)
{
    if (options->overhead > 0)
        fprintf(v->out, " as often as an overhead of %g %% allows", options->overhead * 100);
    else
        fprintf(v->out, " %g times a second", options->rate);
}

void report_waiting(const struct voice *v, int signal)
{
    char name[16];
    value_signal_text(signal, name, sizeof(name));
    fprintf(v->out, "%s%s waiting for a signal to begin: kill -%s %d\n", v->tool,
            v->as_py_spy ? ">" : ":", name, getpid());
    fflush(v->out);
}

void report_start(const struct voice *v, pid_t pid, size_t count,
                  const struct sampler_options *options)
{
    double seconds = (double)options->duration / 1e9;
    if (v->as_py_spy) {
        fputs("py-spy> Sampling process", v->out);
        put_rate(v, options);
        if (seconds > 0)
            fprintf(v->out, " for %g seconds", seconds);
        fputs(". Press Control-C to exit.\n\n", v->out);
    } else {
        fprintf(v->out, "%s: sampling process %d", v->tool, pid);
        if (count > 1)
            fprintf(v->out, " and %zu more", count - 1);
        put_rate(v, options);
        if (seconds > 0)
            fprintf(v->out, " for %g s", seconds);
        fputs("; press Control-C to stop\n", v->out);
        if (options->blocking != BLOCKING_NEVER)
            traced_note(v->out, v->tool, pid);
    }
    fflush(v->out);
}

void report_end(const struct voice *v, enum sampler_end end, int signal)
{
    const char *why = end == SAMPLER_EXITED              ? "process exited"
                      : end == SAMPLER_STOPPED && signal ? "Control-C pressed"
                                                         : NULL;
    if (v->as_py_spy && why)
        fprintf(v->out, "\npy-spy> Stopped sampling because %s\n", why);
}

/* py-spy's own words for what it wrote. */
static const char *py_spy_name(const struct format *format)
{
    static const char *const names[][2] = {{"flamegraph", "flamegraph data"},
                                           {"speedscope", "speedscope file"},
                                           {"raw", "raw flamegraph data"},
                                           {"chrometrace", "chrome trace"}};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (strcmp(format->name, names[i][0]) == 0)
            return names[i][1];
    return format->what;
}

static void report_idle(const struct voice *v, const struct sampler_options *options)
{
    if (options->gil_only)
        fputs("no samples, because no thread was seen holding the GIL (without --gil every "
              "active thread is recorded, with --idle the waiting ones too)",
              v->out);
    else if (options->choice.threads.count)
        fprintf(
            v->out,
            "no samples, because no thread that was asked for %s (scry dump lists the threads%s)",
            options->idle ? "was there" : "was there and ran",
            options->idle ? "" : "; --idle records waiting ones too");
    else if (options->cpu)
        fputs("no samples, because no thread used the CPU (--idle instead of --mode cpu records "
              "waiting threads)",
              v->out);
    else if (options->idle)
        fputs("no samples, because no thread was there to be seen", v->out);
    else
        fputs("no samples, because the process was idle (--idle records waiting threads too)",
              v->out);
}

void report_so_far(const struct voice *v, const struct format *format, const char *path)
{
    fprintf(v->out, "%s%s wrote %s of what there is so far to '", v->tool, v->as_py_spy ? ">" : ":",
            format->what);
    text_print(v->out, path);
    fputs("'; recording goes on\n", v->out);
    fflush(v->out);
}

/* What came of --overhead. */
static void report_overhead(const struct voice *v, const struct sampler_stats *stats,
                            const struct sampler_options *options)
{
    double elapsed = (double)stats->elapsed;
    if (elapsed <= 0)
        return;
    fprintf(v->out,
            "; %.0f looks a second on average, %.0f at the end, used %.2f %% of a CPU and held "
            "threads for %.2f %% of the time, of %g %% allowed",
            (double)stats->ticks * 1e9 / elapsed, stats->rate,
            100 * (double)stats->own_cpu / elapsed, 100 * (double)stats->held / elapsed,
            100 * options->overhead);
}

void report_result(const struct voice *v, const struct format *format, const char *path,
                   const struct sampler_stats *stats, const struct sampler_options *options)
{
    const char *shown = strcmp(path, "-") == 0 ? "standard output" : path;
    if (v->as_py_spy) {
        fprintf(v->out, "py-spy> Wrote %s to '", py_spy_name(format));
        text_print(v->out, shown);
        fprintf(v->out, "'. Samples: %" PRIu64 " Errors: %" PRIu64 "\n", stats->samples,
                stats->errors);
        if (stats->samples == 0) {
            fputs("py-spy> ", v->out);
            report_idle(v, options);
            fputc('\n', v->out);
        }
        if (format->hint[0])
            fprintf(v->out, "py-spy> %s\n", format->hint);
        return;
    }
    fprintf(v->out, "%s: wrote %s to '", v->tool, format->what);
    text_print(v->out, shown);
    fputs("': ", v->out);
    if (stats->samples == 0)
        report_idle(v, options);
    else
        fprintf(v->out, "%" PRIu64 " samples", stats->samples);
    fprintf(v->out,
            ", %" PRIu64 " torn, %" PRIu64 " missed, %" PRIu64 " late, %.2f s of own CPU time",
            stats->torn, stats->missed, stats->late, (double)stats->own_cpu / 1e9);
    if (options->native)
        fprintf(v->out, ", %" PRIu64 " without all native frames",
                stats->native_cut + stats->native_unmatched + stats->native_missing);
    if (options->overhead > 0)
        report_overhead(v, stats, options);
    if (format->hint[0])
        fprintf(v->out, "; %s", format->hint);
    fputc('\n', v->out);
}

int report_stats(const char *path, const struct sampler_stats *stats, struct error *err)
{
    struct outfile out;
    int r = outfile_open(&out, path, err);
    if (r < 0)
        return r;
    record_give_to_owner(&out);
    const struct {
        const char *name;
        uint64_t value;
    } rows[] = {
        {"elapsed_ns", stats->elapsed},
        {"ticks", stats->ticks},
        {"samples", stats->samples},
        {"torn", stats->torn},
        {"missed", stats->missed},
        {"late", stats->late},
        {"errors", stats->errors},
        {"native_cut", stats->native_cut},
        {"native_unmatched", stats->native_unmatched},
        {"native_missing", stats->native_missing},
        {"processes", stats->processes},
        {"threads", stats->threads},
        {"processes_read_in_kernel", stats->in_kernel},
        {"own_cpu_ns", stats->own_cpu},
        {"held_ns", stats->held},
        {"last_rate", (uint64_t)(stats->rate + 0.5)},
        {"stacks_read", stats->looks.reads},
        {"stacks_reused", stats->looks.reused},
        {"stacks_peeked", stats->looks.peeked},
        {"peeks_moved", stats->looks.moved},
        {"peeks_guessed_wrong", stats->looks.missed},
        {"memory_reads", stats->looks.memory_calls},
        {"stops", stats->looks.stops},
        {"stop_time_ns", stats->looks.stop_time},
        {"median_stop_ns", target_stats_median_stop(&stats->looks)},
    };
    struct json j;
    json_init(&j, out.file, 2);
    json_begin_object(&j);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        json_key(&j, rows[i].name);
        json_uint(&j, rows[i].value);
    }
    json_end_object(&j);
    fputc('\n', out.file);
    return outfile_commit(&out, err);
}
