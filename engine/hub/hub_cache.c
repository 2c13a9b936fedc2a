/* SPDX-License-Identifier: Apache-2.0 */
/* hub_cache.c - see hub_cache.h */
#include "engine/hub/hub_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/dir_walk.h"
#include "engine/base/err.h"
#include "engine/base/safe_open.h"
#include "engine/hub/hub_select.h"

enum { DEPTH = 16, FILES = 20000 };

/* --- places ------------------------------------------------------------------------------------ */

static int fits(int n, struct err *err)
{
    return n >= 0 && n < PATH_MAX ? 0 : err_set(err, ERR_USAGE, "the path of the Hugging Face cache is too long");
}

/* The value of a variable; "" counts as none. */
static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value && value[0] ? value : NULL;
}

/* "~/x" is below HOME. */
static int expand(char dir[PATH_MAX], const char *given, const char *rest, struct err *err)
{
    const char *home = variable("HOME");
    if (given[0] == '~' && (given[1] == '/' || !given[1]) && home)
        return fits(snprintf(dir, PATH_MAX, "%s%s%s", home, given + 1, rest), err);
    return fits(snprintf(dir, PATH_MAX, "%s%s", given, rest), err);
}

int hub_cache_home(char dir[PATH_MAX], struct err *err)
{
    const char *own = variable("HF_HOME"), *xdg = variable("XDG_CACHE_HOME"), *home = variable("HOME");
    if (own || xdg)
        return expand(dir, own ? own : xdg, own ? "" : "/huggingface", err);
    if (home)
        return expand(dir, home, "/.cache/huggingface", err);
    return err_set(err, ERR_USAGE,
                   "the place of the Hugging Face cache is unknown: set HF_HOME to a directory, or HOME");
}

int hub_cache_dir(char dir[PATH_MAX], struct err *err)
{
    const char *own = variable("HF_HUB_CACHE"), *older = variable("HUGGINGFACE_HUB_CACHE");
    if (own || older)
        return expand(dir, own ? own : older, "", err);
    if (hub_cache_home(dir, err) < 0)
        return -1;
    const size_t n = strlen(dir);
    return fits((int)n + snprintf(dir + n, PATH_MAX - n, "/hub"), err);
}

int hub_cache_place(char path[PATH_MAX], const struct hub_name *n, const char *part, struct err *err)
{
    if (hub_cache_dir(path, err) < 0)
        return -1;
    const size_t at = strlen(path);
    return fits((int)at + snprintf(path + at, PATH_MAX - at, "/models--%s--%s%s%s", n->owner, n->repo,
                                   part[0] ? "/" : "", part), err);
}

bool hub_cache_is_offline(void)
{
    static const char *const names[] = {"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"};
    static const char *const yes[] = {"1", "on", "yes", "true"};
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        for (size_t k = 0; variable(names[i]) && k < sizeof(yes) / sizeof(*yes); k++)
            if (strcasecmp(variable(names[i]), yes[k]) == 0)
                return true;
    return false;
}

/* --- revisions --------------------------------------------------------------------------------- */

bool hub_cache_commit(char commit[HUB_COMMIT], const struct hub_name *n)
{
    char path[PATH_MAX], ref[sizeof(n->revision) + 8];
    if (hub_name_is_commit(n->revision)) {
        memcpy(commit, n->revision, HUB_COMMIT);
        return true;
    }
    snprintf(ref, sizeof(ref), "refs/%s", n->revision);
    if (hub_cache_place(path, n, ref, NULL) < 0)
        return false;
    const int fd = safe_open_linked(path, O_RDONLY, NULL);
    const ssize_t got = fd < 0 ? -1 : read(fd, commit, HUB_COMMIT - 1);
    if (fd >= 0)
        close(fd);
    commit[got < 0 ? 0 : got] = '\0';
    return hub_name_is_commit(commit);
}

/* --- what is there ----------------------------------------------------------------------------- */

struct listing {
    struct hub_file *file;
    int              n;
    char             top[PATH_MAX]; /* of the snapshot */
};

static void listing_free(struct listing *l)
{
    for (int i = 0; i < l->n; i++)
        free((char *)(uintptr_t)l->file[i].path);
    free(l->file);
}

