/* Python objects in the target: strings, numbers, containers, attributes, and their repr.
 * Everything is bounded: lengths, depths, counts; a broken object costs its own text and nothing
 * else. */
#ifndef SCRY_CPYTHON_OBJECT_H
#define SCRY_CPYTHON_OBJECT_H

#include "access/mem.h"
#include "cpython/layout.h"
#include "util/buf.h"

/* What is needed to read objects; cheap to copy. */
struct py_view {
    struct mem *mem;
    const struct layout *layout;
};

/* Append the text of a str (3.x) or str/unicode (2.7) as UTF-8; at most max_chars characters, then
 * cut. Lone surrogates become U+FFFD. */
int py_str_read(const struct py_view *v, scry_addr str, size_t max_chars, struct buf *to);
/* Append the raw bytes of a bytes object. Fails with CORRUPT when longer than max. */
int py_bytes_read(const struct py_view *v, scry_addr bytes, size_t max, struct buf *to);
int py_long_read(const struct py_view *v, scry_addr obj, int64_t *ret_value);
/* The name of an object's type, e.g. "int". */
int py_type_name(const struct py_view *v, scry_addr obj, char *to, size_t cap);
int py_tuple_item(const struct py_view *v, scry_addr tuple, size_t index, scry_addr *ret_item);
int py_tuple_size(const struct py_view *v, scry_addr tuple, size_t *ret_size);

/* Calls back for each entry until it returns non-zero, which is then returned; at most `max`
 * entries. */
typedef int (*py_dict_callback)(scry_addr key, scry_addr value, void *context);
int py_dict_each(const struct py_view *v, scry_addr dict, size_t max, py_dict_callback callback,
                 void *context);
/* The value under a str key. -SCRY_E_READ and so on, or 1 when there is no such key. */
int py_dict_get_str(const struct py_view *v, scry_addr dict, const char *key, scry_addr *ret_value);
/* An attribute from the instance's own storage (dict or inline values). 1 when there is none. */
int py_instance_attr(const struct py_view *v, scry_addr obj, const char *name,
                     scry_addr *ret_value);

/* Append what repr() would say, for the built-in types: None, bool, int (any size), float (shortest
 * form, as Python), complex, str, bytes, bytearray, list, tuple, dict, set, frozenset, range,
 * slice, functions, modules, types, exceptions, enumerations, named tuples, dataclasses, dates,
 * deque, OrderedDict, defaultdict; for numpy's scalars the number; otherwise <MODULE.TYPE object at
 * 0xADDRESS>. A class that derives from a built-in one is shown like that, since its own __repr__
 * cannot be run. At most about `budget` characters, cut with "..."; never fails: what cannot be
 * read is "?". */
void py_repr(const struct py_view *v, scry_addr obj, size_t budget, struct buf *to);

/* The names that `threading` gave its threads, for one interpreter: calls back with the pthread id
 * and the name. 1 when `threading` is not imported there. */
typedef void (*py_thread_name_callback)(uint64_t thread_id, const char *name, void *context);
int py_thread_names(const struct py_view *v, scry_addr interp, py_thread_name_callback callback,
                    void *context);

#endif
