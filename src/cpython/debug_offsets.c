/* The table has no size and no version of its own shape: CPython's version decides where its
 * members are. For versions that scry does not know there is one hint: _PyRuntime holds 48 bytes of
 * other things between the table's end and interpreters.head, in every version so far, so a head
 * offset that fits the newest known shape says that the shape is still the same. */
#include "cpython/debug_offsets.h"

#include <inttypes.h>
#include <string.h>

#define BYTES_BEFORE_HEAD 48
#define MAX_TABLE         1024
#define MAX_STRUCT_SIZE   (1 << 20)
#define COOKIE_LEN        8
#define VERSION_AT        8
#define FREE_THREADED_AT  16
#define FINAL_RELEASE     0xf

enum position {
#define S(group)                POS_##group##_size,
#define D(group, member, field) POS_##group##_##member,
#define O(group, member, field) POS_##group##_##member,
#define X(group, member)        POS_##group##_##member,
#include "cpython/debug_offsets_fields.def"
#undef S
#undef D
#undef O
#undef X
    POS_COUNT
};

struct shape {
    uint8_t minor;
    uint16_t size;
    uint16_t at[POS_COUNT]; /* 0: this version does not publish it */
};

static const struct shape shapes[] = {
#include "cpython/debug_offsets_tables.inc"
};

#define NO_FIELD SIZE_MAX

