#include <stdio.h>

#include "cpython/python.h"

static const char *level_text(uint8_t level)
{
    switch (level) {
    case 0xa:
        return "a";
    case 0xb:
        return "b";
    case 0xc:
        return "rc";
    default:
        return "";
    }
}

void py_version_text(const struct python *py, char *to, size_t cap)
{
    const struct py_version *v = &py->version;
    const char *level = level_text(v->level);
    char pre[16] = "";
    if (level[0])
        snprintf(pre, sizeof(pre), "%s%d", level, v->serial);
    char micro[8] = "";
    if (v->micro != PY_MICRO_UNKNOWN)
        snprintf(micro, sizeof(micro), ".%d", v->micro);
    snprintf(to, cap, "%d.%d%s%s%s", v->major, v->minor, micro, pre,
             py->layout.free_threaded ? "t" : "");
}
