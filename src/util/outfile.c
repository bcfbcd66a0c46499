#include "util/outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int cannot(struct error *err, const char *path, int why)
{
    error_set(err, -SCRY_E_OUTPUT, "cannot write to '%s': %s", path, strerror(why));
    if (why == ENOENT)
        error_hint(err, "create the folder first, or choose another path with -o");
    else if (why == EISDIR)
        error_hint(err, "name a file inside it with -o");
    else
        error_hint(err, "choose another path with -o");
    return -SCRY_E_OUTPUT;
}

static int open_directly(struct outfile *o, const char *path, struct error *err)
{
    int fd = strcmp(path, "-") == 0 ? fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3)
                                    : open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return cannot(err, path, errno);
    o->file = fdopen(fd, "w");
    if (!o->file) {
        int why = errno;
        close(fd);
        return cannot(err, path, why);
    }
    return 0;
}

/* Write through a symbolic link to the file behind it, so that the link stays. */
static char *final_path(const char *path)
{
    char *real = realpath(path, NULL);
    return real ? real : strdup(path);
}

static int open_temporary(struct outfile *o, mode_t mode, struct error *err)
{
    char *target = final_path(o->path);
    int length = target ? asprintf(&o->temp, "%s.XXXXXX.part", target) : -1;
    free(target);
    if (length < 0) {
        o->temp = NULL;
        return error_set(err, -SCRY_E_NO_MEMORY, "out of memory");
    }
    int fd = mkostemps(o->temp, 5, O_CLOEXEC);
    if (fd < 0) {
        int why = errno;
        free(o->temp);
        o->temp = NULL;
        return cannot(err, o->path, why);
    }
    fchmod(fd, mode);
    o->file = fdopen(fd, "w");
    if (o->file)
        return 0;
    int why = errno;
    close(fd);
    return cannot(err, o->path, why);
}

int outfile_open(struct outfile *o, const char *path, struct error *err)
{
    *o = (struct outfile){0};
    o->path = strdup(path);
    if (!o->path)
        return error_set(err, -SCRY_E_NO_MEMORY, "out of memory");

    struct stat st;
    bool exists = stat(path, &st) == 0;
    int r;
    if (exists && S_ISDIR(st.st_mode)) {
        r = cannot(err, path, EISDIR);
    } else if (strcmp(path, "-") == 0 || (exists && !S_ISREG(st.st_mode))) {
        r = open_directly(o, path, err);
    } else if (exists && access(path, W_OK) != 0) {
        r = cannot(err, path, errno);
    } else {
        mode_t mask = umask(0);
        umask(mask);
        r = open_temporary(o, exists ? (st.st_mode & 0777) : (0666 & ~mask), err);
    }
    if (r < 0)
        outfile_abandon(o);
    return r;
}

int outfile_commit(struct outfile *o, struct error *err)
{
    int why = 0;
    if (ferror(o->file))
        why = EIO;
    if (fflush(o->file) != 0)
        why = errno;
    if (fclose(o->file) != 0 && !why)
        why = errno;
    o->file = NULL;
    if (!why && o->temp) {
        char *target = final_path(o->path);
        if (!target || rename(o->temp, target) != 0)
            why = target ? errno : ENOMEM;
        free(target);
        if (!why) {
            unlink(o->temp); /* if it was published it is the same file, and rename left it alone */
            free(o->temp);
            o->temp = NULL;
        }
    }
    int r = why ? cannot(err, o->path, why) : 0;
    outfile_abandon(o);
    return r;
}

bool outfile_publish(struct outfile *o)
{
    char *target = o->temp && fflush(o->file) == 0 ? final_path(o->path) : NULL;
    char *second = NULL;
    bool done = false;
    if (target && asprintf(&second, "%s.now", o->temp) >= 0) {
        /* By way of a second name, because a link replaces nothing. */
        done = link(o->temp, second) == 0 && rename(second, target) == 0;
        unlink(second); /* also where it was published before: rename left it alone */
        free(second);
    }
    free(target);
    return done;
}

void outfile_abandon(struct outfile *o)
{
    if (o->file)
        fclose(o->file);
    if (o->temp)
        unlink(o->temp);
    free(o->temp);
    free(o->path);
    *o = (struct outfile){0};
}
