/* Writes one of a few fixed recordings in any format: what the golden files, the Python tests of
 * the formats and the browser tests look at. Nothing in it depends on the clock or on the machine.
 *
 * make_profile CASE|FILE.scry FORMAT OUTPUT [--threads] [--processes] [--function] [--nolineno]
 *              [--full-filenames] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/format.h"

#define MS 1000000ULL

static struct rec_writer *w;

static void fail(const char *what)
{
    fprintf(stderr, "make_profile: %s\n", what);
    exit(1);
}

/* As the sampler shortens paths: from the folder that is on sys.path. */
static const char *shortened(const char *file)
{
    static const char *const roots[] = {"/site-packages/", "/python3.13/"};
    for (size_t i = 0; i < ARRAY_LEN(roots); i++) {
        const char *root = strstr(file, roots[i]);
        if (root)
            return root + strlen(roots[i]);
    }
    const char *slash = strrchr(file, '/');
    return slash ? slash + 1 : file;
}

static uint32_t call_line(uint32_t parent, const char *name, const char *file, int line, int first)
{
    uint32_t frame = rec_writer_frame(w, &(struct rec_frame){.name = name,
                                                             .file = file,
                                                             .short_file = shortened(file),
                                                             .line = line,
                                                             .first_line = first,
                                                             .module = ""});
    return rec_writer_stack(w, parent, frame);
}

static uint32_t call(uint32_t parent, const char *name, const char *file, int line)
{
    return call_line(parent, name, file, line, line > 3 ? line - 3 : line);
}

static uint32_t native(uint32_t parent, const char *name, const char *library)
{
    const char *slash = strrchr(library, '/');
    return rec_writer_stack(
        w, parent,
        rec_writer_frame(w, &(struct rec_frame){.name = name,
                                                .file = library,
                                                .short_file = slash ? slash + 1 : library,
                                                .module = library}));
}

static uint32_t process(int pid, int parent, const char *command)
{
    return rec_writer_process(
        w, &(struct rec_process){
               .pid = pid, .parent = parent, .command = command, .python = "3.13.0"});
}

static uint32_t thread(uint32_t of, int64_t tid, const char *name)
{
    return rec_writer_thread(w, &(struct rec_thread){.process = of,
                                                     .tid = tid,
                                                     .thread_id = 0x7f0000000000ULL + (uint64_t)tid,
                                                     .name = name});
}

static void sample_as(uint64_t ms, uint64_t weight_ms, uint32_t of, uint32_t stack, uint32_t flags)
{
    struct rec_sample s = {
        .time = ms * MS, .weight = weight_ms * MS, .thread = of, .stack = stack, .flags = flags};
    if (rec_writer_sample(w, &s) < 0)
        fail("a sample was refused");
}

static void sample(uint64_t ms, uint64_t weight_ms, uint32_t of, uint32_t stack)
{
    sample_as(ms, weight_ms, of, stack, REC_ACTIVE);
}

/* Two processes, three threads, a gap of 60 ms, a line that moves inside one call, a thread without
 * frames. */
static void make_basic(struct rec_summary *sum)
{
    uint32_t parent = process(100, 1, "/usr/bin/python3 /srv/app.py --token=secret");
    uint32_t son = process(120, 100, "python -c \"import a; b()\"");
    uint32_t main = thread(parent, 100, "MainThread");
    uint32_t worker = thread(parent, 101, "worker; \"1\"");
    uint32_t other = thread(son, 120, "");
    uint32_t module = call(REC_EMPTY_STACK, "<module>", "/srv/app.py", 40);
    uint32_t run = call(module, "App.run", "/srv/app.py", 12);
    uint32_t load = call_line(run, "load", "/srv/data.py", 7, 5);
    uint32_t load_later = call_line(run, "load", "/srv/data.py", 9, 5);
    uint32_t decode = call(load_later, "decode", "/usr/lib/python3.13/json/decoder.py", 355);
    uint32_t job =
        call(REC_EMPTY_STACK, "Thread._bootstrap", "/usr/lib/python3.13/threading.py", 1014);
    uint32_t post = call(job, "post", "/venv/lib/python3.13/site-packages/requests/api.py", 115);
    uint32_t write = native(post, "SSL_write", "/lib/libssl.so.3");
    uint32_t code = call(REC_EMPTY_STACK, "<module>", "<string>", 1);
    sample(10, 10, main, load);
    sample(20, 10, main, load_later);
    sample(20, 10, worker, post);
    sample(30, 10, main, decode);
    sample(30, 10, worker, write);
    sample(30, 10, other, code);
    sample(40, 10, main, run);
    sample(40, 10, other, REC_EMPTY_STACK);
    sample(110, 10, main, run);
    sample(120, 10, main, load);
    sample(120, 10, worker, post);
    sample(130, 10, main, load);
    *sum = (struct rec_summary){
        .duration = 150 * MS, .samples = 12, .torn = 1, .missed = 2, .late = 3};
}

