#include "http/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "http/reply.h"

#define DAY_MS (24 * 3600 * 1000LL)

struct store {
    pthread_mutex_t lock;
    char *folder;
    int lock_fd;
    sqlite3 *db;
    struct store_limits limits;
};

/* NORMAL: what is entered survives the end of this process, however it ends, and waits for no disk.
 * Only a power cut can take the last entries along. */
static const char schema[] =
    "PRAGMA journal_mode=WAL;"
    "PRAGMA synchronous=NORMAL;"
    "PRAGMA wal_autocheckpoint=1000;"
    "CREATE TABLE IF NOT EXISTS recordings ("
    " id TEXT PRIMARY KEY, created INTEGER NOT NULL, state TEXT NOT NULL, size INTEGER NOT NULL,"
    " pinned INTEGER NOT NULL, search TEXT NOT NULL, places TEXT NOT NULL, doc TEXT NOT NULL)"
    " WITHOUT ROWID;"
    "CREATE INDEX IF NOT EXISTS by_time ON recordings (created, id);"
    "PRAGMA user_version=1;";

static int failed(struct store *s, struct error *err, const char *what)
{
    int code = sqlite3_extended_errcode(s->db);
    error_set(err, -SCRY_E_IO, "%s: the store in '%s' says: %s", what, s->folder,
              sqlite3_errmsg(s->db));
    error_hint(err, "%s",
               (code & 0xff) == SQLITE_FULL ? "make room on its disk, or delete recordings"
                                            : "look after its disk");
    return -SCRY_E_IO;
}

/* ---- opening ---- */

/* mkdir -p, what is new for its owner alone. */
static int make_folder(const char *path, struct error *err)
{
    char *copy = strdup(path);
    int r = copy ? 0 : -SCRY_E_NO_MEMORY;
    for (char *s = copy ? copy + 1 : NULL; s && r == 0;) {
        s = strchr(s, '/');
        if (s)
            *s = '\0';
        if (mkdir(copy, 0700) != 0 && errno != EEXIST)
            r = error_set(err, -SCRY_E_OUTPUT, "cannot make the folder '%s': %s", copy,
                          strerror(errno));
        if (s)
            *s++ = '/';
    }
    free(copy);
    return r;
}

static int take_folder(struct store *s, struct error *err)
{
    char *path;
    if (asprintf(&path, "%s/lock", s->folder) < 0)
        return -SCRY_E_NO_MEMORY;
    s->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    free(path);
    if (s->lock_fd < 0)
        return error_set(err, -SCRY_E_OUTPUT, "cannot write to the folder '%s': %s", s->folder,
                         strerror(errno));
    if (flock(s->lock_fd, LOCK_EX | LOCK_NB) != 0) {
        error_set(err, -SCRY_E_OUTPUT, "another server uses the folder '%s'", s->folder);
        error_hint(err, "give this one a folder of its own with --data-dir");
        return -SCRY_E_OUTPUT;
    }
    return 0;
}

