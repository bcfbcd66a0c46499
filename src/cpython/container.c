/* tuple and dict. A dict's keys are a table of their own: a header, an index that scry does not
 * need, and the entries in order of insertion. Dicts of instances may share keys and have only
 * values of their own. */
#include "cpython/remote.h"

/* No dict is looked through further than this: a hostile one could claim a terabyte of zeros. */
#define MAX_VISITED    (1ULL << 20)
#define MAX_LOG2_SIZE  40
#define ENTRY_GENERAL  24 /* hash, key, value */
#define ENTRY_STR_KEYS 16
#define WORD           8

int py_tuple_size(const struct py_view *v, scry_addr tuple, size_t *ret_size)
{
    uint64_t size;
    int rc = mem_read_u64(v->mem, tuple + v->layout->var_size, &size);
    if (rc != 0)
        return rc;
    if (size > 1ULL << MAX_LOG2_SIZE)
        return -SCRY_E_CORRUPT;
    *ret_size = size;
    return 0;
}

int py_tuple_item(const struct py_view *v, scry_addr tuple, size_t index, scry_addr *ret_item)
{
    size_t size;
    int rc = py_tuple_size(v, tuple, &size);
    if (rc != 0)
        return rc;
    if (index >= size)
        return -SCRY_E_CORRUPT;
    return mem_read_u64(v->mem, tuple + v->layout->tuple_item + index * WORD, ret_item);
}

/* The header of the keys, for one of the two shapes. */
static int keys_up_to_310(struct dict_cursor *c, const struct remote *keys)
{
    const struct layout *l = c->v->layout;
    uint64_t size;
    int rc = remote_u64(keys, l->dk_size, &size);
    if (rc != 0)
        return rc;
    if (size > 1ULL << MAX_LOG2_SIZE || (size & (size - 1)) != 0)
        return -SCRY_E_CORRUPT;
    uint64_t width = size <= 0xff ? 1 : size <= 0xffff ? 2 : size <= 0xffffffff ? 4 : 8;
    c->entries = keys->addr + l->dk_indices + size * width;
    c->entry_size = ENTRY_GENERAL;
    return c->left > size ? -SCRY_E_CORRUPT : 0;
}

static int keys_since_311(struct dict_cursor *c, const struct remote *keys)
{
    const struct layout *l = c->v->layout;
    if (l->dk_log2_size < 0 || (size_t)l->dk_kind >= keys->len ||
        (size_t)l->dk_log2_index_bytes >= keys->len || (size_t)l->dk_log2_size >= keys->len)
        return -SCRY_E_READ;
    uint8_t log2_size = keys->bytes[l->dk_log2_size];
    uint8_t log2_index = keys->bytes[l->dk_log2_index_bytes];
    if (log2_size > MAX_LOG2_SIZE || log2_index > MAX_LOG2_SIZE + 3)
        return -SCRY_E_CORRUPT;
    c->entries = keys->addr + l->dk_indices + (1ULL << log2_index);
    c->entry_size = keys->bytes[l->dk_kind] ? ENTRY_STR_KEYS : ENTRY_GENERAL;
    return c->left > 1ULL << log2_size ? -SCRY_E_CORRUPT : 0;
}

static int open_keys(struct dict_cursor *c, scry_addr keys_addr)
{
    const struct layout *l = c->v->layout;
    struct remote keys;
    int rc = remote_load(c->v, keys_addr, &keys);
    if (rc == 0)
        rc = remote_u64(&keys, l->dk_nentries, &c->left);
    if (rc == 0)
        rc = l->dk_size != LAYOUT_NONE ? keys_up_to_310(c, &keys) : keys_since_311(c, &keys);
    c->key_at = c->entry_size == ENTRY_GENERAL ? WORD : 0;
    if (c->left > MAX_VISITED)
        c->left = MAX_VISITED;
    return rc;
}

static void cursor_reset(struct dict_cursor *c, const struct py_view *v)
{
    c->v = v;
    c->entries = c->values = 0;
    c->left = 0;
    c->entry_size = ENTRY_GENERAL;
    c->key_at = WORD;
    c->count = c->next = 0;
}

static int open_table_27(struct dict_cursor *c, const struct remote *dict)
{
    uint64_t mask;
    int rc = remote_u64(dict, c->v->layout->dict_mask, &mask);
    if (rc == 0)
        rc = remote_u64(dict, c->v->layout->dict_table, &c->entries);
    if (rc == 0 && mask >= 1ULL << MAX_LOG2_SIZE)
        rc = -SCRY_E_CORRUPT;
    c->left = mask < MAX_VISITED ? mask + 1 : MAX_VISITED;
    return rc;
}

int dict_cursor_init(struct dict_cursor *c, const struct py_view *v, scry_addr dict_addr)
{
    const struct layout *l = v->layout;
    struct remote dict;
    uint64_t keys, values;
    cursor_reset(c, v);
    int rc = remote_load(v, dict_addr, &dict);
    if (rc == 0 && l->dict_table != LAYOUT_NONE)
        return open_table_27(c, &dict);
    if (rc == 0)
        rc = remote_u64(&dict, l->dict_keys, &keys);
    if (rc == 0)
        rc = remote_u64(&dict, l->dict_values, &values);
    if (rc != 0)
        return rc;
    return values ? dict_cursor_init_values(c, v, keys, values) : open_keys(c, keys);
}