/* What becomes of each value. A structure's size has its own position as its `bound`. */
static const struct rule {
    const char *name;
    size_t field;        /* in struct layout, or NO_FIELD */
    enum position bound; /* the size that this offset must stay below */
    bool optional;       /* 0 means that this build does not have it */
} rules[POS_COUNT] = {
#define RULE(group, member, field, optional)                                                       \
    [POS_##group##_##member] = {#group "." #member, field, POS_##group##_size, optional},
#define S(group)                RULE(group, size, NO_FIELD, false)
#define D(group, member, field) RULE(group, member, offsetof(struct layout, field), false)
#define O(group, member, field) RULE(group, member, offsetof(struct layout, field), true)
#define X(group, member)        RULE(group, member, NO_FIELD, false)
#include "cpython/debug_offsets_fields.def"
#undef RULE
#undef S
#undef D
#undef O
#undef X
};

struct published {
    unsigned char bytes[MAX_TABLE];
    const struct shape *shape;
    struct py_version version;
    bool free_threaded;
    uint64_t value[POS_COUNT];
};

static uint64_t word_at(const struct published *p, size_t at)
{
    uint64_t value;
    memcpy(&value, p->bytes + at, sizeof(value));
    return value;
}

struct py_version debug_offsets_version(uint64_t hex)
{
    return (struct py_version){
        .major = hex >> 24,
        .minor = hex >> 16,
        .micro = hex >> 8,
        .level = hex >> 4 & 0xf,
        .serial = hex & 0xf,
    };
}

static int read_head(struct mem *mem, scry_addr runtime, struct published *p, struct error *err)
{
    /* The known shapes are shorter than this, and _PyRuntime goes on for longer than that. */
    int rc = mem_read(mem, runtime, p->bytes, sizeof(p->bytes));
    if (rc < 0)
        return error_set(err, rc, "_PyRuntime at 0x%" PRIx64 " cannot be read", runtime);
    uint64_t hex = word_at(p, VERSION_AT), free_threaded = word_at(p, FREE_THREADED_AT);
    if (memcmp(p->bytes, DEBUG_OFFSETS_COOKIE, COOKIE_LEN) != 0)
        return error_set(err, -SCRY_E_CORRUPT,
                         "_PyRuntime at 0x%" PRIx64 " has no table of offsets", runtime);
    if (hex > UINT32_MAX || free_threaded > 1)
        return error_set(err, -SCRY_E_CORRUPT,
                         "the table of offsets in _PyRuntime names no version (0x%" PRIx64 ")",
                         hex);
    p->version = debug_offsets_version(hex);
    p->free_threaded = free_threaded;
    return 0;
}

static const struct shape *shape_of_version(const struct py_version *version)
{
    const struct shape *newest = &shapes[ARRAY_LEN(shapes) - 1];
    if (version->major != 3)
        return NULL;
    for (size_t i = 0; i < ARRAY_LEN(shapes); i++)
        if (shapes[i].minor == version->minor)
            return &shapes[i];
    return version->minor > newest->minor ? newest : NULL;
}

static bool is_known_release(const struct published *p, const struct shape *shape)
{
    return shape->minor == p->version.minor && p->version.level == FINAL_RELEASE;
}

/* A release of a known minor version has the shape of that version; pre-releases and newer versions
 * must show that they have it. */
static int choose_shape(struct published *p, struct error *err)
{
    const struct shape *shape = shape_of_version(&p->version);
    if (!shape)
        return error_set(err, -SCRY_E_UNSUPPORTED,
                         "CPython %d.%d publishes offsets in an unknown way", p->version.major,
                         p->version.minor);
    uint64_t head = word_at(p, shape->at[POS_runtime_state_interpreters_head]);
    if (!is_known_release(p, shape) && head != (uint64_t)shape->size + BYTES_BEFORE_HEAD)
        return error_set(err, -SCRY_E_UNSUPPORTED,
                         "CPython %d.%d.%d%s publishes its offsets in a table of %" PRId64
                         " bytes, unlike 3.%d (%d bytes)",
                         p->version.major, p->version.minor, p->version.micro,
                         p->version.level == FINAL_RELEASE ? "" : " (pre-release)",
                         (int64_t)head - BYTES_BEFORE_HEAD, shape->minor, shape->size);
    p->shape = shape;
    return 0;
}

static bool has(const struct published *p, enum position pos)
{
    return p->shape->at[pos] != 0;
}

static int check_values(struct published *p, struct error *err)
{
    for (int i = 0; i < POS_COUNT; i++)
        p->value[i] = has(p, i) ? word_at(p, p->shape->at[i]) : 0;
    for (int i = 0; i < POS_COUNT; i++) {
        bool is_size = rules[i].bound == (enum position)i;
        uint64_t limit = is_size ? MAX_STRUCT_SIZE : p->value[rules[i].bound];
        if (has(p, i) && (p->value[i] >= limit || (is_size && p->value[i] == 0)))
            return error_set(err, -SCRY_E_CORRUPT,
                             "the published offset %s of CPython %d.%d is %" PRIu64
                             ", which cannot be",
                             rules[i].name, p->version.major, p->version.minor, p->value[i]);
    }
    if (p->value[POS_pyobject_size] != (p->free_threaded ? 32 : 16))
        return error_set(err, -SCRY_E_UNSUPPORTED,
                         "objects of this CPython %d.%d have a header of %" PRIu64 " bytes",
                         p->version.major, p->version.minor, p->value[POS_pyobject_size]);
    return 0;
}

static void copy_fields(const struct published *p, struct layout *layout)
{
    for (int i = 0; i < POS_COUNT; i++) {
        if (!has(p, i) || rules[i].field == NO_FIELD)
            continue;
        int32_t *field = (int32_t *)((char *)layout + rules[i].field);
        bool absent = rules[i].optional && p->value[i] == 0;
        *field = absent ? LAYOUT_NONE : (int32_t)p->value[i];
    }
}

/* What is not published, comes from another version's headers, and would not be noticed if it were wrong. */
static void forget_unsure_fields(struct layout *layout)
{
    layout->co_version = LAYOUT_NONE;
    if (layout->counts_births)
        layout->is_code_object_generation = LAYOUT_NONE;
}

/* What follows from published values without being one. */
static int derive_fields(const struct published *p, struct layout *layout)
{
    const uint64_t *value = p->value;
    uint64_t gil = value[POS_interpreter_state_gil_runtime_state];
    uint64_t locked = value[POS_interpreter_state_gil_runtime_state_locked];
    uint64_t holder = value[POS_interpreter_state_gil_runtime_state_holder];
    if (locked < gil || holder < gil)
        return -SCRY_E_CORRUPT;
    /* The interpreter's pointer leads to the GIL, which may lie in another interpreter: hence
     * relative. */
    layout->gil_locked = (int32_t)(locked - gil);
    layout->gil_last_holder = (int32_t)(holder - gil);
    layout->is_gc_collecting =
        (int32_t)(value[POS_interpreter_state_gc] + value[POS_gc_collecting]);
    layout->rt_size = (int32_t)value[POS_runtime_state_size];
    layout->is_size = (int32_t)value[POS_interpreter_state_size];
    layout->ts_size = (int32_t)value[POS_thread_state_size];
    layout->if_size = (int32_t)value[POS_interpreter_frame_size];
    layout->co_size = (int32_t)value[POS_code_object_size];
    layout->ob_size = (int32_t)value[POS_pyobject_size];
    layout->ts_datastack_top = layout->ts_datastack_chunk + 8;
    layout->ts_datastack_limit = layout->ts_datastack_chunk + 16;
    return 0;
}

int debug_offsets_read(struct mem *mem, scry_addr runtime, struct layout *ret_layout,
                       struct py_version *ret_version, bool *ret_free_threaded, struct error *err)
{
    struct published p;
    int rc = read_head(mem, runtime, &p, err);
    if (rc == 0)
        rc = choose_shape(&p, err);
    if (rc == 0)
        rc = check_values(&p, err);
    if (rc != 0)
        return rc;
    const struct layout *row = layout_for(p.version, p.free_threaded, false);
    if (!row)
        return error_set(err, -SCRY_E_UNSUPPORTED, "there is no table for CPython %d.%d%s",
                         p.version.major, p.version.minor, p.free_threaded ? "t" : "");
    struct layout layout = *row;
    copy_fields(&p, &layout);
    rc = derive_fields(&p, &layout);
    if (rc < 0)
        return error_set(err, rc, "the published offsets of the GIL contradict each other");
    if (!is_known_release(&p, p.shape) || row->minor != p.version.minor)
        forget_unsure_fields(&layout);
    layout.major = p.version.major;
    layout.minor = p.version.minor;
    *ret_layout = layout;
    *ret_version = p.version;
    *ret_free_threaded = p.free_threaded;
    return 0;
}
