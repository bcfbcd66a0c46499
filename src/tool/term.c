#include "tool/term.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* The value of a variable; "" when it is not set. */
static const char *environment(const char *name)
{
    const char *value = getenv(name);
    return value ? value : "";
}

bool term_moves_cursor(void)
{
    const char *kind = environment("TERM");
    return *kind && strcmp(kind, "dumb") != 0;
}

bool term_has_colours(FILE *stream)
{
    const char *force = environment("CLICOLOR_FORCE");
    if (*environment("NO_COLOR"))
        return false;
    if (*force && strcmp(force, "0") != 0)
        return true;
    if (strcmp(environment("CLICOLOR"), "0") == 0)
        return false;
    return isatty(fileno(stream)) && term_moves_cursor();
}

int term_width(FILE *stream, int otherwise)
{
    struct winsize size;
    if (!isatty(fileno(stream)))
        return otherwise;
    if (ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col;
    return otherwise;
}

const struct style *term_style(bool colours)
{
    static const struct style plain = {"", "", "", "", "", "", "", "", ""};
    static const struct style coloured = {
        .heading = "\033[1;33m",
        .literal = "\033[32m",
        .number = "\033[1;33m",
        .function = "\033[32m",
        .file = "\033[36m",
        .dim = "\033[2m",
        .more = "\033[31m",
        .less = "\033[94m",
        .end = "\033[0m",
    };
    return colours ? &coloured : &plain;
}
