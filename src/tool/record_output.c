#include "tool/record.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "util/buf.h"

#define NAME_MAX_KEPT 100

/* The file name of a path, without what would make a file hard to name. */
static void add_base_name(struct buf *to, const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash && slash[1] ? slash + 1 : path;
    for (size_t i = 0; name[i] && i < NAME_MAX_KEPT; i++) {
        unsigned char c = (unsigned char)name[i];
        bool plain = isalnum(c) || c >= 0x80 || strchr("._+", c) || (c == '-' && i > 0);
        buf_add_char(to, plain ? (char)c : '_');
    }
}

char *record_default_name(const char *program, pid_t pid, const char *extension)
{
    struct buf name;
    buf_init(&name);
    if (program)
        add_base_name(&name, program);
    else
        buf_addf(&name, "%d", pid);
    time_t now = time(NULL);
    struct tm local;
    char stamp[32] = "";
    if (localtime_r(&now, &local))
        strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H%M%S", &local);
    buf_addf(&name, "-%s.%s", stamp, extension);
    return buf_detach(&name);
}

int record_open_temporary(FILE **ret_file, struct error *err)
{
    const char *folder = getenv("TMPDIR");
    if (!folder || !*folder)
        folder = "/tmp";
    int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0) {
        /* File systems without nameless files: make one and take its name away. */
        char path[PATH_MAX];
        snprintf(path, sizeof(path), "%s/scry.XXXXXX", folder);
        fd = mkostemp(path, O_CLOEXEC);
        if (fd >= 0)
            unlink(path);
    }
    FILE *file = fd >= 0 ? fdopen(fd, "w+") : NULL;
    if (!file) {
        error_set(err, -SCRY_E_OUTPUT, "cannot keep the recording in '%s': %m", folder);
        error_hint(err, "name a folder that can be written to in TMPDIR");
        if (fd >= 0)
            close(fd);
        return -SCRY_E_OUTPUT;
    }
    *ret_file = file;
    return 0;
}

int record_check_terminal(const struct format *format, const struct outfile *out, struct error *err)
{
    if (!format->binary || !isatty(fileno(out->file)))
        return 0;
    error_set(err, -SCRY_E_USAGE, "%s is binary and not for a terminal", format->what);
    error_hint(err, "name a file with -o, or redirect the output");
    return -SCRY_E_USAGE;
}

/* A number in the environment, as sudo sets it; -1 without one. */
static long id_from(const char *variable)
{
    const char *text = getenv(variable);
    if (!text || !isdigit((unsigned char)*text))
        return -1;
    char *end;
    errno = 0;
    long id = strtol(text, &end, 10);
    return errno == 0 && *end == '\0' && id <= INT_MAX ? id : -1;
}

void record_give_to_owner(const struct outfile *out)
{
    if (geteuid() != 0 || !out->temp)
        return;
    struct stat st;
    long uid = id_from("SUDO_UID"), gid = id_from("SUDO_GID");
    if (stat(out->path, &st) == 0) {
        uid = (long)st.st_uid;
        gid = (long)st.st_gid;
    }
    /* Not worth failing for: the file is still there, and root's. */
    if (uid >= 0 && fchown(fileno(out->file), (uid_t)uid, gid >= 0 ? (gid_t)gid : (gid_t)-1) != 0)
        return;
}
