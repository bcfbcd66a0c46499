/* The files of the page, built into the program by embed_web.py. */
#ifndef SCRY_HTTP_ASSETS_H
#define SCRY_HTTP_ASSETS_H

#include "util/types.h"

struct asset {
    const char *path; /* "index.html", "assets/app-1a2b3c.js" */
    const char *type;
    const char *etag;   /* with its quotes */
    bool gzipped;       /* the data is */
    bool immutable;     /* its name holds a hash of it */
    size_t offset, len; /* in asset_data */
    size_t plain_len;
};

/* By path; ends with a row whose path is NULL. */
extern const struct asset assets[];
extern const unsigned char asset_data[];

#endif
