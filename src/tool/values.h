/* Values of options: text to number, with an error that names the text, the option and the remedy.
 * `option` is how the user wrote the option: "-r" or "--rate". */
#ifndef SCRY_TOOL_VALUES_H
#define SCRY_TOOL_VALUES_H

#include "format/format.h"
#include "util/error.h"
#include "util/types.h"

int value_pid(const char *text, const char *option, pid_t *ret_pid, struct error *err);
int value_rate(const char *text, const char *option, double *ret_rate, struct error *err);
/* "1" and "1%" are 0.01. */
int value_percent(const char *text, const char *option, double *ret_share, struct error *err);
int value_duration(const char *text, const char *option, scry_nsec *ret_duration,
                   struct error *err);
/* A signal that scry can be told something by. */
int value_signal(const char *text, const char *option, int *ret_signal, struct error *err);
/* Such a signal as kill takes it, without SIG. */
void value_signal_text(int signal, char *to, size_t cap);
int value_number(const char *text, const char *option, uint32_t *ret_number, struct error *err);
/* The index of `text` in a list that ends with NULL, without regard to case. */
int value_choice(const char *text, const char *option, const char *const *choices, int *ret_index,
                 struct error *err);

int value_format(const char *text, const char *option, const struct format **ret_format,
                 struct error *err);

/* The name nearest to what was typed, if it is near enough to have been meant; else NULL. */
const char *nearest_name(const char *typed, const char *const *names);

#endif