int dict_cursor_init_values(struct dict_cursor *c, const struct py_view *v, scry_addr keys,
                            scry_addr values)
{
    cursor_reset(c, v);
    int rc = open_keys(c, keys);
    c->values = values + (v->layout->dv_values != LAYOUT_NONE ? v->layout->dv_values : 0);
    return rc;
}

static int fetch(struct dict_cursor *c)
{
    unsigned char entries[DICT_CHUNK * ENTRY_GENERAL];
    uint64_t values[DICT_CHUNK];
    int count = c->left < DICT_CHUNK ? (int)c->left : DICT_CHUNK;
    struct mem_range ranges[] = {
        {c->entries, entries, (size_t)count * c->entry_size},
        {c->values, values, (size_t)count * WORD},
    };
    int wanted = c->values ? 2 : 1;
    int got = mem_readv(c->v->mem, ranges, wanted);
    if (got < wanted)
        return got < 0 ? got : -SCRY_E_READ;
    for (int i = 0; i < count; i++) {
        const unsigned char *entry = entries + (size_t)i * c->entry_size + c->key_at;
        memcpy(&c->item[i].key, entry, WORD);
        if (c->values)
            c->item[i].value = values[i];
        else
            memcpy(&c->item[i].value, entry + WORD, WORD);
    }
    c->entries += (uint64_t)count * c->entry_size;
    if (c->values)
        c->values += (uint64_t)count * WORD;
    c->left -= (uint64_t)count;
    c->count = count;
    c->next = 0;
    return 0;
}

int dict_cursor_next(struct dict_cursor *c, scry_addr *ret_key, scry_addr *ret_value)
{
    for (;;) {
        while (c->next < c->count) {
            int i = c->next++;
            if (!c->item[i].key || !c->item[i].value)
                continue; /* deleted, or not set in this instance */
            *ret_key = c->item[i].key;
            *ret_value = c->item[i].value;
            return 1;
        }
        if (c->left == 0)
            return 0;
        int rc = fetch(c);
        if (rc != 0)
            return rc;
    }
}

int py_dict_each(const struct py_view *v, scry_addr dict, size_t max, py_dict_callback callback,
                 void *context)
{
    struct dict_cursor c;
    scry_addr key = 0, value = 0;
    int rc = dict_cursor_init(&c, v, dict);
    if (rc != 0)
        return rc;
    for (size_t i = 0; i < max; i++) {
        rc = dict_cursor_next(&c, &key, &value);
        if (rc <= 0)
            return rc;
        rc = callback(key, value, context);
        if (rc != 0)
            return rc;
    }
    return 0;
}

struct comparison {
    const char *text;
    size_t at, len;
};

static int compare_character(uint32_t character, void *context)
{
    struct comparison *c = context;
    if (c->at >= c->len || character != (unsigned char)c->text[c->at])
        return 1;
    c->at++;
    return 0;
}

bool remote_is_str(const struct py_view *v, const struct remote *r, const char *text)
{
    struct remote_str s;
    struct comparison c = {text, 0, strlen(text)};
    if (remote_str(v, r, &s) < 0 || s.length != c.len)
        return false;
    uint64_t offset = s.data - r->addr;
    if (s.unit == 1 && s.data > r->addr && offset + c.len <= r->len)
        return memcmp(r->bytes + offset, text, c.len) == 0;
    return remote_str_each(v, &s, c.len, compare_character, &c) == 0 && c.at == c.len;
}

/* Read the keys of a fetched chunk, all in one call as long as none of them fails. */
static int load_keys(const struct dict_cursor *c, struct remote *keys)
{
    struct mem_range ranges[DICT_CHUNK];
    int index[DICT_CHUNK] = {0}, count = 0;
    for (int i = 0; i < c->count; i++) {
        keys[i].len = 0;
        if (!c->item[i].key || !c->item[i].value)
            continue;
        keys[i].addr = c->item[i].key;
        ranges[count] = (struct mem_range){keys[i].addr, keys[i].bytes, REMOTE_WINDOW};
        index[count++] = i;
    }
    for (int done = 0; done < count; done++) {
        int got = mem_readv(c->v->mem, ranges + done, count - done);
        if (got < 0)
            return got;
        for (int i = 0; i < got; i++)
            keys[index[done + i]].len = REMOTE_WINDOW;
        done += got;
        /* One that stands at the end of its mapping; what fails here too stays empty. */
        if (done < count && remote_load(c->v, ranges[done].addr, &keys[index[done]]) < 0)
            keys[index[done]].len = 0;
    }
    return 0;
}

int dict_cursor_find(struct dict_cursor *c, const char *key, scry_addr *ret_value)
{
    struct remote keys[DICT_CHUNK];
    while (c->left > 0) {
        int rc = fetch(c);
        if (rc == 0)
            rc = load_keys(c, keys);
        if (rc != 0)
            return rc;
        for (int i = 0; i < c->count; i++) {
            if (keys[i].len && remote_is_str(c->v, &keys[i], key)) {
                *ret_value = c->item[i].value;
                return 0;
            }
        }
    }
    return 1;
}

int py_dict_get_str(const struct py_view *v, scry_addr dict, const char *key, scry_addr *ret_value)
{
    struct dict_cursor c;
    int rc = dict_cursor_init(&c, v, dict);
    return rc != 0 ? rc : dict_cursor_find(&c, key, ret_value);
}
