/* SPDX-License-Identifier: Apache-2.0 */
/* encode_place.c - see encode_place.h */
#include "engine/encode/encode_place.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/err.h"
#include "engine/base/scratch.h"
#include "engine/contract/train_spec.h"

/* --- names ---------------------------------------------------------------------------------- */

/* The folder of a single file; false: `path` is no file, or its folder is the root. */
static bool folder_of(char out[PATH_MAX], const char *path)
{
    struct stat st;
    if (stat(path, &st) < 0 || !S_ISREG(st.st_mode) || !realpath(path, out))
        return false;
    *strrchr(out, '/') = '\0';
    return out[0] != '\0';
}

void encode_place_name(char out[ENCODE_PLACE], const struct train_spec *s)
{
    char folder[PATH_MAX];
    const char *data = folder_of(folder, s->data_path) ? folder : s->data_path;
    size_t n = strlen(data);
    while (n > 1 && data[n - 1] == '/')
        n--;
    if (s->encode.cache[0])
        snprintf(out, ENCODE_PLACE, "%s", s->encode.cache);
    else
        snprintf(out, ENCODE_PLACE, "%.*s.encoded", (int)(n < 1024 ? n : 1024), data);
}

/* --- can it be made? ------------------------------------------------------------------------- */

static int refuse(const char *cache, const char *where, const char *why, struct err *err)
{
    return err_set(err, ERR_USAGE, "train.data.cache: %.150s cannot be %s %.120s: %.60s; name a folder in which you can "
                   "write, which all nodes share", cache, strcmp(cache, where) == 0 ? "filled:" : "made in", where, why);
}

/* Access rights do not tell all: of quotas, of file systems of the kernel, of root on a server's disk. */
static int try_in(const char *cache, const char *dir, struct err *err)
{
    char path[PATH_MAX], tmp[SCRATCH_PATH];
    struct stat st;
    if (stat(dir, &st) < 0 || !S_ISDIR(st.st_mode))
        return refuse(cache, dir, "it is no folder", err);
    snprintf(path, sizeof(path), "%.3000s/cache", dir);
    if (scratch_name(tmp, path, err) < 0)
        return -1;
    if (mkdir(tmp, 0777) < 0)
        return refuse(cache, dir, strerror(errno), err);
    rmdir(tmp);
    return 0;
}

/* "/a/b" to "/a", "/a" to "/", "a" to "." */
static void go_up(char *dir)
{
    char *slash = strrchr(dir, '/');
    if (slash && slash != dir)
        *slash = '\0';
    else
        snprintf(dir, 2, "%s", slash ? "/" : ".");
}

int encode_place_check(const char *cache, bool fill, struct err *err)
{
    char dir[PATH_MAX];
    snprintf(dir, sizeof(dir), "%s", cache);
    while (access(dir, F_OK) < 0)
        go_up(dir);
    return strcmp(dir, cache) == 0 && !fill ? 0 : try_in(cache, dir, err);
}
