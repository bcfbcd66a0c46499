/* A fake interpreter with threads and frames in fake memory, for any layout. */
#ifndef SCRY_TESTS_FAKE_THREAD_H
#define SCRY_TESTS_FAKE_THREAD_H

#include "cpython/python.h"
#include "fake_python.h"

struct fake_interp {
    struct fake f;
    struct python py;
    scry_addr interp;
    scry_addr code_type;
    scry_addr stack; /* the data stack's newest chunk */
    scry_addr stack_next;
    uint32_t code_births, code_deaths;
};

#define FAKE_CHUNK 16384

static inline bool fake_has_objects(const struct layout *l)
{
    return l->if_size == LAYOUT_NONE;
}

static inline uint64_t fake_generation(const struct fake_interp *i)
{
    return 1 + (i->f.l->counts_births ? i->code_births : i->code_deaths);
}

static inline void fake_count_codes(struct fake_interp *i)
{
    int32_t at = i->f.l->is_code_object_generation;
    if (at != LAYOUT_NONE)
        fake_u64(&i->f, i->interp + (scry_addr)at, fake_generation(i));
}

static inline void fake_interp_init(struct fake_interp *i, const struct layout *l)
{
    *i = (struct fake_interp){.f = fake_new(l)};
    i->py.layout = *l;
    i->py.view = (struct py_view){i->f.mem, &i->py.layout};
    code_cache_init(&i->py.codes, &i->py.view);
    i->interp = fake_zeros(&i->f, 400000);
    i->py.interp_head_at = fake_zeros(&i->f, 8);
    fake_u64(&i->f, i->py.interp_head_at, i->interp);
    i->code_type = fake_type(&i->f, "code", 0);
    i->stack = fake_zeros(&i->f, FAKE_CHUNK);
    fake_u64(&i->f, i->stack + 8, FAKE_CHUNK);
    i->stack_next = i->stack + 32;
    if (l->is_ceval_gil == LAYOUT_NONE) {
        i->py.tstate_current_at = fake_zeros(&i->f, 8);
    } else {
        fake_u64(&i->f, i->interp + (scry_addr)l->is_ceval_gil, fake_zeros(&i->f, 256));
    }
    fake_count_codes(i);
}

static inline void fake_interp_done(struct fake_interp *i)
{
    code_cache_done(&i->py.codes);
    walk_memory_free(i->py.walk);
    fake_done(&i->f);
}

/* A thread state in front of the others, without frames. */
static inline scry_addr fake_thread(struct fake_interp *i, uint64_t id)
{
    const struct layout *l = i->f.l;
    scry_addr ts = fake_zeros(&i->f, 2048), head;
    mem_read_u64(i->f.mem, i->interp + (scry_addr)l->is_threads_head, &head);
    fake_u64(&i->f, ts + (scry_addr)l->ts_next, head);
    fake_u64(&i->f, ts + (scry_addr)l->ts_interp, i->interp);
    fake_u64(&i->f, ts + (scry_addr)l->ts_thread_id, id);
    if (l->ts_native_thread_id != LAYOUT_NONE)
        fake_u64(&i->f, ts + (scry_addr)l->ts_native_thread_id, id & 0xffff);
    if (l->ts_datastack_chunk != LAYOUT_NONE) {
        fake_u64(&i->f, ts + (scry_addr)l->ts_datastack_chunk, i->stack);
        fake_u64(&i->f, ts + (scry_addr)l->ts_datastack_chunk + 8, i->stack_next);
    }
    if (l->cframe_current_frame != LAYOUT_NONE)
        fake_u64(&i->f, ts + (scry_addr)l->ts_cframe, fake_zeros(&i->f, 64));
    fake_u64(&i->f, i->interp + (scry_addr)l->is_threads_head, ts);
    return ts;
}

static inline scry_addr fake_raw_bytes(struct fake *f, const void *data, size_t len)
{
    scry_addr obj = fake_instance_of(f, "bytes", 1UL << 27);
    fake_u64(f, obj + (scry_addr)f->l->var_size, len);
    scry_addr at = obj + (scry_addr)(f->l->major == 2 ? f->l->str2_data : f->l->bytes_data);
    if (len)
        mem_fake_add(f->mem, at, data, len);
    return obj;
}

/* The code object has just been made: it has a number of its own, where they are numbered. */
static inline void fake_code_is_born(struct fake_interp *i, scry_addr code)
{
    i->code_births++;
    if (i->f.l->co_version != LAYOUT_NONE)
        fake_u32(&i->f, code + (scry_addr)i->f.l->co_version, i->code_births);
    fake_count_codes(i);
}

/* It dies, and another one that differs only in its name gets its address. */
static inline void fake_replace_code(struct fake_interp *i, scry_addr code, const char *name)
{
    fake_u64(&i->f, code + (scry_addr)i->f.l->co_name, fake_str(&i->f, name));
    i->code_deaths++;
    fake_code_is_born(i, code);
}

