/* The writers behind the rows of the table in format.c. */
#ifndef SCRY_FORMAT_WRITERS_H
#define SCRY_FORMAT_WRITERS_H

#include "format/format.h"

typedef int format_writer(struct recording *recording, const struct format_options *options,
                          FILE *out, struct error *err);

format_writer callgrind_write;
format_writer chrometrace_write;
format_writer flamegraph_write;
format_writer gecko_write;
format_writer html_write;
format_writer json_write;
format_writer pprof_write;
format_writer raw_write;
format_writer scry_write;
format_writer speedscope_write;

/* 0, or an error if anything written to `out` so far was lost. */
int writers_check(FILE *out, struct error *err);

#endif
