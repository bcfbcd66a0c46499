#include "format/words.h"

#include <inttypes.h>
#include <string.h>

#include "format/path.h"
#include "util/utf8.h"

/* XML 1.0 has no way to write these, not even escaped. */
static bool forbidden_in_xml(uint32_t c)
{
    return c == 0xfffe || c == 0xffff;
}

static void add_clean(struct buf *b, const unsigned char *s, size_t length)
{
    uint32_t c = length ? utf8_decode(s, length) : 0xfffd;
    if (c < 0x20)
        buf_add_utf8(b, 0x2400 + c);
    else if (c == 0x7f)
        buf_add_utf8(b, 0x2421);
    else if ((c >= 0x80 && c < 0xa0) || c == 0x2028 || c == 0x2029 || forbidden_in_xml(c))
        buf_add_utf8(b, 0xfffd); /* the other line breaks and control characters of Unicode */
    else
        buf_add_utf8(b, c);
}

void words_clean(struct buf *b, const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    size_t left = strlen(text);
    while (left) {
        size_t n = utf8_length(s, left);
        add_clean(b, s, n);
        n = n ? n : 1;
        s += n;
        left -= n;
    }
}

int32_t words_line(const struct rec_frame *frame, enum line_mode mode)
{
    if (mode == LINES_NONE)
        return 0;
    int32_t line = mode == LINES_FUNCTION ? frame->first_line : frame->line;
    return line > 0 ? line : 0;
}

size_t words_frame(struct buf *b, const struct rec_frame *frame,
                   const struct format_options *options)
{
    const char *file = options->full_filenames ? frame->file : frame->short_file;
    size_t before = b->len;
    words_clean(b, frame->name[0] ? frame->name : "<unknown>");
    size_t name = b->len - before;
    if (!file[0])
        return name;
    buf_add_str(b, " (");
    words_clean(b, file);
    int32_t line = words_line(frame, options->lines);
    if (line)
        buf_addf(b, ":%" PRId32, line);
    buf_add_char(b, ')');
    return name;
}

void words_thread_id(struct buf *b, const struct track *track)
{
    if (track->tid)
        buf_addf(b, "%" PRId64, track->tid);
    else
        buf_addf(b, "0x%" PRIX64, track->thread_id);
}

void words_thread(struct buf *b, const struct track *track)
{
    buf_add_str(b, "thread (");
    words_thread_id(b, track);
    buf_add_char(b, ')');
    if (track->name[0]) {
        buf_add_str(b, ": ");
        words_clean(b, track->name);
    }
}

void words_process(struct buf *b, const struct rec_process *process)
{
    buf_addf(b, "process %" PRId32 ":\"", process->pid);
    words_clean(b, process->command);
    buf_add_char(b, '"');
}

/* Threads are the same in another run if they do the same: that is in their names at best. */
static void thread_in_any_run(struct buf *b, const struct track *track)
{
    buf_add_str(b, "thread");
    if (track->name[0]) {
        buf_add_str(b, ": ");
        words_clean(b, track->name);
    }
}

int words_roots(const struct recording *r, const struct track *track,
                const struct format_options *options, int (*add)(void *context, const char *text),
                void *context)
{
    struct path line = {0};
    SCOPED_BUF text;
    buf_init(&text);
    int result = 0;
    if (options->hosts) {
        buf_add_str(&text, "host ");
        words_clean(&text, recording_process(r, track->process)->host);
        result = text.failed ? -SCRY_E_NO_MEMORY : add(context, text.data);
    }
    if (options->processes && !path_ancestry(&line, r, track->process))
        result = -SCRY_E_NO_MEMORY;
    for (size_t i = 0; i < line.count && result >= 0; i++) {
        buf_reset(&text);
        words_process(&text, recording_process(r, line.items[i]));
        result = text.failed ? -SCRY_E_NO_MEMORY : add(context, text.data);
    }
    if (options->threads && result >= 0) {
        buf_reset(&text);
        if (options->any_run)
            thread_in_any_run(&text, track);
        else
            words_thread(&text, track);
        result = text.failed ? -SCRY_E_NO_MEMORY : add(context, text.data);
    }
    path_done(&line);
    return result;
}

static void add_word(struct buf *b, const char *word, size_t length)
{
    SCOPED_BUF copy;
    buf_init(&copy);
    buf_add(&copy, word, length);
    words_clean(b, copy.data);
}

/* Is this an option after which the program text or module follows? Its own argument is the last
 * word that may be shown; for -c not even that, it is a whole program. */
static bool is_option(const char *word, size_t length, char letter)
{
    return length == 2 && word[0] == '-' && word[1] == letter;
}

void words_program(struct buf *b, const char *command)
{
    size_t length = strcspn(command, " ");
    const char *name = memrchr(command, '/', length);
    name = name ? name + 1 : command;
    add_word(b, name, (size_t)(command + length - name));
    bool module = false;
    for (const char *word = command + length; *word;) {
        word += strspn(word, " ");
        length = strcspn(word, " ");
        if (!length)
            break;
        if (word[0] != '-' || module) {
            const char *slash = module ? NULL : memrchr(word, '/', length);
            const char *base = slash ? slash + 1 : word;
            buf_add_char(b, ' ');
            add_word(b, base, (size_t)(word + length - base));
            return;
        }
        if (is_option(word, length, 'c')) {
            buf_add_str(b, " -c …");
            return;
        }
        module = is_option(word, length, 'm');
        if (module)
            buf_add_str(b, " -m");
        word += length;
    }
}

enum measure words_measure(const struct recording *r)
{
    uint32_t options = recording_info(r)->options;
    if (options & REC_OPT_CPU)
        return MEASURE_CPU;
    return options & REC_OPT_VARIED ? MEASURE_WALL : MEASURE_SAMPLES;
}

enum origin words_origin(const struct rec_frame *frame)
{
    static const char *const packages[] = {"/site-packages/", "/dist-packages/"};
    static const char *const stdlib[] = {"/lib/python2.", "/lib/python3.", "/lib64/python2.",
                                         "/lib64/python3."};
    if (frame->module[0])
        return ORIGIN_NATIVE;
    for (size_t i = 0; i < ARRAY_LEN(packages); i++)
        if (strstr(frame->file, packages[i]))
            return ORIGIN_PACKAGE;
    for (size_t i = 0; i < ARRAY_LEN(stdlib); i++)
        if (strstr(frame->file, stdlib[i]))
            return ORIGIN_STDLIB;
    return strncmp(frame->file, "<frozen ", 8) == 0 ? ORIGIN_STDLIB : ORIGIN_USER;
}
