/* Writing a recording. Records gather in one block buffer; a full buffer, or a second gone by,
 * closes the block: compressed, checksummed, handed to the kernel. What was handed over survives
 * scry's own death.
 *
 * All memory that samples of known stacks need is taken in rec_writer_new(). */
#include "engine/recording.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <zlib.h>
#include <zstd.h>

#include "engine/recording_wire.h"
#include "engine/stack_table.h"
#include "util/table.h"
#include "util/utf8.h"

/* A block is closed at this size. The largest record is a string, so the buffer holds one more of
 * these. */
#define BLOCK_SIZE 65536
#define BLOCK_ROOM (BLOCK_SIZE + WIRE_MAX_STRING + 1 + WIRE_MAX_VARINT)
_Static_assert(BLOCK_ROOM <= WIRE_MAX_BLOCK, "the reader must take what the writer makes");
#define BLOCK_SPAN SCRY_NSEC_PER_SEC
#define ZSTD_LEVEL 3

struct frame_key {
    uint32_t name, file, short_file, module;
    int32_t line, first_line;
};

struct process_key {
    int32_t pid, parent;
    uint32_t command, python;
    uint32_t apart; /* 0, or tells it from others like it */
};

struct thread_key {
    int64_t tid;
    uint64_t thread_id;
    uint64_t process;
};

struct thread_state {
    uint32_t name;
    struct wire_last last;
};

struct rec_writer {
    struct sample_sink sink;
    FILE *out;
    int error; /* the first failure to write; it stays */

    struct interner strings; /* numbers are one higher on the wire: 0 is "" */
    struct interner processes, threads, frames;
    struct stack_table stacks;
    struct thread_state *thread_states;
    size_t thread_cap;
    size_t text; /* bytes in strings ... */
    bool full;   /* ... which are as many as a reader takes */

    unsigned char *raw; /* BLOCK_ROOM */
    size_t raw_len;
    unsigned char *packed; /* header and stored bytes */
    size_t packed_cap;
    ZSTD_CCtx *zstd;

    scry_nsec time;       /* of the last sample */
    scry_nsec block_time; /* of the first sample in the open block */
    bool block_has_sample;
};

/* ---- blocks ---- */

/* Compress where that helps. Returns the stored length; the bytes are in w->packed after the
 * header. */
static size_t pack(struct rec_writer *w, enum wire_coding *ret_coding)
{
    unsigned char *to = w->packed + WIRE_BLOCK_HEADER;
    size_t n = ZSTD_compress2(w->zstd, to, w->packed_cap - WIRE_BLOCK_HEADER, w->raw, w->raw_len);
    if (!ZSTD_isError(n) && n < w->raw_len) {
        *ret_coding = WIRE_ZSTD;
        return n;
    }
    memcpy(to, w->raw, w->raw_len);
    *ret_coding = WIRE_STORED;
    return w->raw_len;
}

static void write_block(struct rec_writer *w, enum wire_block type)
{
    enum wire_coding coding;
    size_t stored = pack(w, &coding);
    unsigned char *header = w->packed;
    header[0] = (unsigned char)type;
    header[1] = (unsigned char)coding;
    header[2] = header[3] = 0;
    wire_put_u32(header + 4, (uint32_t)stored);
    wire_put_u32(header + 8, (uint32_t)w->raw_len);
    uint32_t crc = (uint32_t)crc32(0, header, WIRE_CRC_OFFSET);
    crc = (uint32_t)crc32(crc, header + WIRE_BLOCK_HEADER, (uInt)stored);
    wire_put_u32(header + WIRE_CRC_OFFSET, crc);
    w->raw_len = 0;
    w->block_has_sample = false;
    if (w->error)
        return;
    size_t total = WIRE_BLOCK_HEADER + stored;
    if (fwrite(w->packed, 1, total, w->out) != total || fflush(w->out) != 0)
        w->error = -SCRY_E_OUTPUT;
}

static void close_full_block(struct rec_writer *w)
{
    if (w->raw_len >= BLOCK_SIZE)
        write_block(w, WIRE_DATA);
}

int rec_writer_flush(struct rec_writer *w)
{
    if (w->raw_len)
        write_block(w, WIRE_DATA);
    return w->error;
}

