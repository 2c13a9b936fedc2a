/* SPDX-License-Identifier: Apache-2.0 */
/* mirror.c - see mirror.h */
#include "agent/mirror/mirror.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/dir_walk.h"
#include "engine/base/err.h"
#include "engine/base/json_file.h"
#include "engine/contract/manifest.h"
#include "engine/base/safe_open.h"
#include "engine/base/scratch.h"

enum { CHUNK = 1 << 20, SMALL_BYTES = 64 << 20, STEPS_MAX = 4096 };

static int join(char *out, const char *dir, const char *name, struct err *err)
{
    if (snprintf(out, MIRROR_PATH, "%s/%s", dir, name) >= MIRROR_PATH)
        return err_set(err, ERR_USAGE, "the path is too long: %.200s/%.100s", dir, name);
    return 0;
}

/* --- files ------------------------------------------------------------------------------ */

static int copy_bytes(int to, int from)
{
    char *chunk = malloc(CHUNK);
    ssize_t n = chunk ? 1 : -1;
    while (n > 0 && (n = read(from, chunk, CHUNK)) > 0)
        for (ssize_t at = 0, w; at < n; at += w)
            if ((w = write(to, chunk + at, (size_t)(n - at))) < 0) {
                n = -1;
                break;
            }
    const int why = errno;
    free(chunk);
    errno = why;
    return n < 0 ? -1 : 0;
}

/* Synced, and dropped from the page cache: the next reader reads from disk. */
static int copy_file(const char *to, const char *from, struct err *err)
{
    struct err strange = {0};
    int in = safe_open(from, O_RDONLY, &strange);
    int out = in >= 0 ? safe_open(to, O_WRONLY | O_CREAT | O_TRUNC, &strange) : -1;
    int rc = out >= 0 && copy_bytes(out, in) == 0 && fsync(out) == 0 ? 0 : -1;
    int why = errno;
    if (out >= 0) {
        posix_fadvise(out, 0, 0, POSIX_FADV_DONTNEED);
        if (close(out) < 0 && rc == 0) {
            why = errno;
            rc = -1;
        }
    }
    if (in >= 0)
        close(in);
    return rc == 0 ? 0 : err_set(err, ERR_SYSTEM, "cannot copy %s to %s: %s", from, to,
                                 out < 0 ? strange.text : strerror(why));
}

/* Copies by way of a scratch name and a rename. */
static int replace_file(const char *to, const char *from, struct err *err)
{
    char tmp[SCRATCH_PATH];
    if (scratch_name(tmp, to, err) < 0)
        return -1;
    if (copy_file(tmp, from, err) < 0) {
        unlink(tmp);
        return -1;
    }
    return rename(tmp, to) == 0 ? 0 : err_set(err, ERR_SYSTEM, "cannot rename %s: %s", tmp, strerror(errno));
}

static bool same(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_size == y.st_size &&
           x.st_mtime >= y.st_mtime;
}

/* Copies the plain files of a directory that are missing or older at the destination. */
static int copy_files(const char *to, const char *from, struct err *err)
{
    DIR *d = opendir(from);
    struct dirent *e;
    if (!d)
        return 0;
    int rc = scratch_mkdirs(to, err);
    while (rc == 0 && (rc = dir_walk_next(&e, d, from, err)) > 0) {
        rc = 0;
        char a[MIRROR_PATH], b[MIRROR_PATH];
        struct stat st;
        if (e->d_name[0] == '.' || join(a, to, e->d_name, err) < 0 ||
            join(b, from, e->d_name, err) < 0 || lstat(b, &st) < 0 || !S_ISREG(st.st_mode) ||
            st.st_size > SMALL_BYTES || same(a, b))
            continue;
        rc = replace_file(a, b, err);
    }
    closedir(d);
    return rc;
}

/* Copies curves and sample images from root to root. */
static int copy_beside(const char *to, const char *from, struct err *err)
{
    char a[MIRROR_PATH], b[MIRROR_PATH];
    if (join(a, to, "samples", err) < 0 || join(b, from, "samples", err) < 0)
        return -1;
    return copy_files(to, from, err) < 0 || copy_files(a, b, err) < 0 ? -1 : 0;
}

/* --- checkpoints ------------------------------------------------------------------------ */

/* The step in a checkpoint's name; -1: not the name of a checkpoint. */
static int64_t step_of(const char *name)
{
    if (strncmp(name, "step-", 5) != 0 || !isdigit((unsigned char)name[5]) ||
        name[5 + strspn(name + 5, "0123456789")])
        return -1;
    return strtoll(name + 5, NULL, 10);
}