static void make_empty(struct rec_summary *sum)
{
    process(100, 1, "python sleep.py");
    *sum = (struct rec_summary){.duration = 2000 * MS};
}

/* Names that would leave the place they are put into, if they could. */
static void make_hostile(struct rec_summary *sum)
{
    static const char *const names[] = {
        "</script><script>alert(1)</script>",
        "]]><script>alert(2)</script>",
        "</title><img src=x onerror=alert(3)>",
        "\" onload=\"alert(4)",
        "&lt;b&gt; &amp; &#x1;",
        "tab\there\nnew line\r\x01\x1b[31m red",
        "semi;colon; 12",
        "функция 函数 💩",
        "not utf-8 \xff\xfe \xed\xa0\x80",
        "forbidden \xef\xbf\xbe\xef\xbf\xbf \xe2\x80\xa8 \xc2\x85",
        "${alert(5)} `alert(6)` {{7*7}} <!--",
        "",
    };
    uint32_t of = process(100, 1, "python '</title><script>alert(8)</script>'");
    uint32_t main = thread(of, 100, "</text><script>alert(9)</script>;\n");
    uint32_t stack = call(REC_EMPTY_STACK, "<module>", "/srv/<evil>&\"'.py", 1);
    uint64_t ms = 10;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        sample(ms, 10, main, call(stack, names[i], "/srv/x;y\n.py", (int)i + 1));
        ms += 10;
    }
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        stack = call(stack, names[i], "", 0);
    sample(ms, 10, main, stack);
    *sum = (struct rec_summary){.duration = ms * MS, .samples = ARRAY_LEN(names) + 1};
}

static uint32_t random_state = 12345;

static uint32_t random_below(uint32_t limit)
{
    random_state = random_state * 1664525 + 1013904223;
    return (random_state >> 8) % limit;
}

struct step {
    const char *name, *file;
    int line, first;
};

#define SITE "/venv/lib/python3.13/site-packages/"
#define STD  "/usr/lib/python3.13/"

/* What a web application looks like: `weight` in a thousand samples follow the steps. */
static const struct {
    int weight;
    struct step steps[8];
} requests[] = {
    {170,
     {{"basket", "/srv/shop/views.py", 52, 44},
      {"Template.render", SITE "jinja2/environment.py", 1295, 1269},
      {"root", "basket.html", 17, 1},
      {"price_of_basket", "/srv/shop/prices.py", 88, 71},
      {"discount", "/srv/shop/prices.py", 41, 33}}},
    {90,
     {{"basket", "/srv/shop/views.py", 52, 44},
      {"Template.render", SITE "jinja2/environment.py", 1295, 1269},
      {"root", "basket.html", 17, 1},
      {"price_of_basket", "/srv/shop/prices.py", 90, 71}}},
    {60,
     {{"basket", "/srv/shop/views.py", 52, 44},
      {"Template.render", SITE "jinja2/environment.py", 1295, 1269},
      {"root", "basket.html", 24, 1},
      {"escape", SITE "markupsafe/__init__.py", 26, 20}}},
    {150,
     {{"basket", "/srv/shop/views.py", 49, 44},
      {"load_items", "/srv/shop/models.py", 120, 112},
      {"Cursor.execute", SITE "psycopg/cursor.py", 732, 700},
      {"Connection.wait", SITE "psycopg/connection.py", 484, 470}}},
    {80,
     {{"basket", "/srv/shop/views.py", 49, 44},
      {"load_items", "/srv/shop/models.py", 123, 112},
      {"Cursor.fetchall", SITE "psycopg/cursor.py", 812, 800},
      {"dict_row.<locals>.make_row", SITE "psycopg/rows.py", 103, 101}}},
    {110,
     {{"api_orders", "/srv/shop/api.py", 31, 20},
      {"dumps", STD "json/__init__.py", 238, 183},
      {"JSONEncoder.encode", STD "json/encoder.py", 200, 183},
      {"JSONEncoder.iterencode", STD "json/encoder.py", 261, 205}}},
    {40,
     {{"api_orders", "/srv/shop/api.py", 27, 20},
      {"Order.total", "/srv/shop/models.py", 77, 70},
      {"Decimal.quantize", STD "_pydecimal.py", 2519, 2480}}},
    {70,
     {{"check_token", "/srv/shop/auth.py", 19, 12},
      {"decode", SITE "jwt/api_jwt.py", 210, 180},
      {"loads", STD "json/__init__.py", 346, 299},
      {"JSONDecoder.decode", STD "json/decoder.py", 345, 340}}},
    {35,
     {{"check_token", "/srv/shop/auth.py", 22, 12}, {"compare_digest", "/srv/shop/auth.py", 9, 8}}},
    {25,
     {{"static", "/srv/shop/views.py", 12, 10}, {"Pattern.sub", STD "re/__init__.py", 208, 179}}},
    {8, {{"favicon", "/srv/shop/views.py", 7, 6}}},
    {4, {{"health", "/srv/shop/views.py", 3, 2}}},
    {2,
     {{"metrics", "/srv/shop/metrics.py", 30, 28},
      {"generate_latest", SITE "prometheus_client/exposition.py", 188, 150}}},
    {0,
     {{"basket", "/srv/shop/views.py", 55, 44},
      {"load_items_cached", "/srv/shop/cache.py", 31, 25},
      {"loads", STD "pickle.py", 1764, 1760}}},
};

