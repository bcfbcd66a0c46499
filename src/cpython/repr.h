/* Inside cpython/: the writing of reprs, shared by the files that know the types. */
#ifndef SCRY_CPYTHON_REPR_H
#define SCRY_CPYTHON_REPR_H

#include "cpython/remote.h"

#define REPR_MAX_DEPTH   16
#define REPR_TYPE_NAME   128
#define REPR_KNOWN_TYPES 16

struct repr;
struct repr_type;
typedef int (*repr_writer)(struct repr *r, const struct remote *obj, const struct repr_type *type);

struct repr_type {
    struct remote_type type;
    char name[REPR_TYPE_NAME]; /* tp_name: with its module for types of C, without for classes */
    repr_writer write;
};

struct repr {
    const struct py_view *v;
    struct buf *to;
    int64_t left; /* characters that may still be written; closing brackets may overdraw it */
    int depth;
    scry_addr ancestors[REPR_MAX_DEPTH];      /* containers being written */
    struct repr_type known[REPR_KNOWN_TYPES]; /* by address, direct mapped */
};

/* Text of ours or from the target's type names: cut with "..." where the budget ends. */
void repr_add(struct repr *r, const char *text);
void repr_add_len(struct repr *r, const char *text, size_t len);
/* Short text that is written whatever the budget: brackets, quotes. */
void repr_force(struct repr *r, const char *text);
/* Whether another item may be begun; writes "..." when not. */
bool repr_more(struct repr *r);

/* Any object. Never fails: what cannot be read is "?". */
void repr_object(struct repr *r, scry_addr obj);
/* A str without quotes, such as a name; "?" when it cannot be read. */
void repr_plain_str(struct repr *r, scry_addr str);
/* "module.Name" of a type. */
void repr_type_name(struct repr *r, const struct repr_type *type);
/* Whether this is a class made with Enum: a class of classes with one of two names tells. */
bool repr_is_enum(struct repr *r, const struct remote_type *type);
int repr_type_load(struct repr *r, scry_addr type, struct repr_type *ret_type);

/* Writers; a negative answer means that the object could not be read and nothing was written. */
int repr_int(struct repr *r, const struct remote *obj, const struct repr_type *type);
int repr_int2(struct repr *r, const struct remote *obj, const struct repr_type *type);
int repr_bool(struct repr *r, const struct remote *obj, const struct repr_type *type);
int repr_float(struct repr *r, const struct remote *obj, const struct repr_type *type);
int repr_complex(struct repr *r, const struct remote *obj, const struct repr_type *type);
int repr_numpy(struct repr *r, const struct remote *obj, const struct repr_type *type);

int repr_str(struct repr *r, const struct remote *obj, const struct repr_type *type);
int repr_bytes(struct repr *r, const struct remote *obj, const struct repr_type *type);
int repr_bytearray(struct repr *r, const struct remote *obj, const struct repr_type *type);

int repr_list(struct repr *r, const struct remote *obj, const struct repr_type *type);
int repr_tuple(struct repr *r, const struct remote *obj, const struct repr_type *type);
int repr_dict(struct repr *r, const struct remote *obj, const struct repr_type *type);
int repr_set(struct repr *r, const struct remote *obj, const struct repr_type *type);
int repr_range(struct repr *r, const struct remote *obj, const struct repr_type *type);
int repr_slice(struct repr *r, const struct remote *obj, const struct repr_type *type);

int repr_function(struct repr *r, const struct remote *obj, const struct repr_type *type);
int repr_method(struct repr *r, const struct remote *obj, const struct repr_type *type);
int repr_builtin(struct repr *r, const struct remote *obj, const struct repr_type *type);
int repr_generator(struct repr *r, const struct remote *obj, const struct repr_type *type);
int repr_module(struct repr *r, const struct remote *obj, const struct repr_type *type);
int repr_class(struct repr *r, const struct remote *obj, const struct repr_type *type);
int repr_exception(struct repr *r, const struct remote *obj, const struct repr_type *type);
int repr_dataclass(struct repr *r, const struct remote *obj, const struct repr_type *type);
int repr_ordered_dict(struct repr *r, const struct remote *obj, const struct repr_type *type);
int repr_default_dict(struct repr *r, const struct remote *obj, const struct repr_type *type);
int repr_deque(struct repr *r, const struct remote *obj, const struct repr_type *type);
int repr_date(struct repr *r, const struct remote *obj, const struct repr_type *type);
int repr_datetime(struct repr *r, const struct remote *obj, const struct repr_type *type);
int repr_time(struct repr *r, const struct remote *obj, const struct repr_type *type);
int repr_timedelta(struct repr *r, const struct remote *obj, const struct repr_type *type);
int repr_timezone(struct repr *r, const struct remote *obj, const struct repr_type *type);
int repr_enum(struct repr *r, const struct remote *obj, const struct repr_type *type);

#endif
