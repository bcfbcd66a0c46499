/* The program that was launched. Ending it means all of it: a shell script that started Python, a server with its
 * workers. */
#include "tool/record.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>

#include "access/process.h"

#define FAMILY_MAX 4096
#define POLL_EVERY 5000000L /* nanoseconds */
#define END_WAIT   SCRY_NSEC_PER_SEC

/* Descendants, each held by a handle that a reused pid does not fool. */
struct family {
    struct process **members;
    size_t count, cap;
};

static bool knows(const struct family *f, pid_t pid)
{
    for (size_t i = 0; i < f->count; i++)
        if (f->members[i]->pid == pid)
            return true;
    return false;
}

static void adopt(struct family *f, pid_t pid)
{
    if (f->count >= FAMILY_MAX || knows(f, pid))
        return;
    if (f->count == f->cap) {
        size_t cap = f->cap ? f->cap * 2 : 16;
        struct process **grown = realloc(f->members, cap * sizeof(struct process *));
        if (!grown)
            return;
        f->members = grown;
        f->cap = cap;
    }
    struct process *member;
    if (process_peek(pid, &member, NULL) == 0)
        f->members[f->count++] = member;
}

static void adopt_children(struct family *f, pid_t pid)
{
    struct pid_list children = {0};
    if (process_children(pid, &children) < 0)
        return;
    for (size_t i = 0; i < children.count; i++)
        adopt(f, children.items[i]);
    pid_list_done(&children);
}

/* Children of those already known; the list grows while it is walked. */
static void adopt_descendants(struct family *f)
{
    for (size_t i = 0; i < f->count; i++)
        if (process_alive(f->members[i]))
            adopt_children(f, f->members[i]->pid);
}

static bool signal_living(const struct family *f, int signal_number)
{
    bool any = false;
    for (size_t i = 0; i < f->count; i++) {
        if (!process_alive(f->members[i]))
            continue;
        any = true;
        if (signal_number)
            kill(f->members[i]->pid, signal_number);
    }
    return any;
}

static void await_end(const struct family *f, scry_nsec grace)
{
    const struct timespec pause = {.tv_nsec = POLL_EVERY};
    for (scry_nsec waited = 0; waited < grace && signal_living(f, 0); waited += POLL_EVERY)
        nanosleep(&pause, NULL);
}

static void family_end(struct family *f, scry_nsec grace)
{
    adopt_descendants(f);
    if (signal_living(f, SIGTERM)) {
        await_end(f, grace);
        adopt_descendants(f);
        if (signal_living(f, SIGKILL))
            await_end(f, grace);
    }
    for (size_t i = 0; i < f->count; i++)
        process_close(f->members[i]);
    free(f->members);
}

void program_end(struct launch *program, scry_nsec grace)
{
    struct family family = {0};
    if (launch_poll(program))
        return;
    adopt_children(&family, program->pid);
    adopt_descendants(&family);
    launch_end(program, grace);
    family_end(&family, grace);
}

static int explain_end(const struct launch *program, const char *name, struct error *err)
{
    bool signaled = WIFSIGNALED(program->status);
    error_set(err, -SCRY_E_LAUNCH, "the program '%s' ended with %s %d before Python started in it",
              name, signaled ? "signal" : "exit status",
              signaled ? WTERMSIG(program->status) : WEXITSTATUS(program->status));
    error_hint(err, "name a Python program that runs for a while");
    return -SCRY_E_LAUNCH;
}

/* Its memory goes before its parent is told. */
static bool is_ending(int code)
{
    return code == -SCRY_E_NO_PROCESS || code == -SCRY_E_GONE || code == -SCRY_E_ZOMBIE;
}

int program_explain_start(struct launch *program, const char *name, bool subprocesses, int code,
                          struct error *err)
{
    if (launch_wait(program, is_ending(code) ? END_WAIT : 0))
        return explain_end(program, name, err);
    if (code == -SCRY_E_NOT_PYTHON) {
        error_set(err, code, "the program '%s' does not run CPython", name);
        error_hint(err, subprocesses
                            ? "name a program that runs Python"
                            : "if it starts Python as another process, add --subprocesses");
    }
    return code;
}
