#include "image.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define WINDOW_SIZE ((size_t)WINDOW_SLOTS * SLOT_SIZE)

_Static_assert(sizeof(struct slot) == SLOT_SIZE, "a slot is as large as it says");
_Static_assert(sizeof(struct image_head) <= SLOT_SIZE, "the head fits into a slot");
_Static_assert(sizeof(struct definition) % 8 == 0, "records stay aligned");

static int map_window(struct image *i)
{
    if (i->window_count == i->window_cap) {
        uint32_t cap = i->window_cap ? i->window_cap * 2 : 16;
        char **windows = realloc(i->windows, cap * sizeof(*windows));
        if (!windows)
            return ENOMEM;
        i->windows = windows;
        uint32_t *unfinished = realloc(i->unfinished, cap * sizeof(*unfinished));
        if (!unfinished)
            return ENOMEM;
        i->unfinished = unfinished;
        i->window_cap = cap;
    }
    off_t at = (off_t)i->window_count * (off_t)WINDOW_SIZE;
    void *memory;
    if (i->fd < 0) {
        memory =
            mmap(NULL, WINDOW_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    } else {
        /* Reserved, not only declared: a disk that is full must say so here, not by SIGBUS when a page is touched. */
        int rc = posix_fallocate(i->fd, at, (off_t)WINDOW_SIZE);
        if (rc != 0)
            return rc;
        memory = mmap(NULL, WINDOW_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, i->fd, at);
    }
    if (memory == MAP_FAILED)
        return errno;
    i->unfinished[i->window_count] = WINDOW_SLOTS;
    i->windows[i->window_count++] = memory;
    return 0;
}

const struct slot *image_slot(const struct image *i, uint32_t number)
{
    const char *window =
        number / WINDOW_SLOTS < i->window_count ? i->windows[number / WINDOW_SLOTS] : NULL;
    return window ? (const void *)(window + (size_t)(number % WINDOW_SLOTS) * SLOT_SIZE) : NULL;
}

int image_open(struct image *i, const char *path, uint64_t memory)
{
    memset(i, 0, sizeof(*i));
    i->fd = -1;
    uint64_t slots = memory / SLOT_SIZE;
    if (slots < 8)
        slots = 8;
    i->max_slots = memory && slots < UINT32_MAX / 2 ? (uint32_t)slots : UINT32_MAX;
    if (path) {
        i->fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (i->fd < 0)
            return errno;
    }
    int rc = map_window(i);
    if (rc == 0 && i->max_slots != UINT32_MAX) {
        i->full = malloc(i->max_slots * sizeof(*i->full));
        rc = i->full ? 0 : ENOMEM;
    }
    if (rc != 0) {
        image_close(i);
        return rc;
    }
    i->head = (void *)i->windows[0];
    i->slot_count = 1;
    i->head->magic = IMAGE_MAGIC;
    i->head->slot_size = SLOT_SIZE;
    i->head->slots = 1;
    return 0;
}

void image_close(struct image *i)
{
    for (uint32_t w = 0; w < i->window_count; w++)
        if (i->windows[w])
            munmap(i->windows[w], WINDOW_SIZE);
    free(i->windows);
    free(i->unfinished);
    free(i->full);
    if (i->fd >= 0)
        close(i->fd);
    memset(i, 0, sizeof(*i));
    i->fd = -1;
}

static struct slot *new_slot(struct image *i, uint32_t *ret_number)
{
    if (i->slot_count >= i->max_slots)
        return NULL;
    if (i->slot_count / WINDOW_SLOTS >= i->window_count && map_window(i) != 0)
        return NULL;
    *ret_number = i->slot_count++;
    i->head->slots = i->slot_count;
    return (struct slot *)image_slot(i, *ret_number);
}

static uint64_t calls_in(const struct slot *slot)
{
    uint64_t calls = 0;
    for (size_t w = 0; w < SLOT_WORDS && slot->words[w];) {
        uint64_t word = slot->words[w++];
        unsigned kind = WORD_KIND(word);
        calls += kind == WORD_BEGIN || kind == WORD_RESUME || kind == WORD_BEGIN_C;
        if (kind == WORD_DATA)
            w += (DATA_BYTES(word) + 7) / 8;
    }
    return calls;
}

static struct slot *oldest_slot(struct image *i, uint32_t *ret_number)
{
    if (!i->full_count)
        return NULL;
    *ret_number = i->full[i->full_first];
    i->full_first = (i->full_first + 1) % i->max_slots;
    i->full_count--;
    struct slot *slot = (struct slot *)image_slot(i, *ret_number);
    i->head->dropped += calls_in(slot);
    memset(slot, 0, sizeof(*slot));
    return slot;
}

struct slot *image_take_slot(struct image *i, uint32_t *ret_number)
{
    struct slot *slot = new_slot(i, ret_number);
    return slot ? slot : oldest_slot(i, ret_number);
}

void image_finish_slot(struct image *i, uint32_t number)
{
    if (i->full) {
        i->full[(i->full_first + i->full_count++) % i->max_slots] = number;
        return;
    }
    /* A stream is in the file: what is full need not stay in this process. The first window has the head. */
    uint32_t window = number / WINDOW_SLOTS;
    if (--i->unfinished[window] == 0 && window > 0 && i->fd >= 0) {
        munmap(i->windows[window], WINDOW_SIZE);
        i->windows[window] = NULL;
    }
}

/* Names may take up half of the memory; a program that makes ever new ones does not push out its own events. */
static bool take_definitions(struct image *i)
{
    uint32_t number;
    if (i->max_slots != UINT32_MAX && i->definition_slots >= i->max_slots / 2)
        return false;
    struct slot *slot = image_take_slot(i, &number);
    if (!slot)
        return false;
    slot->kind = SLOT_DEFINITIONS;
    i->definition_slots++;
    i->definitions = slot;
    i->definitions_used = 0;
    return true;
}

/* Where at most `limit` bytes end without cutting a character in two. */
static uint32_t cut(const char *text, size_t limit)
{
    size_t n = text ? strnlen(text, limit + 1) : 0;
    if (n > limit)
        for (n = limit; n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80; n--)
            ;
    return (uint32_t)n;
}

bool image_define(struct image *i, const struct definition *d, const char *text, const char *file)
{
    struct definition record = *d;
    record.text_bytes = cut(text, DEFINITION_TEXT_MAX);
    record.file_bytes = cut(file, DEFINITION_TEXT_MAX);
    record.bytes =
        (uint32_t)(sizeof(record) + record.text_bytes + record.file_bytes + 7) & ~(uint32_t)7;
    size_t room = sizeof(((struct slot *)0)->words);
    if ((!i->definitions || i->definitions_used + record.bytes > room) && !take_definitions(i))
        return false;
    char *to = (char *)i->definitions->words + i->definitions_used;
    memcpy(to + sizeof(record), text, record.text_bytes);
    if (record.file_bytes)
        memcpy(to + sizeof(record) + record.text_bytes, file, record.file_bytes);
    memcpy(to + sizeof(uint32_t), (char *)&record + sizeof(uint32_t),
           sizeof(record) - sizeof(uint32_t));
    /* Last: a record without a length is not there yet. */
    __atomic_store_n((uint32_t *)to, record.bytes, __ATOMIC_RELEASE);
    i->definitions_used += record.bytes;
    return true;
}
