/* Objects are read by a window, not field by field: a call costs more than a hundred bytes. */
#include "cpython/remote.h"

#define PAGE 4096
/* Types are longer than other objects: everything up to the last field in one read. */
#define TYPE_WINDOW 1024

int remote_load(const struct py_view *v, scry_addr addr, struct remote *r)
{
    if (addr < PAGE || addr % 8 != 0)
        return -SCRY_E_CORRUPT;
    r->addr = addr;
    r->len = REMOTE_WINDOW;
    int rc = mem_read(v->mem, addr, r->bytes, r->len);
    size_t to_page_end = PAGE - addr % PAGE;
    if (rc == -SCRY_E_READ && to_page_end < REMOTE_WINDOW) {
        r->len = to_page_end;
        rc = mem_read(v->mem, addr, r->bytes, r->len);
    }
    return rc;
}

static int remote_get(const struct remote *r, int32_t offset, void *to, size_t size)
{
    if (offset < 0 || (size_t)offset + size > r->len)
        return -SCRY_E_READ;
    memcpy(to, r->bytes + offset, size);
    return 0;
}

int remote_u64(const struct remote *r, int32_t offset, uint64_t *ret_value)
{
    return remote_get(r, offset, ret_value, sizeof(*ret_value));
}

int remote_i64(const struct remote *r, int32_t offset, int64_t *ret_value)
{
    return remote_get(r, offset, ret_value, sizeof(*ret_value));
}

int remote_u32(const struct remote *r, int32_t offset, uint32_t *ret_value)
{
    return remote_get(r, offset, ret_value, sizeof(*ret_value));
}

/* A word of the type's copy; 0 for a field that this version does not have. */
static uint64_t type_word(const unsigned char *bytes, int32_t offset)
{
    uint64_t value = 0;
    if (offset >= 0 && (size_t)offset + sizeof(value) <= TYPE_WINDOW)
        memcpy(&value, bytes + offset, sizeof(value));
    return value;
}

int remote_type(const struct py_view *v, scry_addr type, struct remote_type *ret_type)
{
    const struct layout *l = v->layout;
    unsigned char bytes[TYPE_WINDOW] = {0};
    if (type < PAGE || type % 8 != 0)
        return -SCRY_E_CORRUPT;
    /* A type of C, without the fields of a class, may be the last thing in its mapping. */
    int rc = mem_read(v->mem, type, bytes, sizeof(bytes));
    if (rc == -SCRY_E_READ) {
        memset(bytes, 0, sizeof(bytes));
        rc = mem_read(v->mem, type, bytes, (size_t)l->tp_dictoffset + 8);
    }
    if (rc != 0)
        return rc;
    uint64_t flags = type_word(bytes, l->tp_flags);
    bool heap = flags & TYPE_HEAP;
    *ret_type = (struct remote_type){
        .addr = type,
        .name = type_word(bytes, l->tp_name),
        .flags = flags,
        .basic_size = (int64_t)type_word(bytes, l->tp_basicsize),
        .item_size = (int64_t)type_word(bytes, l->tp_itemsize),
        .dict_offset = (int64_t)type_word(bytes, l->tp_dictoffset),
        .dict = type_word(bytes, l->tp_dict),
        .cached_keys = heap ? type_word(bytes, l->ht_cached_keys) : 0,
        .qualname = heap ? type_word(bytes, l->ht_qualname) : 0,
    };
    return 0;
}

int remote_type_of(const struct py_view *v, const struct remote *r, struct remote_type *ret_type)
{
    uint64_t type;
    int rc = remote_u64(r, v->layout->ob_type, &type);
    return rc != 0 ? rc : remote_type(v, type, ret_type);
}

int py_type_name(const struct py_view *v, scry_addr obj, char *to, size_t cap)
{
    uint64_t type, name;
    int rc = mem_read_u64(v->mem, obj + v->layout->ob_type, &type);
    if (rc == 0)
        rc = mem_read_u64(v->mem, type + v->layout->tp_name, &name);
    char full[256];
    if (rc == 0)
        rc = mem_read_cstr(v->mem, name, full, sizeof(full));
    if (rc != 0)
        return rc;
    const char *dot = strrchr(full, '.');
    const char *last = dot ? dot + 1 : full;
    size_t len = strlen(last);
    if (cap == 0)
        return 0;
    len = len < cap - 1 ? len : cap - 1;
    memcpy(to, last, len);
    to[len] = '\0';
    return 0;
}
