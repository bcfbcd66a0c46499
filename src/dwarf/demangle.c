#include "dwarf/demangle.h"

#include <ctype.h>
#include <libiberty/demangle.h>
#include <stdlib.h>
#include <string.h>

#define MAX_SYMBOL 8192 /* longer names are left as they are: nobody reads them */

/* Where the suffixes of clones begin: ".cold", ".isra.0", ".part.12", ".constprop.0.isra.3". */
static size_t length_without_suffix(const char *symbol)
{
    static const char *const suffixes[] = {".cold",       ".isra.",     ".part.",
                                           ".constprop.", ".lto_priv.", ".localalias",
                                           ".llvm.",      ".org.",      ".clone."};
    size_t len = strlen(symbol);
    for (size_t i = 0; i < ARRAY_LEN(suffixes); i++) {
        const char *at = strstr(symbol, suffixes[i]);
        if (at && at > symbol && (size_t)(at - symbol) < len)
            len = (size_t)(at - symbol);
    }
    return len;
}

char *demangle(const char *symbol)
{
    char *plain = strndup(symbol, length_without_suffix(symbol));
    if (!plain || strlen(plain) > MAX_SYMBOL || plain[0] != '_')
        return plain;
    char *name = cplus_demangle(plain, DMGL_AUTO);
    if (!name)
        return plain;
    free(plain);
    return name;
}

/* ---- Cython ---- */

/* Past "6module_", a name with its length in front; NULL when it is not one. */
static const char *skip_counted(const char *at)
{
    if (!isdigit((unsigned char)*at))
        return NULL;
    char *end;
    unsigned long len = strtoul(at, &end, 10);
    return len && len < strlen(end) && end[len] == '_' ? end + len + 1 : NULL;
}

/* Past the names of packages, module and class. In a wrapper's name a number is left in front of
 * its own: where there is none, the last part was not a class's but the number and half a name. */
static const char *skip_all_counted(const char *at, bool numbered)
{
    const char *before = at;
    for (const char *next; (next = skip_counted(at)); at = next)
        before = at;
    return numbered && !isdigit((unsigned char)*at) ? before : at;
}

/* Function bodies are numbered: "_3method" is the third of its class. */
static const char *skip_number(const char *at)
{
    const char *digits = at;
    while (isdigit((unsigned char)*digits))
        digits++;
    return digits > at && *digits && *digits != '_' ? digits : at;
}

char *cython_name(const char *symbol)
{
    static const char *const prefixes[] = {"__pyx_pw_", "__pyx_pf_", "__pyx_f_", "__pyx_gb_",
                                           "__pyx_mdef_"};
    for (size_t i = 0; i < ARRAY_LEN(prefixes); i++) {
        size_t len = strlen(prefixes[i]);
        if (strncmp(symbol, prefixes[i], len) != 0)
            continue;
        const char *name = skip_number(skip_all_counted(symbol + len, i == 0));
        return *name ? strndup(name, length_without_suffix(name)) : NULL;
    }
    return NULL;
}

bool cython_is_helper(const char *symbol)
{
    return strncmp(symbol, "__Pyx_", 6) == 0;
}
