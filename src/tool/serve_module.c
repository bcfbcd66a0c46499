/* Where the server is looked for: relative to the program, however it was called, so that a build folder, an
 * installation that was moved and a wheel all work. */
#include "tool/serve_module.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "version.h"

#define FILE_NAME "scry-serve.so"

/* Relative to the program's folder; SERVE_MODULE_PLACES comes from meson.build. */
static const char *const places[] = {SERVE_MODULE_PLACES};

/* The folder of the program, without a slash at its end, and the program's state. */
static int own_folder(char *folder, size_t size, struct stat *ret, struct error *err)
{
    ssize_t n = readlink("/proc/self/exe", folder, size - 1);
    if (n <= 0 || stat("/proc/self/exe", ret) != 0)
        return error_set(err, -SCRY_E_LAUNCH, "cannot find out where this program is: %s",
                         strerror(errno));
    folder[n] = 0;
    *strrchr(folder, '/') = 0;
    return 0;
}

/* Code is run only of whoever the program itself is from: it may stand in a folder where others write. */
static int check_owner(const char *path, const struct stat *st, uid_t owner, struct error *err)
{
    if (S_ISREG(st->st_mode) && (st->st_uid == owner || st->st_uid == 0) &&
        !(st->st_mode & S_IWOTH))
        return 0;
    error_set(err, -SCRY_E_LAUNCH, "%s is not loaded: it is not the file of the program's owner",
              path);
    error_hint(err, "install scry anew");
    return -SCRY_E_LAUNCH;
}

static int load(const char *path, const struct serve_module **ret, struct error *err)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        error_set(err, -SCRY_E_LAUNCH, "cannot load the server: %s", dlerror());
        error_hint(err, "install the libraries it names; only scry serve needs them");
        return -SCRY_E_LAUNCH;
    }
    const struct serve_module *module = dlsym(library, SERVE_MODULE_SYMBOL);
    if (module && strcmp(module->version, SCRY_VERSION) == 0 &&
        module->options_size == sizeof(struct serve_options)) {
        *ret = module;
        return 0;
    }
    dlclose(library);
    error_set(err, -SCRY_E_LAUNCH, "%s belongs to another version of scry than this one, %s", path,
              SCRY_VERSION);
    error_hint(err, "install scry anew");
    return -SCRY_E_LAUNCH;
}

int serve_module_load(const struct serve_module **ret, struct error *err)
{
    char folder[PATH_MAX], path[PATH_MAX + 128];
    struct stat own, st;
    int r = own_folder(folder, sizeof(folder), &own, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s%s" FILE_NAME, folder, places[i], *places[i] ? "/" : "");
        if (stat(path, &st) != 0)
            continue;
        r = check_owner(path, &st, own.st_uid, err);
        return r < 0 ? r : load(path, ret, err);
    }
    error_set(err, -SCRY_E_LAUNCH, "the server's own file, %s, is neither in %s nor in %s/%s",
              FILE_NAME, folder, folder, places[1]);
    error_hint(err,
               "this program was copied without it: put it beside the program, or install scry "
               "as a whole");
    return -SCRY_E_LAUNCH;
}