static int open_db(struct store *s, struct error *err)
{
    char *path;
    if (asprintf(&path, "%s/scry.db", s->folder) < 0)
        return -SCRY_E_NO_MEMORY;
    int rc = sqlite3_open_v2(path, &s->db,
                             SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX |
                                 SQLITE_OPEN_NOFOLLOW,
                             NULL);
    free(path);
    if (rc == SQLITE_OK)
        sqlite3_busy_timeout(s->db, 2000);
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(s->db, schema, NULL, NULL, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(s->db, "PRAGMA quick_check", NULL, NULL, NULL);
    return rc == SQLITE_OK ? 0 : failed(s, err, "cannot open it");
}

int store_open(const char *folder, const struct store_limits *limits, struct store **ret,
               struct error *err)
{
    struct store *s = calloc(1, sizeof(*s));
    if (!s)
        return error_set(err, -SCRY_E_NO_MEMORY, "out of memory");
    pthread_mutex_init(&s->lock, NULL);
    s->lock_fd = -1;
    s->limits = *limits;
    char *files = NULL;
    int r = make_folder(folder, err);
    if (r == 0 &&
        (asprintf(&s->folder, "%s", folder) < 0 || asprintf(&files, "%s/recordings", folder) < 0))
        r = error_set(err, -SCRY_E_NO_MEMORY, "out of memory");
    if (r == 0)
        r = make_folder(files, err);
    if (r == 0)
        r = take_folder(s, err);
    if (r == 0)
        r = open_db(s, err);
    free(files);
    if (r < 0) {
        store_close(s);
        return r;
    }
    *ret = s;
    return 0;
}

void store_close(struct store *s)
{
    if (!s)
        return;
    sqlite3_close(s->db);
    if (s->lock_fd >= 0)
        close(s->lock_fd);
    pthread_mutex_destroy(&s->lock);
    free(s->folder);
    free(s);
}

/* ---- names ---- */

void store_new_id(char to[static STORE_ID_MAX])
{
    struct timespec now;
    struct tm utc;
    uint32_t chance = 0;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    if (getrandom(&chance, sizeof(chance), 0) != sizeof(chance))
        chance = (uint32_t)now.tv_nsec;
    size_t n = strftime(to, STORE_ID_MAX, "%Y%m%d-%H%M%S", &utc);
    snprintf(to + n, STORE_ID_MAX - n, "-%03d-%08x", (int)(now.tv_nsec / 1000000), chance);
}

bool store_id_valid(const char *id)
{
    size_t len = strlen(id);
    return len > 0 && len < STORE_ID_MAX &&
           id[strspn(id, "0123456789abcdefghijklmnopqrstuvwxyz-")] == '\0';
}

char *store_path(const struct store *s, const char *id, size_t part)
{
    char *path;
    return asprintf(&path, "%s/recordings/%s.%zu.scry", s->folder, id, part) < 0 ? NULL : path;
}

const char *store_folder(const struct store *s)
{
    return s->folder;
}

/* ---- rows ---- */

static void bind_text(sqlite3_stmt *q, int at, const char *text)
{
    sqlite3_bind_text(q, at, text, -1, SQLITE_TRANSIENT);
}

/* Runs a statement that gives nothing back. */
static int run(struct store *s, sqlite3_stmt *q, struct error *err, const char *what)
{
    int rc = q ? sqlite3_step(q) : SQLITE_ERROR;
    int r = rc == SQLITE_DONE || rc == SQLITE_ROW ? 0 : failed(s, err, what);
    sqlite3_finalize(q);
    return r;
}

static sqlite3_stmt *prepare(struct store *s, const char *text)
{
    sqlite3_stmt *q = NULL;
    return sqlite3_prepare_v2(s->db, text, -1, &q, NULL) == SQLITE_OK ? q : NULL;
}

int store_put(struct store *s, const struct store_row *row, struct error *err)
{
    pthread_mutex_lock(&s->lock);
    sqlite3_stmt *q = prepare(s, "INSERT OR REPLACE INTO recordings "
                                 "(id, created, state, size, pinned, search, places, doc) "
                                 "VALUES (?, ?, ?, ?, ?, ?, ?, ?)");
    if (q) {
        bind_text(q, 1, row->id);
        sqlite3_bind_int64(q, 2, row->created);
        bind_text(q, 3, row->state);
        sqlite3_bind_int64(q, 4, (sqlite3_int64)row->size);
        sqlite3_bind_int(q, 5, row->pinned);
        bind_text(q, 6, row->search);
        bind_text(q, 7, row->places);
        bind_text(q, 8, row->doc);
    }
    int r = run(s, q, err, "the recording cannot be entered");
    pthread_mutex_unlock(&s->lock);
    return r;
}

int store_update(struct store *s, const struct store_row *row, struct error *err)
{
    pthread_mutex_lock(&s->lock);
    sqlite3_stmt *q = prepare(s, "UPDATE recordings SET state = ?2, size = ?3, pinned = ?4, "
                                 "search = ?5, places = ?6, doc = ?7 WHERE id = ?1");
    if (q) {
        bind_text(q, 1, row->id);
        bind_text(q, 2, row->state);
        sqlite3_bind_int64(q, 3, (sqlite3_int64)row->size);
        sqlite3_bind_int(q, 4, row->pinned);
        bind_text(q, 5, row->search);
        bind_text(q, 6, row->places);
        bind_text(q, 7, row->doc);
    }
    int r = run(s, q, err, "the recording cannot be changed");
    pthread_mutex_unlock(&s->lock);
    return r;
}

int store_get(struct store *s, const char *id, struct buf *doc, struct error *err)
{
    pthread_mutex_lock(&s->lock);
    sqlite3_stmt *q = prepare(s, "SELECT doc FROM recordings WHERE id = ?");
    int r = q ? -SCRY_E_NO_PROCESS : failed(s, err, "the recording cannot be read");
    if (q) {
        bind_text(q, 1, id);
        if (sqlite3_step(q) == SQLITE_ROW) {
            buf_add_str(doc, (const char *)sqlite3_column_text(q, 0));
            r = 0;
        }
        sqlite3_finalize(q);
    }
    pthread_mutex_unlock(&s->lock);
    return r;
}

/* The files of a recording: their number is not known here, so they are looked for by name. */
static void remove_files(struct store *s, const char *id)
{
    char *folder;
    if (asprintf(&folder, "%s/recordings", s->folder) < 0)
        return;
    DIR *dir = opendir(folder);
    size_t len = strlen(id);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        const char *name = e->d_name + (e->d_name[0] == '.'); /* a temporary file */
        if (strncmp(name, id, len) == 0 && name[len] == '.')
            unlinkat(dirfd(dir), e->d_name, 0);
    }
    if (dir)
        closedir(dir);
    free(folder);
}

