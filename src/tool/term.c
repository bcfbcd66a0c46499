#include "tool/term.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static bool is_set(const char *name)
{
    const char *value = getenv(name);
    return value && *value;
}

bool term_has_colours(FILE *stream)
{
    if (is_set("NO_COLOR"))
        return false;
    if (is_set("CLICOLOR_FORCE") && strcmp(getenv("CLICOLOR_FORCE"), "0") != 0)
        return true;
    if (is_set("CLICOLOR") && strcmp(getenv("CLICOLOR"), "0") == 0)
        return false;
    const char *kind = getenv("TERM");
    return isatty(fileno(stream)) && kind && *kind && strcmp(kind, "dumb") != 0;
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
    static const struct style plain = {"", "", "", "", "", "", ""};
    static const struct style coloured = {
        .heading = "\033[1;33m",
        .literal = "\033[32m",
        .number = "\033[1;33m",
        .function = "\033[32m",
        .file = "\033[36m",
        .dim = "\033[2m",
        .end = "\033[0m",
    };
    return colours ? &coloured : &plain;
}
