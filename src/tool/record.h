/* The parts of `record`, some of which `convert` uses too: where it writes, what it tells, and how
 * it is stopped. */
#ifndef SCRY_TOOL_RECORD_H
#define SCRY_TOOL_RECORD_H

#include <stdio.h>

#include "access/launch.h"
#include "engine/sampler.h"
#include "format/format.h"
#include "tool/commands.h"
#include "util/outfile.h"

/* ---- output (record_output.c) ---- */

/* "python-2026-01-31T235959.svg": from the program's file name or the pid, in the current folder,
 * with nothing in it that a file system or a shell objects to. The caller frees it; NULL when
 * memory runs out. */
char *record_default_name(const char *program, pid_t pid, const char *extension);
/* A file without a name, in TMPDIR or /tmp, to keep the recording in until it is converted. */
int record_open_temporary(FILE **ret_file, struct error *err);
/* A binary format is not for a terminal: a usage error that says so. */
int record_check_terminal(const struct format *format, const struct outfile *out,
                          struct error *err);
/* When root writes on behalf of a user who called sudo, the file is that user's; a file that is
 * replaced keeps its owner. */
void record_give_to_owner(const struct outfile *out);

/* ---- signals (record_signals.c) ----
 * The first SIGINT, SIGTERM or SIGHUP asks the sampler to stop; a second SIGINT gives up: removes
 * the half-written file, ends the launched program and dies of the signal. SIGUSR1 asks for what
 * there is so far. */

void signals_catch(void);
/* For a command that has nothing to finish: the first signal gives up. */
void signals_give_up(void);
void signals_release(void);
/* Whom to stop; NULL before it is freed. One that is set after the signal came is stopped at once.
 */
void signals_set_sampler(struct sampler *sampler);
/* What to clean up when giving up: `temp` may be NULL, `child` 0. */
void signals_set_cleanup(const char *temp, pid_t child);
/* The temporary file of a part that is being written while the next one is recorded; NULL = none. */
void signals_set_second(const char *temp);
/* Whether SIGUSR1 came since it was last asked: what there is so far is to be written. */
bool signals_take_flush(void);
/* --start-on and --stop-on: these signals let the sampler rest or go on, or end it; 0 = none. */
void signals_watch(int start_on, int stop_on);
/* Whether --start-on has yet to come. */
bool signals_resting(void);
/* Whether a signal ended it. */
bool signals_over(void);
/* The signal that came, or 0. */
int signals_caught(void);

/* ---- the launched program (record_program.c) ---- */

/* End it and all its descendants: SIGTERM, and SIGKILL for what is still there after `grace`. What
 * a program that ended by itself left running is left alone. */
void program_end(struct launch *program, scry_nsec grace);
/* Why it could not be sampled: that it ended, or is no Python, explains more than what scry met instead (`code`,
 * `err`). Returns the code to report. */
int program_explain_start(struct launch *program, const char *name, bool subprocesses, int code,
                          struct error *err);

/* ---- what the user is told (record_report.c, record_progress.c) ---- */

struct voice {
    FILE *out; /* standard error; called as py-spy standard output, unless the profile goes there */
    bool as_py_spy;
    const char *tool;
};

struct voice voice_for(const struct invocation *call, const struct outfile *out);
void report_start(const struct voice *v, pid_t pid, size_t count,
                  const struct sampler_options *options);
void report_waiting(const struct voice *v, int signal); /* for --start-on */
void report_end(const struct voice *v, enum sampler_end end, int signal);
void report_result(const struct voice *v, const struct format *format, const char *path,
                   const struct sampler_stats *stats, const struct sampler_options *options);

/* What was asked for by SIGUSR1 is there. */
void report_so_far(const struct voice *v, const struct format *format, const char *path);

/* How it went, as JSON, into a file of its own. */
int report_stats(const char *path, const struct sampler_stats *stats, struct error *err);

struct progress {
    bool shown;         /* whether to show anything at all */
    bool visible;       /* a line stands on the terminal now */
    bool shares_screen; /* with a launched program: the line has a row of its own */
    int row;            /* which; 0 = not yet set apart */
    bool lines;         /* for a program: a line on standard output twice a second */
    scry_nsec told;     /* when the last such line was due */
    scry_nsec duration;
};

/* On standard error, and only if that is a terminal. */
void progress_init(struct progress *p, bool wanted, bool launched, scry_nsec duration);
void progress_update(struct progress *p, const struct sampler_stats *stats);
void progress_clear(struct progress *p);
/* One line for a program, now. */
void progress_tell(const struct sampler_stats *stats);

#endif