/* In its next version it computes discounts slowly, encodes JSON faster, and has a cache instead of
 * the database. */
static bool next_version;

static uint32_t weight_of(size_t i)
{
    static const struct {
        size_t request;
        uint32_t weight;
    } changed[] = {{0, 400}, {3, 0}, {4, 0}, {5, 40}, {13, 60}};
    for (size_t c = 0; next_version && c < ARRAY_LEN(changed); c++)
        if (changed[c].request == i)
            return changed[c].weight;
    return (uint32_t)requests[i].weight;
}

static uint32_t request(uint32_t stack)
{
    uint32_t all = 0, chosen = 0;
    for (size_t i = 0; i < ARRAY_LEN(requests); i++)
        all += weight_of(i);
    uint32_t left = random_below(all);
    while (left >= weight_of(chosen))
        left -= weight_of(chosen++);
    size_t depth = 0;
    while (depth < 8 && requests[chosen].steps[depth].name)
        depth++;
    if (random_below(6) == 0)
        depth = 1 + random_below((uint32_t)depth); /* caught on the way */
    for (size_t i = 0; i < depth; i++) {
        const struct step *s = &requests[chosen].steps[i];
        stack = call_line(stack, s->name, s->file, s->line, s->first);
        if (i == 2 && chosen == 3 && random_below(2))
            return native(stack, "PQexec", "/usr/lib/libpq.so.5");
    }
    return stack;
}

/* A main thread that serves, a pool thread that sends mail. */
static void make_web(struct rec_summary *sum)
{
    uint32_t of = process(4711, 1, "/usr/bin/python3 -m gunicorn shop.wsgi:app --workers 4");
    uint32_t main = thread(of, 4711, "MainThread"), pool = thread(of, 4720, "mail_0");
    uint32_t base = call(REC_EMPTY_STACK, "<module>", "/srv/shop/wsgi.py", 12);
    base = call(base, "BaseApplication.run", SITE "gunicorn/app/base.py", 71);
    base = call(base, "SyncWorker.run", SITE "gunicorn/workers/sync.py", 125);
    base = call(base, "Flask.wsgi_app", SITE "flask/app.py", 1511);
    uint32_t idle = call(base, "SyncWorker.accept", SITE "gunicorn/workers/sync.py", 27);
    uint32_t mail = call(REC_EMPTY_STACK, "Thread._bootstrap", STD "threading.py", 1014);
    mail = call(mail, "_worker", STD "concurrent/futures/thread.py", 93);
    mail = call(mail, "send_receipt", "/srv/shop/mail.py", 22);
    uint32_t tls = native(call(mail, "SMTP.starttls", STD "smtplib.py", 771), "SSL_do_handshake",
                          "/usr/lib/libssl.so.3");
    for (uint64_t ms = 10; ms <= 30000; ms += 10) {
        sample(ms, 10, main, random_below(40) ? request(base) : idle);
        if (ms % 5000 < 900)
            sample(ms, 10, pool, random_below(3) ? tls : mail);
    }
    *sum = (struct rec_summary){.duration = 30000 * MS, .samples = 3540, .torn = 2, .late = 5};
}

static void make_web_next(struct rec_summary *sum)
{
    next_version = true;
    make_web(sum);
}

/* Ten thousand deep, and the samples end at different depths. */
static void make_deep(struct rec_summary *sum)
{
    uint32_t main = thread(process(100, 1, "python deep.py"), 100, "MainThread");
    uint32_t stack = call(REC_EMPTY_STACK, "<module>", "/srv/deep.py", 9), stacks[10001];
    for (size_t i = 0; i <= 10000; i++)
        stacks[i] = stack = call(stack, "down", "/srv/deep.py", 4);
    for (uint64_t i = 1; i <= 50; i++)
        sample(i * 10, 10, main, stacks[10000 - 7 * i]);
    *sum = (struct rec_summary){.duration = 500 * MS, .samples = 50};
}

