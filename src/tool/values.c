#include "tool/values.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "tool/options.h"
#include "util/buf.h"

#define DIGITS "0123456789"

/* Digits with at most one point among them, and at least one digit: what strtod() may be trusted
 * with. */
static bool is_plain_decimal(const char *text)
{
    size_t whole = strspn(text, DIGITS);
    size_t fraction = 0;
    const char *rest = text + whole;
    if (*rest == '.') {
        rest++;
        fraction = strspn(rest, DIGITS);
        rest += fraction;
    }
    return *rest == '\0' && whole + fraction > 0;
}

static bool is_negative(const char *text)
{
    return text[0] == '-' && is_plain_decimal(text + 1);
}

int value_pid(const char *text, const char *option, pid_t *ret_pid, struct error *err)
{
    bool hex = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
    const char *digits = hex ? text + 2 : text;
    const char *allowed = hex ? DIGITS "abcdefABCDEF" : DIGITS;

    if (is_negative(text)) {
        error_set(err, -SCRY_E_USAGE, "%s %s: a process id is not negative", option, text);
    } else if (*digits == '\0' || digits[strspn(digits, allowed)] != '\0') {
        error_set(err, -SCRY_E_USAGE, "%s '%s' is not a process id", option, text);
    } else {
        errno = 0;
        unsigned long long value = strtoull(digits, NULL, hex ? 16 : 10);
        if (errno == 0 && value >= 1 && value <= PID_LIMIT) {
            *ret_pid = (pid_t)value;
            return 0;
        }
        if (errno == 0 && value == 0)
            error_set(err, -SCRY_E_USAGE, "%s %s: no process has the id 0", option, text);
        else
            error_set(err, -SCRY_E_USAGE, "%s %s is beyond the range of process ids, 1 to %d",
                      option, text, PID_LIMIT);
    }
    error_hint(err, "list the Python processes of this host with: scry ps");
    return -SCRY_E_USAGE;
}

int value_rate(const char *text, const char *option, double *ret_rate, struct error *err)
{
    if (is_plain_decimal(text)) {
        double value = strtod(text, NULL);
        if (value >= RATE_MIN && value <= RATE_MAX) {
            *ret_rate = value;
            return 0;
        }
        error_set(err, -SCRY_E_USAGE, "%s %s is not a rate scry can sample at", option, text);
    } else if (is_negative(text)) {
        error_set(err, -SCRY_E_USAGE, "%s %s: a rate is not negative", option, text);
    } else {
        error_set(err, -SCRY_E_USAGE, "%s '%s' is not a number of samples per second", option,
                  text);
    }
    error_hint(err, "give a number from %g to %.0f, for example %s 100", RATE_MIN, RATE_MAX,
               option);
    return -SCRY_E_USAGE;
}

int value_percent(const char *text, const char *option, double *ret_share, struct error *err)
{
    char number[32];
    size_t len = strlen(text);
    len -= len > 0 && text[len - 1] == '%';
    snprintf(number, sizeof(number), "%.*s", (int)(len < sizeof(number) ? len : 0), text);
    double value = is_plain_decimal(number) ? strtod(number, NULL) : 0;
    if (value >= PERCENT_MIN && value <= PERCENT_MAX) {
        *ret_share = value / 100;
        return 0;
    }
    error_set(err, -SCRY_E_USAGE, "%s '%s' is not a percentage from %g to %g", option, text,
              PERCENT_MIN, PERCENT_MAX);
    error_hint(err, "give a number, for example %s 1", option);
    return -SCRY_E_USAGE;
}

static const struct {
    const char *name;
    int number;
} known[] = {{"USR1", SIGUSR1}, {"USR2", SIGUSR2}, {"HUP", SIGHUP}, {"ALRM", SIGALRM}};

void value_signal_text(int signal, char *to, size_t cap)
{
    snprintf(to, cap, "RTMIN+%d", signal - SIGRTMIN);
    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (known[i].number == signal)
            snprintf(to, cap, "%s", known[i].name);
}

int value_signal(const char *text, const char *option, int *ret_signal, struct error *err)
{
    const char *name = strncasecmp(text, "SIG", 3) == 0 ? text + 3 : text;
    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        if (strcasecmp(name, known[i].name) == 0) {
            *ret_signal = known[i].number;
            return 0;
        }
    }
    unsigned above;
    char end;
    if (strncasecmp(name, "RTMIN+", 6) == 0 && sscanf(name + 6, "%2u%c", &above, &end) == 1 &&
        SIGRTMIN + (int)above <= SIGRTMAX) {
        *ret_signal = SIGRTMIN + (int)above;
        return 0;
    }
    error_set(err, -SCRY_E_USAGE, "%s '%s' is no signal that scry can wait for", option, text);
    error_hint(err, "choose from: USR1, USR2, HUP, ALRM, RTMIN+0 to RTMIN+%d", SIGRTMAX - SIGRTMIN);
    return -SCRY_E_USAGE;
}

