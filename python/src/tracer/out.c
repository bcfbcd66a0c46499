#include "out.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "util/utf8_length.h"

bool out_flush(struct out *o)
{
    size_t done = 0;
    while (done < o->used && !o->error) {
        ssize_t n = write(o->fd, o->data + done, o->used - done);
        if (n >= 0)
            done += (size_t)n;
        else if (errno != EINTR)
            o->error = errno;
    }
    o->total += done;
    o->used = 0;
    return !o->error;
}

char *bytes_room(struct bytes *b, size_t more)
{
    if (b->failed)
        return NULL;
    if (b->used + more > b->cap) {
        size_t cap = b->cap ? b->cap * 2 : 256;
        while (cap < b->used + more)
            cap *= 2;
        char *grown = realloc(b->data, cap);
        if (!grown) {
            b->failed = true;
            return NULL;
        }
        b->data = grown;
        b->cap = cap;
    }
    return b->data + b->used;
}

void bytes_put(struct bytes *b, const void *data, size_t count)
{
    char *to = count ? bytes_room(b, count) : NULL;
    if (to) {
        memcpy(to, data, count);
        b->used += count;
    }
}

void bytes_put_number(struct bytes *b, uint64_t number)
{
    char text[24];
    bytes_put(b, text, (size_t)snprintf(text, sizeof(text), "%llu", (unsigned long long)number));
}

static void put_character(struct bytes *b, const char *s, size_t n, bool json)
{
    unsigned char c = (unsigned char)s[0];
    if (n == 0) {
        bytes_put(b, "\xef\xbf\xbd", 3);
    } else if (json && (c == '"' || c == '\\')) {
        bytes_put(b, "\\", 1);
        bytes_put(b, s, 1);
    } else if (json && c < 0x20) {
        char text[8];
        bytes_put(b, text, (size_t)snprintf(text, sizeof(text), "\\u%04x", c));
    } else if (c == 0) {
        bytes_put(b, " ", 1);
    } else {
        bytes_put(b, s, n);
    }
}

static void put_clean(struct bytes *b, struct text text, bool json)
{
    for (size_t i = 0; i < text.bytes;) {
        size_t n = utf8_length(text.at + i, text.bytes - i);
        put_character(b, text.at + i, n, json);
        i += n ? n : 1;
    }
}

void bytes_put_json(struct bytes *b, struct text text)
{
    put_clean(b, text, true);
}

void bytes_put_utf8(struct bytes *b, struct text text)
{
    put_clean(b, text, false);
}

void bytes_put_name(struct bytes *b, const struct read_image *image, const struct call *call,
                    bool json)
{
    if (call->kind == WORD_TASK) {
        put_clean(b, call->track->name, json);
        return;
    }
    static const struct read_name unknown = {{"?", 1}, {NULL, 0}, 0};
    const struct read_name *n =
        call->number && call->number < image->name_count ? &image->names[call->number] : &unknown;
    put_clean(b, n->name.bytes ? n->name : unknown.name, json);
    if (n->file.bytes) {
        char line[16];
        bytes_put(b, " (", 2);
        put_clean(b, n->file, json);
        bytes_put(b, line, (size_t)snprintf(line, sizeof(line), ":%d)", n->line));
    }
}
