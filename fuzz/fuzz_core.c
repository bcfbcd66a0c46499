/* The reader of core files against arbitrary bytes: headers, notes, and what is made of them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "binary/build_id.h"
#include "binary/core.h"
#include "cpython/python.h"
#include "util/buf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "fuzz_core: broken promise: %s\n", what);
    abort();
}

static void check_segments(const struct core *c, struct mem *mem)
{
    for (size_t i = 0; i < c->segment_count; i++) {
        const struct core_segment *s = &c->segments[i];
        unsigned char byte;
        require(s->start < s->end, "no segment is empty");
        require(s->there <= s->saved && s->saved <= s->end - s->start, "a segment has its size");
        require(!s->there || (s->offset < c->size && s->there <= c->size - s->offset),
                "what is there is in the file");
        if (i < 64)
            mem_core_add(mem, MEM_CORE_SAVED, s->start, s->saved,
                         c->data + (s->there ? s->offset : 0), s->there);
        mem_read(mem, s->start, &byte, 1);
        mem_read(mem, s->end - 1, &byte, 1);
        build_id_in_memory(mem, s->start);
    }
}

static void check_notes(const struct core *c)
{
    for (size_t i = 0; i < c->file_count; i++) {
        require(c->files[i].start < c->files[i].end, "no stretch of a file is empty");
        require(strlen(c->files[i].path) <= c->size, "each has a path");
    }
    for (size_t i = 0; i < c->thread_count; i++) {
        const unsigned char *r = c->threads[i].registers;
        require(r >= c->data && r + c->threads[i].registers_size <= c->data + c->size,
                "registers are in the file");
        core_thread_call(&c->threads[i]);
    }
    require(strlen(c->command) < sizeof(c->command) && strlen(c->name) < sizeof(c->name),
            "texts end");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct core core;
    struct error err = {0};
    build_id_in_file(data, size);
    if (core_parse(data, size, "input", &core, &err) < 0) {
        require(err.detail[0] != '\0', "a refusal has its sentence");
        return 0;
    }
    struct mem *mem = mem_core_new();
    if (mem) {
        SCOPED_BUF command;
        buf_init(&command);
        check_segments(&core, mem);
        check_notes(&core);
        core_command(&core, mem, &command);
        mem_close(mem);
    }
    core_close(&core);
    return 0;
}
