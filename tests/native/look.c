/* scry's own stacks with native frames, from one process that stays: for each line "PID HOW" on standard input
 * the threads of that process as one line of JSON, as `scry dump --json --native-all` prints them. Symbols and
 * unwind tables are read once, so that a thousand looks take little longer than one; and what is kept from one
 * look to the next is what a recording keeps. HOW is "auto", "always" (stop each thread), or "plain"
 * (without native frames). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/target.h"
#include "tool/dump.h"
#include "util/json.h"

static int print_look(struct target *t, const char *how)
{
    bool native = !strstr(how, "plain");
    const struct look look = {
        .blocking = strstr(how, "always") ? BLOCKING_ALWAYS : BLOCKING_AUTO,
        .stop_limit = SCRY_NSEC_PER_SEC,
        .native = native,
        .native_all = native,
    };
    const struct snapshot *snapshot;
    int r = target_look(t, &look, &snapshot);
    if (r < 0)
        return r;
    struct dump_process process = {
        .pid = t->process->pid,
        .command = t->process->command,
        .exe = t->process->exe,
        .python = "",
        .snapshot = snapshot,
    };
    struct json json;
    json_init(&json, stdout, 0);
    json_begin_array(&json);
    dump_json(&json, &process);
    json_end_array(&json);
    return 0;
}

int main(void)
{
    struct target *t = NULL;
    char line[64];
    while (fgets(line, sizeof(line), stdin)) {
        char *how;
        struct error err = {0};
        pid_t pid = (pid_t)strtol(line, &how, 10);
        if (t && t->process->pid != pid) {
            target_close(t);
            t = NULL;
        }
        int r = t ? 0 : target_open(pid, SCRY_NSEC_PER_SEC, &t, &err);
        if (r == 0)
            r = print_look(t, how);
        if (r < 0)
            printf("{\"error\": %d}", r);
        putchar('\n');
        fflush(stdout);
    }
    target_close(t);
    return 0;
}
