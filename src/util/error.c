#include "util/error.h"

#include <stdarg.h>
#include <stdio.h>

static const struct {
    const char *symbol;
    const char *sentence;
    const char *hint;
    int status;
} errors[] = {
    {"OK", "no error", "", 0},
#define E(symbol, sentence, hint, status) {#symbol, sentence, hint, status},
#include "util/errors.def"
#undef E
};

/* The table and the public list of codes are the same list. */
enum {
    TABLE_OK,
#define E(symbol, sentence, hint, status) TABLE_##symbol,
#include "util/errors.def"
#undef E
    TABLE_COUNT
};
#define E(symbol, sentence, hint, status)                                                          \
    _Static_assert((int)TABLE_##symbol == (int)SCRY_E_##symbol, "errors.def and scry.h differ");
#include "util/errors.def"
#undef E
_Static_assert((int)TABLE_COUNT == (int)SCRY_E_COUNT_, "errors.def and scry.h differ");

static int slot(int code)
{
    int n = code < 0 ? -code : code;
    return n < SCRY_E_COUNT_ ? n : SCRY_E_INTERNAL;
}

int error_set(struct error *err, int code, const char *format, ...)
{
    if (!err)
        return code;
    err->code = code;
    err->hint[0] = '\0';
    va_list args;
    va_start(args, format);
    vsnprintf(err->detail, sizeof(err->detail), format, args);
    va_end(args);
    return code;
}

void error_hint(struct error *err, const char *format, ...)
{
    if (!err)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(err->hint, sizeof(err->hint), format, args);
    va_end(args);
}

const char *error_sentence(int code)
{
    return errors[slot(code)].sentence;
}

const char *error_text(const struct error *err)
{
    return err->detail[0] ? err->detail : error_sentence(err->code);
}

const char *error_hint_text(const struct error *err)
{
    return err->hint[0] ? err->hint : errors[slot(err->code)].hint;
}

int error_exit_status(int code)
{
    return errors[slot(code)].status;
}

const char *error_symbol(int code)
{
    return errors[slot(code)].symbol;
}
