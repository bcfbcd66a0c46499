/* What an image holds, byte by byte: shared by who writes it while a program runs and who reads it afterwards, maybe in
 * another process and after the writer was killed.
 *
 * An image is a row of slots of SLOT_SIZE bytes. Slot 0 is the head. Every other slot holds either definitions (names,
 * threads, tasks) or the events of one lane. A lane is a thread's place to write to; when a thread has ended another
 * one takes its lane over. Everything is little endian, as the machines scry runs on; an image does not leave its host.
 *
 * W1  A word of zero ends a slot: memory that was never written reads as zero, so an image is whole at every moment.
 * W2  The slots of a lane are numbered without a gap; a missing number means that slots were dropped.
 * W3  An event slot begins with one OPEN word per call that is open there, outermost first, so that it can be read
 *     without those before it.
 * W4  Names are defined before they are used, in slots that are never dropped. */
#ifndef SCRY_TRACER_WORDS_H
#define SCRY_TRACER_WORDS_H

#include <stdint.h>

#define IMAGE_MAGIC  0x3143525459524353ull /* "SCRYTRC1" */
#define SLOT_SIZE    32768u
#define SLOT_HEAD    64u
#define SLOT_WORDS   ((SLOT_SIZE - SLOT_HEAD) / 8)
#define COMMAND_MAX  4096
#define SNAPSHOT_MAX 1024 /* OPEN words at the start of a slot: the innermost ones */

struct anchor { /* one moment on both clocks */
    uint64_t ticks;
    uint64_t ns; /* CLOCK_MONOTONIC */
};

enum image_flags {
    IMAGE_TSC = 1,      /* ticks are the time stamp counter's; else they are nanoseconds */
    IMAGE_FINISHED = 2, /* the writer came to its end by itself */
};

struct image_head {
    uint64_t magic;
    uint32_t slot_size;
    uint32_t flags;
    int32_t pid, parent;
    struct anchor start, end;  /* `end` is zero until the tracer stops */
    uint64_t wall_ns;          /* CLOCK_REALTIME at `start` */
    uint64_t dropped;          /* calls whose events are no longer there */
    uint64_t min_duration;     /* ns: calls that are shorter are left out */
    uint32_t slots;            /* in use, this one included */
    uint32_t python;           /* PY_VERSION_HEX */
    char boot[40];             /* whose counter it was: /proc/sys/kernel/random/boot_id */
    char command[COMMAND_MAX]; /* words separated by a space; ends with a zero */
};

enum slot_kind {
    SLOT_FREE = 0,
    SLOT_DEFINITIONS = 1,
    SLOT_EVENTS = 2,
};

struct slot {
    uint32_t kind;
    uint32_t lane;
    uint64_t sequence; /* in its lane */
    struct anchor base;
    uint32_t thread; /* number of the thread at the start */
    uint32_t depth;  /* open calls at the start; OPEN words are at most SNAPSHOT_MAX */
    uint64_t reserved[3];
    uint64_t words[SLOT_WORDS];
};

/* ---- event words: ticks since the word before << 28 | number << 4 | kind ---- */

enum word_kind {
    WORD_NONE = 0,
    WORD_BEGIN = 1,     /* a function starts: its name's number */
    WORD_RESUME = 2,    /* a generator or coroutine goes on */
    WORD_BEGIN_C = 3,   /* a function written in C starts */
    WORD_END = 4,       /* the innermost call returns */
    WORD_END_YIELD = 5, /* ... is suspended */
    WORD_END_RAISE = 6, /* ... ends by an exception */
    WORD_LEFT = 7,      /* a call ends whose beginning was not seen: its name's number */
    WORD_OPEN = 8,      /* see W3 */
    WORD_TIME = 9,      /* ticks since the word before << 4: more than fit into another word */
    WORD_THREAD = 10,   /* what follows is of another thread: its number */
    WORD_TASK = 11,     /* the call that begins next is a step of this task */
    WORD_DATA = 12,     /* ticks << 28 | bytes << 12 | data_kind << 4; the bytes follow, padded */
    WORD_BEGIN_GC = 13, /* a garbage collection */
};
#define WORD_KIND(w)      ((unsigned)((w)&15))
#define WORD_NUMBER_SHIFT 4
#define WORD_NUMBER_MAX   0xffffffu
#define WORD_NUMBER(w)    ((uint32_t)((w) >> WORD_NUMBER_SHIFT) & WORD_NUMBER_MAX)
#define WORD_TICKS_SHIFT  28
#define WORD_TICKS_BITS   36

/* Text is JSON that was made by the tracer itself, or plain; see the reader. */
enum data_kind {
    DATA_ARGS = 1,      /* of the call that begins next: JSON */
    DATA_RESULT = 2,    /* of the call that ends next: text */
    DATA_EXCEPTION = 3, /* which ends the next call: text */
    DATA_INSTANT = 4,   /* u32 name, JSON or nothing */
    DATA_COUNTER = 5,   /* u32 name, JSON object of numbers */
    DATA_SPAN = 6,      /* u32 name, u32 0, u64 ticks of its begin, JSON or nothing */
    DATA_RAISED = 7,    /* an exception was raised: text */
};
#define DATA_BYTES_MAX 4096u
#define DATA_KIND(w)   ((unsigned)((w) >> 4) & 255)
#define DATA_BYTES(w)  ((unsigned)((w) >> 12) & 0xffff)

/* ---- definitions: records of words, one after the other ---- */

enum definition_kind {
    DEFINE_NAME = 1,
    DEFINE_THREAD = 2, /* a later one of the same number holds */
    DEFINE_TASK = 3,
};

struct definition {
    uint32_t bytes; /* of this record with what follows it, a multiple of 8 */
    uint32_t kind;
    uint32_t number;
    int32_t line;        /* DEFINE_NAME: of the def; 0 for what is not Python */
    uint32_t text_bytes; /* the name; then */
    uint32_t file_bytes; /* DEFINE_NAME: the file; 0 for what is not Python */
    uint64_t tid;        /* DEFINE_THREAD: the kernel's id */
    uint64_t ident;      /* DEFINE_THREAD: Python's */
    char text[];
};
#define DEFINITION_TEXT_MAX 4096u /* bytes of a name, and of a file */

#endif