struct steps {
    int     len;
    int64_t step[STEPS_MAX]; /* newest first */
};

static int newer_first(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x < y) - (x > y);
}

/* No directory: none.  A list that a failing disk cut short would let an older checkpoint pass for the newest. */
static int list_steps(struct steps *list, const char *root, struct err *err)
{
    DIR *d = opendir(root);
    struct dirent *e;
    int rc = d || errno == ENOENT ? 0 : err_set_errno(err, errno, "cannot open the directory %s", root);
    list->len = 0;
    while (rc == 0 && list->len < STEPS_MAX && (rc = dir_walk_next(&e, d, root, err)) > 0) {
        rc = 0;
        if (step_of(e->d_name) >= 0)
            list->step[list->len++] = step_of(e->d_name);
    }
    if (d)
        closedir(d);
    qsort(list->step, (size_t)list->len, sizeof(list->step[0]), newer_first);
    return rc;
}

static int step_path(char *out, const char *root, int64_t step, struct err *err)
{
    char name[32];
    snprintf(name, sizeof(name), "step-%08lld", (long long)step);
    return join(out, root, name, err);
}

static int copy_into(const char *to, const char *from, const struct manifest *m, struct err *err)
{
    char a[MIRROR_PATH], b[MIRROR_PATH];
    for (int i = 0; i < m->len; i++)
        if (join(a, to, m->files[i].name, err) < 0 || join(b, from, m->files[i].name, err) < 0 ||
            copy_file(a, b, err) < 0)
            return -1;
    if (join(a, to, "trust", err) == 0 && join(b, from, "trust", err) == 0 &&
        access(b, R_OK) == 0 && copy_file(a, b, err) < 0)
        return -1;
    if (join(a, to, MANIFEST_FILE, err) < 0 || join(b, from, MANIFEST_FILE, err) < 0)
        return -1;
    return copy_file(a, b, err);
}

/* Copies one checkpoint from root to root; the manifest goes last, and the copy is verified
 * against it. */
static int copy_step(struct mirror_copy *done, const char *to_root, const char *from_root,
                     int64_t step, struct err *err)
{
    char from[MIRROR_PATH], tmp[SCRATCH_PATH];
    struct manifest m;
    const int64_t began = clock_ms();
    if (step_path(from, from_root, step, err) < 0 ||
        step_path(done->path, to_root, step, err) < 0 || manifest_read(&m, from, err) < 0 ||
        scratch_name(tmp, done->path, err) < 0 || scratch_mkdirs(tmp, err) < 0)
        return -1;
    if (copy_into(tmp, from, &m, err) < 0 || scratch_sync_dir(tmp, err) < 0 ||
        manifest_verify(&m, tmp, err) < 0) {
        scratch_remove(tmp, NULL);
        return -1;
    }
    if (scratch_remove(done->path, err) < 0 || rename(tmp, done->path) < 0) {
        err_set(err, ERR_SYSTEM, "cannot rename %s: %s", tmp, strerror(errno));
        scratch_remove(tmp, NULL);
        return -1;
    }
    done->step = step;
    done->bytes = m.bytes;
    done->ms = clock_ms() - began;
    return scratch_sync_dir(to_root, err);
}

/* Keeps the newest checkpoints up to step `last`: the run went back behind later ones. */
static void prune(const char *root, int64_t last, int keep)
{
    static struct steps list;
    char path[MIRROR_PATH];
    int kept = 0;
    if (list_steps(&list, root, NULL) < 0)
        return;
    for (int i = 0; i < list.len; i++)
        if ((list.step[i] > last || ++kept > keep) &&
            step_path(path, root, list.step[i], NULL) == 0)
            scratch_remove(path, NULL);
}

/* Is the checkpoint of that step identical in both places? */
static bool same_step(const char *a_root, const char *b_root, int64_t step)
{
    char a[MIRROR_PATH], b[MIRROR_PATH];
    struct manifest x, y;
    return step_path(a, a_root, step, NULL) == 0 && step_path(b, b_root, step, NULL) == 0 &&
           manifest_read(&x, a, NULL) == 0 && manifest_read(&y, b, NULL) == 0 &&
           strcmp(x.digest, y.digest) == 0;
}

static int roots(char *there, const struct mirror *m, struct err *err)
{
    return join(there, m->there, "checkpoints", err);
}

int mirror_open(const struct mirror *m, struct err *err)
{
    char there[MIRROR_PATH];
    if (roots(there, m, err) < 0 || scratch_mkdirs(there, err) < 0 ||
        scratch_mkdirs(m->here, err) < 0)
        return -1;
    scratch_sweep(there);
    scratch_sweep(m->there);
    return 0;
}