int value_number(const char *text, const char *option, uint32_t *ret_number, struct error *err)
{
    if (*text && !text[strspn(text, DIGITS)] && strlen(text) <= 10) {
        unsigned long long value = strtoull(text, NULL, 10);
        if (value <= NUMBER_MAX) {
            *ret_number = (uint32_t)value;
            return 0;
        }
    }
    error_set(err, -SCRY_E_USAGE, "%s '%s' is not a number from 0 to %d", option, text, NUMBER_MAX);
    error_hint(err, "give a whole number, for example %s 10", option);
    return -SCRY_E_USAGE;
}

/* "10s", "5m", "1h": what the user may have meant in seconds; 0 if it is nothing of the kind. */
static double with_unit(const char *text)
{
    char number[32];
    size_t len = strspn(text, DIGITS ".");
    if (len == 0 || len >= sizeof(number))
        return 0;
    memcpy(number, text, len);
    number[len] = '\0';
    if (!is_plain_decimal(number))
        return 0;
    static const struct {
        const char *unit;
        double seconds;
    } units[] = {{"s", 1},        {"sec", 1},  {"seconds", 1},  {"m", 60},      {"min", 60},
                 {"minutes", 60}, {"h", 3600}, {"hours", 3600}, {"ms", 1.0e-3}, {"us", 1.0e-6}};
    for (size_t i = 0; i < ARRAY_LEN(units); i++)
        if (strcasecmp(text + len, units[i].unit) == 0)
            return strtod(number, NULL) * units[i].seconds;
    return 0;
}

int value_duration(const char *text, const char *option, scry_nsec *ret_duration, struct error *err)
{
    if (strcasecmp(text, "unlimited") == 0) {
        *ret_duration = 0;
        return 0;
    }
    const char *remedy = "give seconds, for example %s 10 or %s 0.5, or the word unlimited";
    if (is_plain_decimal(text)) {
        double value = strtod(text, NULL);
        if (value >= 1.0e-9 && value <= DURATION_MAX_SECONDS) {
            *ret_duration = (scry_nsec)(value * (double)SCRY_NSEC_PER_SEC);
            return 0;
        }
        error_set(err, -SCRY_E_USAGE, "%s %s: a recording of %s seconds is not possible", option,
                  text, text);
    } else if (is_negative(text)) {
        error_set(err, -SCRY_E_USAGE, "%s %s: a duration is not negative", option, text);
    } else {
        error_set(err, -SCRY_E_USAGE, "%s '%s' is not a number of seconds", option, text);
        if (with_unit(text) > 0) {
            error_hint(err, "write it in seconds without a unit: %s %g", option, with_unit(text));
            return -SCRY_E_USAGE;
        }
    }
    error_hint(err, remedy, option, option);
    return -SCRY_E_USAGE;
}

int value_choice(const char *text, const char *option, const char *const *choices, int *ret_index,
                 struct error *err)
{
    SCOPED_BUF list;
    buf_init(&list);
    for (int i = 0; choices[i]; i++) {
        if (strcasecmp(text, choices[i]) == 0) {
            *ret_index = i;
            return 0;
        }
        buf_addf(&list, "%s%s", i ? ", " : "", choices[i]);
    }
    const char *near = nearest_name(text, choices);
    error_set(err, -SCRY_E_USAGE, "%s '%s' is unknown", option, text);
    if (near)
        error_hint(err, "did you mean %s? choose from: %s", near, list.data);
    else
        error_hint(err, "choose from: %s", list.data);
    return -SCRY_E_USAGE;
}

int value_format(const char *text, const char *option, const struct format **ret_format,
                 struct error *err)
{
    const char *names[CHOICES_MAX + 1];
    size_t count = 0;
    while (count < CHOICES_MAX && formats[count].name) {
        names[count] = formats[count].name;
        count++;
    }
    names[count] = NULL;
    int index;
    int r = value_choice(text, option, names, &index, err);
    if (r == 0)
        *ret_format = &formats[index];
    return r;
}

#define NEAR_MAX 40

/* Edits between two words: insert, delete, replace. */
static size_t distance(const char *a, const char *b)
{
    size_t la = strlen(a), lb = strlen(b);
    if (la >= NEAR_MAX || lb >= NEAR_MAX)
        return NEAR_MAX;
    size_t row[NEAR_MAX + 1];
    for (size_t j = 0; j <= lb; j++)
        row[j] = j;
    for (size_t i = 1; i <= la; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= lb; j++) {
            size_t best = diagonal + (a[i - 1] != b[j - 1]);
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            diagonal = row[j];
            row[j] = best;
        }
    }
    return row[lb];
}

const char *nearest_name(const char *typed, const char *const *names)
{
    const char *best = NULL;
    size_t len = strlen(typed);
    size_t best_distance = len / 3 + 1;
    for (size_t i = 0; names[i]; i++) {
        size_t d = distance(typed, names[i]);
        /* A word cut short is near whatever is missing: --sub for --subprocesses. */
        if (len >= 3 && strncmp(typed, names[i], len) == 0)
            d = 1;
        if (d < best_distance || (!best && d == best_distance && d < len)) {
            best = names[i];
            best_distance = d;
        }
    }
    return best;
}
