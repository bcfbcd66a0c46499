/* The files of the page (web/dist), built into the program by web/embed.py. */
#ifndef SCRY_HTTP_PAGE_FILES_H
#define SCRY_HTTP_PAGE_FILES_H

#include <stddef.h>

struct page_file {
    const char *path; /* "index.html", "assets/index-1a2b3c.js" */
    const char *type; /* for Content-Type */
    const char *tag;  /* hash of the content, for ETag; without quotes */
    const unsigned char *gzip;
    size_t gzip_size;
    size_t size; /* unpacked */
};

/* Ends with a row whose path is NULL. */
extern const struct page_file page_files[];

#endif