static int remove_locked(struct store *s, const char *id, struct error *err)
{
    sqlite3_stmt *q = prepare(s, "DELETE FROM recordings WHERE id = ?");
    if (q)
        bind_text(q, 1, id);
    /* The files first: an entry without data is found and mended, data without an entry is not. */
    remove_files(s, id);
    return run(s, q, err, "the recording cannot be removed");
}

int store_remove(struct store *s, const char *id, struct error *err)
{
    pthread_mutex_lock(&s->lock);
    int r = remove_locked(s, id, err);
    pthread_mutex_unlock(&s->lock);
    return r;
}

/* ---- lists ---- */

#define WHERE                                                                                      \
    " FROM recordings WHERE (?1 IS NULL OR instr(search, ?1) > 0)"                                 \
    " AND (?2 IS NULL OR state = ?2) AND (?3 IS NULL OR instr(places, ?3) > 0)"                    \
    " AND (?4 IS NULL OR instr(places, ?4) > 0)"

static void bind_filter(sqlite3_stmt *q, const struct store_filter *f)
{
    char text[300];
    if (f->q) {
        snprintf(text, sizeof(text), "%s", f->q);
        for (char *c = text; *c; c++)
            if (*c >= 'A' && *c <= 'Z')
                *c |= 0x20;
        bind_text(q, 1, text);
    }
    if (f->state)
        bind_text(q, 2, f->state);
    if (f->node) {
        snprintf(text, sizeof(text), " %s:", f->node);
        bind_text(q, 3, text);
    }
    if (f->pid) {
        snprintf(text, sizeof(text), ":%lld ", (long long)f->pid);
        bind_text(q, 4, text);
    }
}

static int count_all(struct store *s, const struct store_filter *f, size_t *ret)
{
    sqlite3_stmt *q = prepare(s, "SELECT count(*)" WHERE);
    int rc = SQLITE_ERROR;
    if (q) {
        bind_filter(q, f);
        rc = sqlite3_step(q);
        if (rc == SQLITE_ROW)
            *ret = (size_t)sqlite3_column_int64(q, 0);
    }
    sqlite3_finalize(q);
    return rc == SQLITE_ROW ? 0 : -1;
}

