#include "tool/traced.h"

#include "access/process.h"
#include "access/stop.h"
#include "tool/text.h"

void traced_note(FILE *out, const char *tool, pid_t pid)
{
    pid_t tracer = stop_tracer(pid);
    struct process *who;
    if (!tracer)
        return;
    fprintf(out, "%s: note: process %d is traced by process %d", tool, pid, tracer);
    if (process_peek(tracer, &who, NULL) == 0) {
        fputs(" (", out);
        text_print(out, who->command);
        fputc(')', out);
        process_close(who);
    }
    fputs(": threads that run cannot be stopped, so stacks may be unsure and native frames "
          "missing\n",
          out);
}
