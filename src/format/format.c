#include "format/format.h"

#include <strings.h>

#include "format/writers.h"

const struct format formats[] = {
    {
        .name = "flamegraph",
        .extension = "svg",
        .summary = "interactive flame graph, one SVG file for any browser",
        .what = "flame graph",
        .hint = "open it in a browser",
        .write = flamegraph_write,
    },
    {
        .name = "html",
        .extension = "html",
        .summary = "report in one page: flame graph, inverted, time line, tables, source",
        .what = "report",
        .hint = "open it in a browser",
        .write = html_write,
    },
    {
        .name = "raw",
        .extension = "txt",
        .summary = "folded stacks, one line per distinct stack with its number of samples",
        .what = "folded stacks",
        .hint = "for grep, sort and every flame graph tool",
        .write = raw_write,
    },
    {
        .name = "speedscope",
        .extension = "json",
        .summary = "for speedscope: every thread on a time line, in real seconds",
        .what = "speedscope file",
        .hint = "open it at https://www.speedscope.app",
        .write = speedscope_write,
    },
    {
        .name = "chrometrace",
        .extension = "json",
        .summary = "for Perfetto and chrome://tracing: calls as slices on a time line",
        .what = "Chrome trace",
        .hint = "open it at https://ui.perfetto.dev or chrome://tracing",
        .write = chrometrace_write,
    },
    {
        .name = "gecko",
        .extension = "json",
        .summary = "for the Firefox Profiler: threads of all processes, with categories",
        .what = "Firefox Profiler file",
        .hint = "open it at https://profiler.firefox.com",
        .write = gecko_write,
    },
    {
        .name = "pprof",
        .extension = "pb.gz",
        .summary = "for pprof and the tools that read its profiles, compressed",
        .what = "pprof profile",
        .hint = "open it with: go tool pprof -http=: FILE",
        .binary = true,
        .write = pprof_write,
    },
    {
        .name = "json",
        .extension = "json",
        .summary = "the call tree in columns, for programs",
        .what = "call tree",
        .hint = "described in docs/api.md",
        .write = json_write,
    },
    {
        .name = "callgrind",
        .extension = "callgrind",
        .summary = "for KCachegrind, QCachegrind and callgrind_annotate",
        .what = "callgrind profile",
        .hint = "open it with kcachegrind, or print it with callgrind_annotate",
        .write = callgrind_write,
    },
    {
        .name = "scry",
        .extension = "scry",
        .summary = "the recording itself, to be converted to any other format later",
        .what = "recording",
        .hint = "make something of it with: scry convert",
        .binary = true,
        .write = scry_write,
    },
    {.name = NULL},
};

const struct format *format_find(const char *name)
{
    for (const struct format *f = formats; f->name; f++)
        if (strcasecmp(f->name, name) == 0)
            return f;
    return NULL;
}

int writers_check(FILE *out, struct error *err)
{
    if (fflush(out) != 0 || ferror(out))
        return error_set(err, -SCRY_E_OUTPUT, "the output could not be written whole");
    return 0;
}