static void put(struct rec_writer *w, uint64_t v)
{
    w->raw_len += wire_put_varint(w->raw + w->raw_len, v);
}

static void put_bytes(struct rec_writer *w, const void *data, size_t len)
{
    memcpy(w->raw + w->raw_len, data, len);
    w->raw_len += len;
}

/* A definition: its tag, its length, its bytes. */
static void put_record(struct rec_writer *w, enum wire_record tag, const void *body, size_t len)
{
    w->raw[w->raw_len++] = (unsigned char)tag;
    put(w, len);
    put_bytes(w, body, len);
    close_full_block(w);
}

static void put_numbers(struct rec_writer *w, enum wire_record tag, const uint64_t *numbers,
                        size_t n)
{
    unsigned char body[8 * WIRE_MAX_VARINT];
    size_t len = 0;
    for (size_t i = 0; i < n; i++)
        len += wire_put_varint(body + len, numbers[i]);
    put_record(w, tag, body, len);
}
#define PUT_NUMBERS(w, tag, ...)                                                                   \
    put_numbers(w, tag, (const uint64_t[]){__VA_ARGS__},                                           \
                sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

/* ---- definitions ---- */

/* Interned, unless that would be one more than a reader takes. */
static uint32_t add(struct interner *in, const void *key, size_t len, size_t max, bool *ret_new)
{
    uint32_t n = interner_add(in, key, len, ret_new);
    return n != INTERN_FAILED && n >= max ? INTERN_FAILED : n;
}

static uint32_t string(struct rec_writer *w, const char *s)
{
    if (!s || !*s)
        return 0;
    if (w->full)
        return INTERN_FAILED;
    size_t len = utf8_prefix(s, strlen(s), WIRE_MAX_STRING);
    bool is_new;
    uint32_t n = add(&w->strings, s, len, WIRE_MAX_STRINGS - 1, &is_new);
    if (n == INTERN_FAILED || !is_new)
        return n == INTERN_FAILED ? n : n + 1;
    w->text += len;
    w->full = w->text > WIRE_MAX_TEXT - WIRE_MAX_STRING;
    put_record(w, WIRE_STRING, s, len);
    return n + 1;
}

static uint32_t put_process(struct rec_writer *w, const struct rec_process *process, uint32_t apart)
{
    struct process_key key = {
        .apart = apart,
        .pid = process->pid,
        .parent = process->parent,
        .command = string(w, process->command),
        .python = string(w, process->python),
    };
    if (key.command == INTERN_FAILED || key.python == INTERN_FAILED)
        return UINT32_MAX;
    bool is_new;
    uint32_t n = add(&w->processes, &key, sizeof(key), WIRE_MAX_PROCESSES, &is_new);
    if (n != INTERN_FAILED && is_new)
        PUT_NUMBERS(w, WIRE_PROCESS, wire_zigzag(key.pid), wire_zigzag(key.parent), key.command,
                    key.python);
    return n;
}

uint32_t rec_writer_process(struct rec_writer *w, const struct rec_process *process)
{
    return put_process(w, process, 0);
}

uint32_t rec_writer_add_process(struct rec_writer *w, const struct rec_process *process)
{
    return put_process(w, process, (uint32_t)w->processes.count + 1);
}

static bool reserve_thread_state(struct rec_writer *w)
{
    if (w->threads.count < w->thread_cap)
        return true;
    size_t cap = w->thread_cap ? w->thread_cap * 2 : 64;
    struct thread_state *states = realloc(w->thread_states, cap * sizeof(*states));
    if (!states)
        return false;
    w->thread_states = states;
    w->thread_cap = cap;
    return true;
}

uint32_t rec_writer_thread(struct rec_writer *w, const struct rec_thread *thread)
{
    struct thread_key key = {
        .tid = thread->tid,
        .thread_id = thread->thread_id,
        .process = thread->process,
    };
    if (thread->process >= w->processes.count || !reserve_thread_state(w))
        return UINT32_MAX;
    uint32_t name = string(w, thread->name);
    if (name == INTERN_FAILED)
        return UINT32_MAX;
    bool is_new;
    uint32_t n = add(&w->threads, &key, sizeof(key), WIRE_MAX_THREADS, &is_new);
    if (n == INTERN_FAILED)
        return UINT32_MAX;
    struct thread_state *state = &w->thread_states[n];
    if (is_new) {
        *state = (struct thread_state){.name = name};
        PUT_NUMBERS(w, WIRE_THREAD, key.process, wire_zigzag(key.tid), key.thread_id, name);
    } else if (state->name != name) {
        state->name = name;
        PUT_NUMBERS(w, WIRE_THREAD_NAME, n, name);
    }
    return n;
}

uint32_t rec_writer_frame(struct rec_writer *w, const struct rec_frame *frame)
{
    struct frame_key key = {
        .name = string(w, frame->name),
        .file = string(w, frame->file),
        .short_file = string(w, frame->short_file),
        .module = string(w, frame->module),
        .line = frame->line,
        .first_line = frame->first_line,
    };
    if (key.name == INTERN_FAILED || key.file == INTERN_FAILED || key.short_file == INTERN_FAILED ||
        key.module == INTERN_FAILED)
        return UINT32_MAX;
    bool is_new;
    uint32_t n = add(&w->frames, &key, sizeof(key), WIRE_MAX_FRAMES, &is_new);
    if (n != INTERN_FAILED && is_new)
        PUT_NUMBERS(w, WIRE_FRAME, key.name, key.file, key.short_file, wire_zigzag(key.line),
                    wire_zigzag(key.first_line), key.module);
    return n;
}

uint32_t rec_writer_stack(struct rec_writer *w, uint32_t parent, uint32_t frame)
{
    if (parent >= w->stacks.count || frame >= w->frames.count)
        return UINT32_MAX;
    bool is_new;
    uint32_t n = stack_table_add(&w->stacks, parent, frame, WIRE_MAX_STACKS, &is_new);
    /* The parent as a distance: it is nearly always the stack before. */
    if (n != STACK_TABLE_FULL && is_new)
        PUT_NUMBERS(w, WIRE_STACK, n - parent, frame);
    return n;
}

/* ---- samples ---- */

/* Whole microseconds take a byte less each. */
static unsigned unit_of(scry_nsec time, scry_nsec weight)
{
    return time % 1000 == 0 && weight % 1000 == 0 && (time || weight) ? 1000 : 1;
}

int rec_writer_sample(struct rec_writer *w, const struct rec_sample *sample)
{
    if (sample->thread == UINT32_MAX || sample->stack == UINT32_MAX)
        return -SCRY_E_NO_MEMORY; /* there was none when the number was asked for */
    if (sample->thread >= w->threads.count || sample->stack >= w->stacks.count ||
        sample->time < w->time || sample->time > WIRE_MAX_TIME)
        return -SCRY_E_INTERNAL;
    if (w->block_has_sample && sample->time - w->block_time >= BLOCK_SPAN)
        write_block(w, WIRE_DATA);
    if (!w->block_has_sample) {
        w->block_has_sample = true;
        w->block_time = sample->time;
    }

    struct wire_last *last = &w->thread_states[sample->thread].last;
    scry_nsec weight = sample->weight < sample->time ? sample->weight : sample->time;
    unsigned tag = WIRE_SAMPLE;
    tag |= sample->time != w->time ? WIRE_HAS_TIME : 0;
    tag |= sample->stack != last->stack ? WIRE_HAS_STACK : 0;
    tag |= weight != sample->time - last->time ? WIRE_HAS_WEIGHT : 0;
    tag |= sample->flags != last->flags ? WIRE_HAS_FLAGS : 0;
    unsigned unit = unit_of(sample->time - w->time, tag & WIRE_HAS_WEIGHT ? weight : 0);
    tag |= unit > 1 ? WIRE_MICROSECONDS : 0;
    w->raw[w->raw_len++] = (unsigned char)tag;
    put(w, sample->thread);
    if (tag & WIRE_HAS_TIME)
        put(w, (sample->time - w->time) / unit);
    if (tag & WIRE_HAS_STACK)
        put(w, sample->stack);
    if (tag & WIRE_HAS_WEIGHT)
        put(w, weight / unit);
    if (tag & WIRE_HAS_FLAGS)
        put(w, sample->flags);
    *last =
        (struct wire_last){.time = sample->time, .stack = sample->stack, .flags = sample->flags};
    w->time = sample->time;
    close_full_block(w);
    return w->error;
}

/* ---- beginning and end ---- */

static void put_text(struct rec_writer *w, const char *s)
{
    size_t len = s ? utf8_prefix(s, strlen(s), WIRE_MAX_STRING / 2) : 0;
    put(w, len);
    if (len)
        put_bytes(w, s, len);
}

static int write_start(struct rec_writer *w, const struct rec_info *info)
{
    unsigned char header[WIRE_HEADER_SIZE] = WIRE_MAGIC;
    wire_put_u32(header + WIRE_MAGIC_SIZE, WIRE_VERSION);
    if (fwrite(header, 1, sizeof(header), w->out) != sizeof(header))
        return -SCRY_E_OUTPUT;

    uint64_t rate;
    memcpy(&rate, &info->rate, sizeof(rate));
    put(w, info->start_unix_ns < WIRE_MAX_TIME ? info->start_unix_ns : 0);
    put(w, rate);
    put(w, info->options);
    put_text(w, info->command);
    put_text(w, info->host);
    write_block(w, WIRE_INFO);
    return w->error;
}

/* ---- as a sink ---- */

static struct rec_writer *writer_of(struct sample_sink *sink)
{
    return (struct rec_writer *)((char *)sink - offsetof(struct rec_writer, sink));
}

static uint32_t sink_process(struct sample_sink *sink, const struct rec_process *process)
{
    return rec_writer_process(writer_of(sink), process);
}

static uint32_t sink_thread(struct sample_sink *sink, const struct rec_thread *thread)
{
    return rec_writer_thread(writer_of(sink), thread);
}

static uint32_t sink_frame(struct sample_sink *sink, const struct rec_frame *frame)
{
    return rec_writer_frame(writer_of(sink), frame);
}

static uint32_t sink_stack(struct sample_sink *sink, uint32_t parent, uint32_t frame)
{
    return rec_writer_stack(writer_of(sink), parent, frame);
}

static int sink_sample(struct sample_sink *sink, const struct rec_sample *sample)
{
    return rec_writer_sample(writer_of(sink), sample);
}

static int sink_flush(struct sample_sink *sink)
{
    return rec_writer_flush(writer_of(sink));
}

static const struct sink_ops writer_ops = {
    .process = sink_process,
    .thread = sink_thread,
    .frame = sink_frame,
    .stack = sink_stack,
    .sample = sink_sample,
    .flush = sink_flush,
};

struct sample_sink *rec_writer_sink(struct rec_writer *w)
{
    return &w->sink;
}

/* ---- life ---- */

int rec_writer_new(FILE *out, const struct rec_info *info, struct rec_writer **ret_writer)
{
    struct rec_writer *w = calloc(1, sizeof(*w));
    if (!w)
        return -SCRY_E_NO_MEMORY;
    w->sink.ops = &writer_ops;
    w->out = out;
    w->packed_cap = WIRE_BLOCK_HEADER + ZSTD_compressBound(BLOCK_ROOM);
    w->raw = malloc(BLOCK_ROOM);
    w->packed = malloc(w->packed_cap);
    w->zstd = ZSTD_createCCtx();
    int r = -SCRY_E_NO_MEMORY;
    if (w->raw && w->packed && w->zstd && stack_table_init(&w->stacks)) {
        ZSTD_CCtx_setParameter(w->zstd, ZSTD_c_compressionLevel, ZSTD_LEVEL);
        r = write_start(w, info);
    }
    if (r < 0) {
        rec_writer_free(w);
        return r;
    }
    *ret_writer = w;
    return 0;
}

int rec_writer_finish(struct rec_writer *w, const struct rec_summary *summary)
{
    rec_writer_flush(w);
    put(w, summary->duration);
    put(w, summary->samples);
    put(w, summary->torn);
    put(w, summary->missed);
    put(w, summary->late);
    put(w, summary->errors);
    put(w, summary->own_cpu);
    if (summary->unmerged)
        put(w, summary->unmerged);
    write_block(w, WIRE_END);
    return w->error;
}

void rec_writer_free(struct rec_writer *w)
{
    if (!w)
        return;
    interner_done(&w->strings);
    interner_done(&w->processes);
    interner_done(&w->threads);
    interner_done(&w->frames);
    stack_table_done(&w->stacks);
    free(w->thread_states);
    free(w->raw);
    free(w->packed);
    ZSTD_freeCCtx(w->zstd);
    free(w);
}