/* A function of 100 bytes of bytecode whose first instruction is at line `line`, the rest at the next line. */
static inline scry_addr fake_code(struct fake_interp *i, const char *file, const char *name,
                                  int line)
{
    static const unsigned char lnotab[] = {2, 1};
    static const unsigned char linetable[] = {2, 0, 98, 1};
    static const unsigned char locations[] = {0x80 | 10 << 3,     0, 0, 0x80 | 11 << 3 | 7, 0, 0,
                                              0x80 | 10 << 3 | 7, 0, 0, 0x80 | 10 << 3 | 7, 0, 0};
    struct fake *f = &i->f;
    const struct layout *l = f->l;
    scry_addr code = fake_object(f, i->code_type);
    fake_u64(f, code + (scry_addr)l->co_filename, fake_str(f, file));
    fake_u64(f, code + (scry_addr)l->co_name, fake_str(f, name));
    if (l->co_qualname != LAYOUT_NONE)
        fake_u64(f, code + (scry_addr)l->co_qualname, fake_str(f, name));
    fake_u32(f, code + (scry_addr)l->co_firstlineno, (uint32_t)line);
    scry_addr table;
    if (l->lines == LINES_LOCATIONS)
        table = fake_raw_bytes(f, locations, sizeof(locations));
    else if (l->lines == LINES_LINETABLE)
        table = fake_raw_bytes(f, linetable, sizeof(linetable));
    else
        table = fake_raw_bytes(f, lnotab, sizeof(lnotab));
    fake_u64(f, code + (scry_addr)l->co_linetable, table);
    if (l->co_code_adaptive != LAYOUT_NONE) {
        fake_u64(f, code + (scry_addr)l->var_size, 50);
    } else {
        unsigned char bytecode[100] = {0};
        fake_u64(f, code + (scry_addr)l->co_code, fake_raw_bytes(f, bytecode, sizeof(bytecode)));
    }
    fake_code_is_born(i, code);
    return code;
}

/* A frame that runs `code` at byte `offset`, called by `caller`. */
static inline scry_addr fake_frame(struct fake_interp *i, scry_addr code, int offset,
                                   scry_addr caller)
{
    struct fake *f = &i->f;
    const struct layout *l = f->l;
    if (fake_has_objects(l)) {
        scry_addr frame = fake_zeros(f, 512);
        fake_u64(f, frame + (scry_addr)l->fr_f_back, caller);
        fake_u64(f, frame + (scry_addr)l->fr_f_code, code);
        fake_u32(f, frame + (scry_addr)l->fr_f_lasti, (uint32_t)(offset / l->instr_unit));
        return frame;
    }
    scry_addr frame = i->stack_next;
    i->stack_next += 128;
    fake_u64(f, frame + (scry_addr)l->if_code, code | (l->tagged_refs ? 1 : 0));
    fake_u64(f, frame + (scry_addr)l->if_previous, caller);
    fake_u64(f, frame + (scry_addr)l->if_instr,
             code + (scry_addr)l->co_code_adaptive + (scry_addr)offset);
    fake_u8(f, frame + (scry_addr)l->if_owner, 0);
    if (l->if_is_entry != LAYOUT_NONE)
        fake_u8(f, frame + (scry_addr)l->if_is_entry, !caller);
    return frame;
}

/* The next frame is the first one of a new chunk of the data stack. */
static inline void fake_new_chunk(struct fake_interp *i, scry_addr ts)
{
    const struct layout *l = i->f.l;
    if (fake_has_objects(l))
        return;
    scry_addr chunk = fake_zeros(&i->f, FAKE_CHUNK);
    fake_u64(&i->f, i->stack + 16, (i->stack_next - i->stack - 24) / 8);
    fake_u64(&i->f, chunk, i->stack);
    fake_u64(&i->f, chunk + 8, FAKE_CHUNK);
    i->stack = chunk;
    i->stack_next = chunk + 32;
    fake_u64(&i->f, ts + (scry_addr)l->ts_datastack_chunk, chunk);
}

/* What lies below the outermost frame: nothing, or a shim on the C stack. */
static inline scry_addr fake_bottom(struct fake_interp *i)
{
    const struct layout *l = i->f.l;
    if (fake_has_objects(l) || l->if_is_entry != LAYOUT_NONE)
        return 0;
    scry_addr shim = fake_zeros(&i->f, 256);
    fake_u8(&i->f, shim + (scry_addr)l->if_owner, 3);
    return shim;
}

static inline void fake_set_frame(struct fake_interp *i, scry_addr ts, scry_addr frame)
{
    const struct layout *l = i->f.l;
    if (fake_has_objects(l)) {
        fake_u64(&i->f, ts + (scry_addr)l->ts_frame, frame);
        return;
    }
    fake_u64(&i->f, ts + (scry_addr)l->ts_datastack_chunk + 8, i->stack_next);
    if (l->ts_current_frame != LAYOUT_NONE) {
        fake_u64(&i->f, ts + (scry_addr)l->ts_current_frame, frame);
    } else {
        scry_addr cframe;
        mem_read_u64(i->f.mem, ts + (scry_addr)l->ts_cframe, &cframe);
        fake_u64(&i->f, cframe + (scry_addr)l->cframe_current_frame, frame);
    }
}

/* The evaluator is called once more (3.11, 3.12): a new C frame, without a frame of its own. */
static inline void fake_enter_evaluator(struct fake_interp *i, scry_addr ts)
{
    const struct layout *l = i->f.l;
    scry_addr before, cframe = fake_zeros(&i->f, 64);
    mem_read_u64(i->f.mem, ts + (scry_addr)l->ts_cframe, &before);
    fake_u64(&i->f, cframe + (scry_addr)l->cframe_current_frame + 8, before);
    fake_u64(&i->f, ts + (scry_addr)l->ts_cframe, cframe);
}

#endif