int store_list(struct store *s, const struct store_filter *filter,
               void (*each)(void *context, const char *id, const char *doc), void *context,
               size_t *ret_total, struct error *err)
{
    pthread_mutex_lock(&s->lock);
    int rc = SQLITE_ERROR;
    sqlite3_stmt *q =
        prepare(s, "SELECT id, doc" WHERE " AND (?5 IS NULL OR id < ?5) ORDER BY id DESC LIMIT ?6");
    if (q && count_all(s, filter, ret_total) == 0) {
        bind_filter(q, filter);
        if (filter->before)
            bind_text(q, 5, filter->before);
        sqlite3_bind_int64(q, 6, (sqlite3_int64)filter->limit);
        while ((rc = sqlite3_step(q)) == SQLITE_ROW)
            each(context, (const char *)sqlite3_column_text(q, 0),
                 (const char *)sqlite3_column_text(q, 1));
    }
    int r = rc == SQLITE_DONE ? 0 : failed(s, err, "the recordings cannot be listed");
    sqlite3_finalize(q);
    pthread_mutex_unlock(&s->lock);
    return r;
}

int store_unfinished(struct store *s, void (*each)(void *context, const char *doc), void *context)
{
    /* Collected first: `each` writes. */
    struct buf all;
    buf_init(&all);
    pthread_mutex_lock(&s->lock);
    sqlite3_stmt *q =
        prepare(s, "SELECT doc FROM recordings WHERE state IN ('queued', 'recording')");
    while (q && sqlite3_step(q) == SQLITE_ROW) {
        const char *doc = (const char *)sqlite3_column_text(q, 0);
        buf_add(&all, doc, strlen(doc) + 1);
    }
    sqlite3_finalize(q);
    pthread_mutex_unlock(&s->lock);
    for (size_t at = 0; at < all.len; at += strlen(all.data + at) + 1)
        each(context, all.data + at);
    buf_done(&all);
    return q ? 0 : -SCRY_E_IO;
}

/* ---- keeping within the limits ---- */

static sqlite3_int64 ask_number(struct store *s, const char *text)
{
    sqlite3_stmt *q = prepare(s, text);
    sqlite3_int64 number = 0;
    if (q && sqlite3_step(q) == SQLITE_ROW)
        number = sqlite3_column_int64(q, 0);
    sqlite3_finalize(q);
    return number;
}

/* The oldest that may go; "" = none. */
static void oldest(struct store *s, int64_t before, char id[static STORE_ID_MAX])
{
    sqlite3_stmt *q =
        prepare(s, "SELECT id FROM recordings WHERE pinned = 0 AND created < ? AND state NOT IN "
                   "('queued', 'recording') ORDER BY id LIMIT 1");
    id[0] = '\0';
    if (q) {
        sqlite3_bind_int64(q, 1, before);
        if (sqlite3_step(q) == SQLITE_ROW)
            snprintf(id, STORE_ID_MAX, "%s", (const char *)sqlite3_column_text(q, 0));
    }
    sqlite3_finalize(q);
}

void store_tidy(struct store *s)
{
    char id[STORE_ID_MAX];
    pthread_mutex_lock(&s->lock);
    int64_t too_old = reply_now() - (int64_t)s->limits.days * DAY_MS;
    for (;;) {
        oldest(s, too_old, id);
        if (!id[0] || remove_locked(s, id, NULL) < 0)
            break;
    }
    while ((uint64_t)ask_number(s, "SELECT total(size) FROM recordings") > s->limits.bytes) {
        oldest(s, INT64_MAX, id);
        if (!id[0] || remove_locked(s, id, NULL) < 0)
            break;
    }
    pthread_mutex_unlock(&s->lock);
}

void store_usage(struct store *s, uint64_t *ret_bytes, uint64_t *ret_recordings)
{
    pthread_mutex_lock(&s->lock);
    *ret_bytes = (uint64_t)ask_number(s, "SELECT total(size) FROM recordings");
    *ret_recordings = (uint64_t)ask_number(s, "SELECT count(*) FROM recordings");
    pthread_mutex_unlock(&s->lock);
}

bool store_works(struct store *s)
{
    pthread_mutex_lock(&s->lock);
    bool works = ask_number(s, "PRAGMA user_version") == 1;
    pthread_mutex_unlock(&s->lock);
    return works;
}
