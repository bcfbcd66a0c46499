/* Opening a core file. It is mapped, so that only what is looked at is read. A compressed one is
 * unpacked first, into a file that has no name and is gone when scry is; stretches of zeroes take no
 * room in it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "binary/core.h"

#define CHUNK        (1u << 16)
#define UNPACKED_MAX (1ULL << 42) /* the file's length, most of it perhaps zeroes ... */
#define STORED_MAX   (1ULL << 38) /* ... and what it takes on the disk */

struct unpacked {
    int fd;
    uint64_t len, stored;
    const char *name;
    struct error *err;
};

static int too_large(struct unpacked *u)
{
    error_set(u->err, -SCRY_E_BAD_FILE, "'%.500s' unpacks to more than scry is ready for", u->name);
    error_hint(u->err, "unpack it yourself and name the unpacked file");
    return -SCRY_E_BAD_FILE;
}

static int add(struct unpacked *u, const unsigned char *data, size_t len)
{
    bool zeroes = len && !data[0] && memcmp(data, data + 1, len - 1) == 0;
    uint64_t at = u->len;
    u->len += len;
    if (u->len > UNPACKED_MAX)
        return too_large(u);
    if (zeroes)
        return 0;
    u->stored += len;
    if (u->stored > STORED_MAX)
        return too_large(u);
    while (len) {
        ssize_t n = pwrite(u->fd, data, len, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            error_set(u->err, -SCRY_E_OUTPUT, "'%.500s' cannot be unpacked: %s", u->name,
                      strerror(n < 0 ? errno : ENOSPC));
            error_hint(u->err, "set TMPDIR to a folder with more room");
            return -SCRY_E_OUTPUT;
        }
        data += n;
        at += (uint64_t)n;
        len -= (size_t)n;
    }
    return 0;
}

/* One that is cut off still gives what there is; parsing says what is missing. */
static int unpack_gzip(int fd, struct unpacked *u)
{
    unsigned char chunk[CHUNK];
    int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    gzFile in = own >= 0 ? gzdopen(own, "rb") : NULL;
    if (!in) {
        if (own >= 0)
            close(own);
        return error_set(u->err, -SCRY_E_NO_MEMORY, "out of memory");
    }
    int r = 0, n;
    while (r == 0 && (n = gzread(in, chunk, sizeof(chunk))) > 0)
        r = add(u, chunk, (size_t)n);
    gzclose(in);
    return r;
}

static int unpack_zstd(int fd, struct unpacked *u)
{
    unsigned char from[CHUNK], to[CHUNK];
    ZSTD_DCtx *z = ZSTD_createDCtx();
    if (!z)
        return error_set(u->err, -SCRY_E_NO_MEMORY, "out of memory");
    int r = 0;
    for (ssize_t n; r == 0 && (n = read(fd, from, sizeof(from))) > 0;) {
        ZSTD_inBuffer in = {from, (size_t)n, 0};
        while (r == 0 && in.pos < in.size) {
            ZSTD_outBuffer out = {to, sizeof(to), 0};
            if (ZSTD_isError(ZSTD_decompressStream(z, &out, &in)))
                goto end;
            r = add(u, to, out.pos);
        }
    }
end:
    ZSTD_freeDCtx(z);
    return r;
}

static int open_temporary(const char *name, struct error *err)
{
    const char *folder = getenv("TMPDIR");
    char path[4096];
    if (!folder || !*folder)
        folder = "/var/tmp";
    int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0 && snprintf(path, sizeof(path), "%s/scry-XXXXXX", folder) < (int)sizeof(path) &&
        (fd = mkostemp(path, O_CLOEXEC)) >= 0)
        unlink(path);
    if (fd >= 0)
        return fd;
    error_set(err, -SCRY_E_IO, "'%.500s' cannot be unpacked into '%.500s': %s", name, folder,
              strerror(errno));
    error_hint(err, "set TMPDIR to a folder that can be written to");
    return -SCRY_E_IO;
}

int core_unpack(int fd, const char *name, bool gzip, struct error *err)
{
    struct unpacked u = {.fd = open_temporary(name, err), .name = name, .err = err};
    if (u.fd < 0)
        return u.fd;
    int r = gzip ? unpack_gzip(fd, &u) : unpack_zstd(fd, &u);
    if (r == 0 && ftruncate(u.fd, (off_t)u.len) < 0)
        r = error_set(err, -SCRY_E_OUTPUT, "'%.500s' cannot be unpacked: %s", name,
                      strerror(errno));
    if (r < 0) {
        close(u.fd);
        return r;
    }
    return u.fd;
}

static int cannot_open(const char *path, const char *why, struct error *err)
{
    error_set(err, -SCRY_E_IO, "the core file '%.500s' cannot be read: %s", path, why);
    error_hint(err,
               "check the name; where the kernel puts them is in /proc/sys/kernel/core_pattern");
    return -SCRY_E_IO;
}

/* The file itself, or an unpacked copy. Takes over `fd`. */
static int unpack_if_needed(int fd, const char *path, struct error *err)
{
    unsigned char magic[6] = {0};
    ssize_t n = pread(fd, magic, sizeof(magic), 0);
    bool gzip = n >= 2 && memcmp(magic, "\x1f\x8b", 2) == 0;
    bool zstd = n >= 4 && memcmp(magic, "\x28\xb5\x2f\xfd", 4) == 0;
    const char *other = n >= 6 && memcmp(magic,
                                         "\xfd"
                                         "7zXZ",
                                         6) == 0
                            ? "xz"
                        : n >= 4 && memcmp(magic, "\x04\x22\x4d\x18", 4) == 0 ? "lz4"
                                                                              : NULL;
    if (other) {
        close(fd);
        error_set(err, -SCRY_E_BAD_FILE,
                  "'%.500s' is compressed with %s, which scry does not unpack", path, other);
        error_hint(err, "unpack it first: %s -d", other);
        return -SCRY_E_BAD_FILE;
    }
    if (!gzip && !zstd)
        return fd;
    int unpacked = core_unpack(fd, path, gzip, err);
    close(fd);
    return unpacked;
}

static int map_file(int fd, const char *path, struct core *ret, struct error *err)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return cannot_open(path, strerror(errno), err);
    if (st.st_size == 0)
        return core_parse("", 0, path, ret, err);
    size_t size = (size_t)st.st_size;
    void *data = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED)
        return cannot_open(path, strerror(errno), err);
    int r = core_parse(data, size, path, ret, err);
    if (r < 0)
        munmap(data, size);
    else
        ret->mapped = true;
    return r;
}

int core_open(const char *path, struct core *ret_core, struct error *err)
{
    struct stat st;
    /* Never waits for somebody to write into a fifo. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return cannot_open(path, strerror(errno), err);
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        close(fd);
        return cannot_open(path, "it is no ordinary file", err);
    }
    fd = unpack_if_needed(fd, path, err);
    if (fd < 0)
        return fd;
    int r = map_file(fd, path, ret_core, err);
    close(fd);
    return r;
}

void core_close(struct core *core)
{
    free(core->segments);
    free(core->files);
    free(core->threads);
    free(core->paths);
    if (core->mapped)
        munmap((void *)(uintptr_t)core->data, core->size);
    *core = (struct core){0};
}
