/* A signal handler can only reach what is global, hence the globals here and nowhere else. */
#include "tool/record.h"

#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

static _Atomic(struct sampler *) running;
static atomic_int caught;
static atomic_int launched_child;
static atomic_int flush_wanted;
static atomic_int start_signal, stop_signal;
static atomic_bool resting, over;
static char half_written[2][PATH_MAX];

static const int handled[] = {SIGINT, SIGTERM, SIGHUP};
static struct sigaction former[ARRAY_LEN(handled)];
static struct sigaction former_pipe, former_flush;
static struct {
    int signal;
    struct sigaction former;
} watched[2];

static void give_up(int signal_number)
{
    for (size_t i = 0; i < ARRAY_LEN(half_written); i++)
        if (half_written[i][0])
            unlink(half_written[i]);
    int child = atomic_load(&launched_child);
    if (child > 0)
        kill(child, SIGKILL);
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

static void on_signal(int signal_number)
{
    int earlier = atomic_exchange(&caught, signal_number);
    if (earlier == SIGINT && signal_number == SIGINT)
        give_up(signal_number);
    struct sampler *sampler = atomic_load(&running);
    if (sampler)
        sampler_stop(sampler);
}

static void on_flush(int signal_number)
{
    (void)signal_number;
    atomic_store(&flush_wanted, 1);
}

static void rest_or_go_on(struct sampler *sampler, bool rest)
{
    atomic_store(&resting, rest);
    if (sampler)
        sampler_pause(sampler, rest);
}

static void end_it(struct sampler *sampler)
{
    atomic_store(&over, true);
    if (sampler)
        sampler_stop(sampler);
}

static void on_watched(int signal_number)
{
    struct sampler *sampler = atomic_load(&running);
    bool starts = signal_number == atomic_load(&start_signal);
    bool stops = signal_number == atomic_load(&stop_signal);
    if (starts && stops)
        rest_or_go_on(sampler, !atomic_load(&resting));
    else if (starts)
        rest_or_go_on(sampler, false);
    else if (atomic_load(&start_signal))
        rest_or_go_on(sampler, true);
    else
        end_it(sampler);
}

void signals_watch(int start_on, int stop_on)
{
    const int wanted[] = {start_on, stop_on};
    struct sigaction action = {.sa_handler = on_watched};
    sigemptyset(&action.sa_mask);
    atomic_store(&start_signal, start_on);
    atomic_store(&stop_signal, stop_on);
    atomic_store(&resting, start_on != 0);
    for (size_t i = 0; i < ARRAY_LEN(wanted); i++) {
        watched[i].signal = wanted[i];
        if (wanted[i] && (i == 0 || wanted[0] != wanted[1]))
            sigaction(wanted[i], &action, &watched[i].former);
        else
            watched[i].signal = 0;
    }
}

bool signals_resting(void)
{
    return atomic_load(&resting);
}

bool signals_over(void)
{
    return atomic_load(&caught) || atomic_load(&over);
}

static void catch_with(void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler};
    sigemptyset(&action.sa_mask);
    /* Raising the signal again while giving up must end us there and then. */
    action.sa_flags = SA_NODEFER;
    for (size_t i = 0; i < ARRAY_LEN(handled); i++) {
        sigaction(handled[i], NULL, &former[i]);
        /* nohup: whoever ignores the hang-up wants the recording to go on. */
        if (handled[i] == SIGHUP && former[i].sa_handler == SIG_IGN)
            continue;
        sigaction(handled[i], &action, NULL);
    }
    /* A reader that went away is an error to report, not a reason to leave a launched program
     * behind. */
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGPIPE, &ignore, &former_pipe);
}

void signals_catch(void)
{
    catch_with(on_signal);
    struct sigaction action = {.sa_handler = on_flush, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &action, &former_flush);
}

void signals_give_up(void)
{
    catch_with(give_up);
}

void signals_release(void)
{
    for (size_t i = 0; i < ARRAY_LEN(watched); i++)
        if (watched[i].signal)
            sigaction(watched[i].signal, &watched[i].former, NULL);
    for (size_t i = 0; i < ARRAY_LEN(handled); i++)
        sigaction(handled[i], &former[i], NULL);
    sigaction(SIGPIPE, &former_pipe, NULL);
    sigaction(SIGUSR1, &former_flush, NULL);
    for (size_t i = 0; i < ARRAY_LEN(half_written); i++)
        half_written[i][0] = '\0';
    atomic_store(&launched_child, 0);
}

void signals_set_sampler(struct sampler *sampler)
{
    atomic_store(&running, sampler);
    if (sampler && signals_over())
        sampler_stop(sampler);
}

static void remember(char to[static PATH_MAX], const char *temp)
{
    size_t len = temp ? strlen(temp) : 0;
    if (len >= PATH_MAX)
        len = 0;
    to[0] = '\0';
    memcpy(to + 1, len ? temp + 1 : "", len ? len : 1); /* with its end */
    to[0] = len ? temp[0] : '\0';
}

void signals_set_cleanup(const char *temp, pid_t child)
{
    atomic_store(&launched_child, (int)child);
    remember(half_written[0], temp);
}

void signals_set_second(const char *temp)
{
    remember(half_written[1], temp);
}

bool signals_take_flush(void)
{
    return atomic_exchange(&flush_wanted, 0);
}

int signals_caught(void)
{
    return atomic_load(&caught);
}
