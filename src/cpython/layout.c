/* The rows of layout_tables.inc and the choice among them. */
#include "cpython/layout.h"

#include "util/types.h"

static const struct layout rows[] = {
#include "cpython/layout_tables.inc"
};

/* From here on the target publishes its own offsets, and rows are only a base. */
#define FIRST_PUBLISHING_MINOR 13

const struct layout *layout_rows(size_t *ret_count)
{
    *ret_count = ARRAY_LEN(rows);
    return rows;
}

static bool publishes(uint8_t major, uint8_t minor)
{
    return major == 3 && minor >= FIRST_PUBLISHING_MINOR;
}

/* The last row that is not newer than this version. */
static const struct layout *find(struct py_version version, bool free_threaded, bool debug)
{
    const struct layout *best = NULL;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const struct layout *row = &rows[i];
        if (row->major != version.major || row->free_threaded != free_threaded ||
            row->debug != debug || row->minor > version.minor)
            continue;
        if (row->minor == version.minor && row->first_micro > version.micro)
            continue;
        best = row;
    }
    return best;
}

const struct layout *layout_for(struct py_version version, bool free_threaded, bool debug)
{
    const struct layout *row = find(version, free_threaded, debug);
    if (debug && (!row || row->minor != version.minor))
        row = find(version, free_threaded, false);
    if (!row)
        return NULL;
    if (row->minor == version.minor)
        return row;
    return publishes(row->major, row->minor) ? row : NULL;
}
