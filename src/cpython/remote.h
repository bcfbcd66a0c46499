/* Inside cpython/: one read of the beginning of an object, then fields from the copy. Fields have
 * the layout's offsets; one that lies outside the copy, or that the version does not have, is an
 * error. */
#ifndef SCRY_CPYTHON_REMOTE_H
#define SCRY_CPYTHON_REMOTE_H

#include "cpython/object.h"

#include <string.h>

/* Enough for the header and the fields of everything but types. */
#define REMOTE_WINDOW 128

struct remote {
    scry_addr addr;
    size_t len; /* how much could be read */
    unsigned char bytes[REMOTE_WINDOW];
};

/* Type flags (tp_flags). */
#define TYPE_INLINE_VALUES (1UL << 2)  /* 3.13+ */
#define TYPE_MANAGED_DICT  (1UL << 4)  /* 3.11+ */
#define TYPE_HEAP          (1UL << 9)  /* made by a class statement */
#define TYPE_INT2          (1UL << 23) /* 2.7's int */
#define TYPE_LONG          (1UL << 24)
#define TYPE_LIST          (1UL << 25)
#define TYPE_TUPLE         (1UL << 26)
#define TYPE_BYTES         (1UL << 27)
#define TYPE_STR           (1UL << 28)
#define TYPE_DICT          (1UL << 29)
#define TYPE_EXCEPTION     (1UL << 30)
#define TYPE_TYPE          (1UL << 31)

/* Read the beginning of the object; shorter than the window where readable memory ends.
 * -SCRY_E_CORRUPT when there can be no object at such an address. */
int remote_load(const struct py_view *v, scry_addr addr, struct remote *r);
int remote_u64(const struct remote *r, int32_t offset, uint64_t *ret_value);
int remote_i64(const struct remote *r, int32_t offset, int64_t *ret_value);
int remote_u32(const struct remote *r, int32_t offset, uint32_t *ret_value);

/* What scry wants to know of a type, in one read. */
struct remote_type {
    scry_addr addr;
    scry_addr name; /* C string */
    uint64_t flags;
    int64_t basic_size, item_size, dict_offset;
    scry_addr dict;
    /* classes only, else 0 */
    scry_addr cached_keys, qualname;
};
int remote_type(const struct py_view *v, scry_addr type, struct remote_type *ret_type);
int remote_type_of(const struct py_view *v, const struct remote *r, struct remote_type *ret_type);

/* A cursor over a dict's entries, or over an instance's inline values; fetches many entries per
 * read. */
#define DICT_CHUNK 64
struct dict_cursor {
    const struct py_view *v;
    scry_addr entries;   /* next entry */
    scry_addr values;    /* next value of a split table; 0 = the entries hold them */
    uint64_t left;       /* entries not yet fetched */
    uint64_t entry_size; /* 16 or 24 */
    uint64_t key_at;     /* in the entry; the value follows it */
    struct {
        scry_addr key, value;
    } item[DICT_CHUNK];
    int count, next;
};
int dict_cursor_init(struct dict_cursor *c, const struct py_view *v, scry_addr dict);
/* The attributes that an instance keeps in itself: names from the type's shared keys. */
int dict_cursor_init_values(struct dict_cursor *c, const struct py_view *v, scry_addr keys,
                            scry_addr values);
/* 1 and an entry, 0 at the end, or an error. */
int dict_cursor_next(struct dict_cursor *c, scry_addr *ret_key, scry_addr *ret_value);
/* The value under this str; 1 when there is none. */
int dict_cursor_find(struct dict_cursor *c, const char *key, scry_addr *ret_value);

/* Where the characters of a str are. */
struct remote_str {
    scry_addr data;
    uint64_t length; /* in characters */
    uint8_t unit;    /* bytes per character */
    bool is_bytes;   /* 2.7's str: bytes in an unknown encoding, most often UTF-8 */
    bool is_utf16;   /* 2.7's unicode on a narrow build: surrogates come in pairs */
};
int remote_str(const struct py_view *v, const struct remote *r, struct remote_str *ret_str);
/* Whether this object is a str with this ASCII text; what cannot be read is not. */
bool remote_is_str(const struct py_view *v, const struct remote *r, const char *text);
/* Call back for each character, at most `max` of them; a non-zero answer ends it and is returned.
 */
typedef int (*remote_char_callback)(uint32_t character, void *context);
int remote_str_each(const struct py_view *v, const struct remote_str *s, uint64_t max,
                    remote_char_callback callback, void *context);

#endif