int mirror_push(const struct mirror *m, struct mirror_copy *done, struct err *err)
{
    static struct steps here;
    char there[MIRROR_PATH];
    if (roots(there, m, err) < 0 || list_steps(&here, m->here, err) < 0)
        return -1;
    if (here.len == 0 || same_step(there, m->here, here.step[0]))
        return 0;
    if (copy_step(done, there, m->here, here.step[0], err) < 0)
        return -1;
    prune(there, here.step[0], m->keep);
    return 1;
}

int mirror_pull(const struct mirror *m, struct mirror_copy *done, mirror_bad_fn bad, void *arg, struct err *err)
{
    static struct steps here, copies;
    char there[MIRROR_PATH];
    if (roots(there, m, err) < 0 || list_steps(&here, m->here, err) < 0 || list_steps(&copies, there, err) < 0)
        return -1;
    for (int i = 0; i < copies.len; i++) {
        struct err why = {0};
        if (here.len > 0 && copies.step[i] <= here.step[0])
            return 0;
        if (copy_step(done, m->here, there, copies.step[i], &why) == 0)
            return copy_beside(m->here, there, err) < 0 ? -1 : 1;
        if (why.code != ERR_DATA && why.code != ERR_NOT_FOUND)
            return err_set(err, why.code, "%s", why.text);
        char path[MIRROR_PATH];
        if (step_path(path, there, copies.step[i], NULL) == 0)
            bad(arg, path, why.text);
    }
    return 0;
}

/* --- history and description ------------------------------------------------------------- */

static int append_file(int to, const char *path)
{
    int from = safe_open(path, O_RDONLY, NULL);
    int rc = from < 0 ? 0 : copy_bytes(to, from);
    if (from >= 0)
        close(from);
    return rc;
}

/* Concatenates the history of an adopted job and those of the attempts, in order. */
static int write_history(const struct mirror *m, struct err *err)
{
    char path[MIRROR_PATH], tmp[SCRATCH_PATH], one[MIRROR_PATH + 64];
    struct stat st;
    if (join(path, m->there, "history.jsonl", err) < 0 || scratch_name(tmp, path, err) < 0)
        return -1;
    int fd = safe_open(tmp, O_WRONLY | O_CREAT | O_TRUNC, NULL);
    snprintf(one, sizeof(one), "%s/before.jsonl", m->job_dir);
    int rc = fd >= 0 ? append_file(fd, one) : -1;
    for (int i = 1; rc == 0; i++) {
        snprintf(one, sizeof(one), "%s/%d", m->job_dir, i);
        if (stat(one, &st) < 0)
            break;
        snprintf(one, sizeof(one), "%s/%d/history.jsonl", m->job_dir, i);
        rc = append_file(fd, one);
    }
    if (rc == 0 && (fsync(fd) < 0 || rename(tmp, path) < 0))
        rc = -1;
    if (rc < 0)
        err_set(err, ERR_SYSTEM, "cannot write %s: %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    if (rc < 0)
        unlink(tmp);
    return rc;
}

int mirror_inherit(const struct mirror *m, struct err *err)
{
    char before[MIRROR_PATH], history[MIRROR_PATH];
    if (join(before, m->job_dir, "before.jsonl", err) < 0 ||
        join(history, m->there, "history.jsonl", err) < 0)
        return -1;
    if (access(before, F_OK) == 0)
        return 0;
    if (access(history, F_OK) == 0)
        return replace_file(before, history, err);
    int fd = safe_open(before, O_WRONLY | O_CREAT, err);
    if (fd < 0)
        return -1;
    close(fd);
    return 0;
}

int mirror_rest(const struct mirror *m, struct err *err)
{
    char there[MIRROR_PATH];
    if (roots(there, m, err) < 0 || copy_beside(there, m->here, err) < 0)
        return -1;
    return write_history(m, err);
}

int mirror_describe(const struct mirror *m, const json_t *job, struct err *err)
{
    char path[MIRROR_PATH], tmp[SCRATCH_PATH];
    if (join(path, m->there, "job.json", err) < 0 || scratch_name(tmp, path, err) < 0)
        return -1;
    int fd = safe_open(tmp, O_WRONLY | O_CREAT | O_TRUNC, NULL);
    int rc = fd >= 0 && json_file_put(job, fd, JSON_INDENT(1)) == 0 && fsync(fd) == 0 &&
                     rename(tmp, path) == 0
                 ? 0
                 : err_set(err, ERR_SYSTEM, "cannot write %s: %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    if (rc < 0)
        unlink(tmp);
    return rc;
}