static int add(struct listing *l, const char *path, int64_t bytes, struct err *err)
{
    struct hub_file *more = l->n < FILES ? realloc(l->file, (size_t)(l->n + 1) * sizeof(*more)) : NULL;
    char *copy = more ? strdup(path) : NULL;
    l->file = more ? more : l->file;
    if (!copy)
        return err_set(err, ERR_MEMORY, "no memory for the files of %s", l->top);
    l->file[l->n++] = (struct hub_file){.path = copy, .bytes = bytes};
    return 0;
}

/* A link whose blob is gone is not there. */
static int list(struct listing *l, const char *below, int depth, struct err *err)
{
    char path[PATH_MAX], whole[PATH_MAX];
    struct dirent *e;
    struct stat st;
    int rc;
    if (fits(snprintf(whole, sizeof(whole), "%s/%s", l->top, below), err) < 0)
        return -1;
    DIR *d = opendir(whole);
    if (!d)
        return errno == ENOENT ? 0 : err_set_errno(err, errno, "%s: cannot be read", whole);
    while ((rc = dir_walk_next(&e, d, whole, err)) > 0) {
        if (snprintf(path, sizeof(path), "%s%s%s", below, below[0] ? "/" : "", e->d_name) >= PATH_MAX ||
            snprintf(whole, sizeof(whole), "%s/%s", l->top, path) >= PATH_MAX || stat(whole, &st) < 0)
            continue;
        if (S_ISDIR(st.st_mode) ? depth < DEPTH && list(l, path, depth + 1, err) < 0
                                : S_ISREG(st.st_mode) && add(l, path, st.st_size, err) < 0)
            break;
    }
    closedir(d);
    return rc == 0 ? 0 : -1;
}

static int not_there(const struct hub_name *n, const char *why, struct err *err)
{
    char text[HUB_NAME_TEXT], dir[PATH_MAX];
    hub_name_text(text, n, NULL);
    if (hub_cache_dir(dir, err) < 0)
        return -1;
    return err_set(err, ERR_NOT_FOUND, "missing in the cache %.150s: %.90s; run `jobctl fetch %.200s` where there is "
                   "network and this directory", dir, why, text);
}

static struct hub_cache_size size_of(const struct listing *l)
{
    struct hub_cache_size size = {0, 0};
    for (int i = 0; i < l->n; i++)
        if (l->file[i].wanted) {
            size.files++;
            size.bytes += l->file[i].bytes;
        }
    return size;
}

static int open_listing(char path[PATH_MAX], struct listing *l, const struct hub_name *n, const char *parts,
                        struct err *err)
{
    char why[300] = "", target[600];
    if (list(l, "", 0, err) < 0)
        return -1;
    hub_select(l->file, l->n, n->file, parts);
    if (!hub_select_is_whole(l->file, l->n, n->file, parts, why, sizeof(why)))
        return not_there(n, why, err);
    hub_select_target(target, sizeof(target), l->file, l->n, n->file);
    return fits(snprintf(path, PATH_MAX, "%s%s%s", l->top, target[0] ? "/" : "", target), err);
}

int hub_cache_find_size(char path[PATH_MAX], struct hub_cache_size *size, const struct hub_name *n, const char *parts,
                        struct err *err)
{
    char commit[HUB_COMMIT], part[HUB_COMMIT + 16];
    struct listing l = {.n = 0};
    if (!hub_cache_commit(commit, n))
        return not_there(n, "the commit of this revision", err);
    snprintf(part, sizeof(part), "snapshots/%s", commit);
    if (hub_cache_place(l.top, n, part, err) < 0)
        return -1;
    const int rc = open_listing(path, &l, n, parts, err);
    *size = size_of(&l);
    listing_free(&l);
    return rc;
}

int hub_cache_find(char path[PATH_MAX], const struct hub_name *n, const char *parts, struct err *err)
{
    struct hub_cache_size size;
    return hub_cache_find_size(path, &size, n, parts, err);
}

int hub_cache_open(char path[PATH_MAX], const char *text, const char *parts, struct err *err)
{
    struct hub_name n;
    if (hub_name_is(text))
        return hub_name_parse(&n, text, err) < 0 ? -1 : hub_cache_find(path, &n, parts, err);
    return snprintf(path, PATH_MAX, "%s", text) < PATH_MAX
               ? 0 : err_set(err, ERR_USAGE, "%.80s...: the path is too long", text);
}