/* Forty thousand samples, nearly every one on a stack of its own. */
static void make_huge(struct rec_summary *sum)
{
    uint32_t main = thread(process(100, 1, "python huge.py"), 100, "MainThread");
    uint32_t base = call(REC_EMPTY_STACK, "<module>", "/srv/huge.py", 9);
    char name[64];
    for (uint64_t i = 1; i <= 40000; i++) {
        uint32_t stack = base;
        for (int depth = 0; depth < 12; depth++) {
            snprintf(name, sizeof(name), "function_number_%u", random_below(depth < 2 ? 5 : 40));
            stack = call(stack, name, "/srv/package/module_with_a_name.py", 7);
        }
        sample(i, 1, main, stack);
    }
    *sum = (struct rec_summary){.duration = 40000 * MS, .samples = 40000};
}

/* One thread that works, waits and collects garbage in the same place. */
static void make_waiting(struct rec_summary *sum)
{
    uint32_t main = thread(process(100, 1, "python3 /srv/app.py"), 100, "MainThread");
    uint32_t module = call(REC_EMPTY_STACK, "<module>", "/srv/app.py", 40);
    uint32_t get = call(module, "get", "/srv/queue.py", 12);
    sample(10, 10, main, get);
    sample_as(20, 10, main, get, 0);
    sample_as(30, 10, main, get, 0);
    sample_as(40, 10, main, get, REC_ACTIVE | REC_GC);
    sample(50, 10, main, get);
    sample_as(60, 10, main, module, 0);
    *sum = (struct rec_summary){.duration = 60 * MS, .samples = 6};
}

static const struct {
    const char *name;
    void (*make)(struct rec_summary *sum);
    uint32_t options;
} cases[] = {
    {"cpu", make_basic, REC_OPT_CPU},
    {"varied", make_basic, REC_OPT_VARIED},
    {"basic", make_basic, 0},
    {"deep", make_deep, 0},
    {"empty", make_empty, 0},
    {"gil", make_empty, REC_OPT_GIL},
    {"hostile", make_hostile, 0},
    {"huge", make_huge, 0},
    {"idle", make_empty, REC_OPT_IDLE},
    {"waiting", make_waiting, REC_OPT_IDLE},
    {"web", make_web, 0},
    {"web-next", make_web_next, 0},
};

static FILE *make(const char *name)
{
    FILE *file = tmpfile();
    struct rec_info info = {.command = "scry record --secret-of-scry",
                            .host = "host",
                            .start_unix_ns = 1700000000 * SCRY_NSEC_PER_SEC,
                            .rate = 100};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        if (strcmp(cases[i].name, name) != 0)
            continue;
        info.options = cases[i].options;
        if (!file || rec_writer_new(file, &info, &w) < 0)
            fail("no recording can be made");
        struct rec_summary sum;
        cases[i].make(&sum);
        if (rec_writer_finish(w, &sum) < 0)
            fail("the recording cannot be finished");
        rec_writer_free(w);
        return file;
    }
    fclose(file);
    return NULL;
}

static struct format_options options_from(char **argv)
{
    struct format_options options = {.title = "", .tool = "scry"};
    for (; *argv; argv++) {
        if (strcmp(*argv, "--threads") == 0)
            options.threads = true;
        else if (strcmp(*argv, "--processes") == 0)
            options.processes = true;
        else if (strcmp(*argv, "--function") == 0)
            options.lines = LINES_FUNCTION;
        else if (strcmp(*argv, "--nolineno") == 0)
            options.lines = LINES_NONE;
        else if (strcmp(*argv, "--full-filenames") == 0)
            options.full_filenames = true;
        else
            fail("unknown option");
    }
    return options;
}

int main(int argc, char **argv)
{
    if (argc < 4)
        fail("usage: make_profile CASE|FILE.scry FORMAT OUTPUT [OPTION...]");
    struct format_options options = options_from(argv + 4);
    const struct format *format = format_find(argv[2]);
    if (!format)
        fail("unknown format");
    struct recording *recording;
    struct error err = {0};
    FILE *in = make(argv[1]);
    int r = in ? recording_open_stream(in, &recording, &err)
               : recording_open((const char *const *)&argv[1], 1, &recording, &err);
    if (r < 0)
        fail(error_text(&err));
    FILE *out = fopen(argv[3], "w");
    if (!out)
        fail("the output cannot be opened");
    if (format->write(recording, &options, out, &err) < 0)
        fail(error_text(&err));
    recording_close(recording);
    if (in)
        fclose(in);
    return fclose(out) == 0 ? 0 : 1;
}
