/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_find.c - find, quarantine and prune checkpoints; see checkpoint.h */
#include "engine/checkpoint/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/dir_walk.h"
#include "engine/base/err.h"
#include "engine/contract/fence.h"
#include "engine/base/safe_open.h"
#include "engine/base/scratch.h"

/* "step-00000040" to 40, anything else to -1. */
static int64_t step_of(const char *name)
{
    char *end;
    if (strncmp(name, "step-", 5) != 0 || strlen(name) < 13 || strlen(name) > 23)
        return -1;
    for (const char *p = name + 5; *p; p++)
        if (*p < '0' || *p > '9')
            return -1;
    long long step = strtoll(name + 5, &end, 10);
    return *end ? -1 : step;
}

static int descending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x < y) - (x > y);
}

/* Steps below root, newest first; the caller frees. No directory: none. */
static int list_steps(int64_t **steps, int *len, const char *root, struct err *err)
{
    DIR *d = opendir(root);
    int64_t *all = NULL;
    struct dirent *e;
    int n = 0, rc;
    *steps = NULL;
    *len = 0;
    if (!d && errno != ENOENT)
        return err_set_errno(err, errno, "cannot read the checkpoint directory %s", root);
    while ((rc = dir_walk_next(&e, d, root, err)) > 0) {
        int64_t step = step_of(e->d_name);
        if (step < 0)
            continue;
        int64_t *more = realloc(all, sizeof(*all) * (size_t)(n + 1));
        if (!more) {
            rc = err_set(err, ERR_MEMORY, "out of memory for a list of checkpoints");
            break;
        }
        all = more;
        all[n++] = step;
    }
    if (d)
        closedir(d);
    if (rc < 0) {
        free(all);
        return -1;
    }
    if (n > 0)
        qsort(all, (size_t)n, sizeof(*all), descending);
    *steps = all;
    *len = n;
    return 0;
}

static int step_path(char path[CHECKPOINT_PATH], const char *root, int64_t step, struct err *err)
{
    if (snprintf(path, CHECKPOINT_PATH, "%s/step-%08lld", root, (long long)step) >= CHECKPOINT_PATH)
        return err_set(err, ERR_USAGE, "the path is too long: %.200s", root);
    return 0;
}

int64_t checkpoint_newest_step(const char *root)
{
    int64_t *steps;
    int n;
    if (list_steps(&steps, &n, root, NULL) < 0)
        return -1;
    int64_t newest = n > 0 ? steps[0] : -1;
    free(steps);
    return newest;
}

int checkpoint_quarantine(char to[CHECKPOINT_PATH], const char *dir, const char *reason, struct err *err)
{
    const char *slash = strrchr(dir, '/');
    const char *name = slash ? slash + 1 : dir;
    char root[CHECKPOINT_PATH - 16], pen[CHECKPOINT_PATH], note[CHECKPOINT_PATH + 16];
    if (snprintf(root, sizeof(root), "%.*s", slash ? (int)(slash - dir) : 1, slash ? dir : ".") >= (int)sizeof(root))
        return err_set(err, ERR_USAGE, "the path is too long: %.200s", dir);
    snprintf(pen, sizeof(pen), "%s/quarantine", root);
    if (fence_guard(root, err) < 0 || scratch_mkdirs(pen, err) < 0)
        return -1;
    for (int i = 1;; i++) {
        struct stat st;
        if (snprintf(to, CHECKPOINT_PATH, "%s/%s.%d", pen, name, i) >= CHECKPOINT_PATH)
            return err_set(err, ERR_USAGE, "the path is too long: %.200s", dir);
        if (lstat(to, &st) < 0 && errno == ENOENT)
            break;
    }
    if (fence_guard(root, err) < 0)
        return -1;
    if (rename(dir, to) < 0)
        return err_set_errno(err, errno, "cannot move %s to %s", dir, to);
    snprintf(note, sizeof(note), "%s/reason.txt", to);
    const int fd = safe_open(note, O_WRONLY | O_CREAT | O_TRUNC, NULL);
    if (fd >= 0) { /* a full disk must not keep a damaged checkpoint in place */
        dprintf(fd, "%s\n", reason);
        close(fd);
    }
    return 0;
}

int checkpoint_latest(struct checkpoint_info *info, const char *root, checkpoint_bad_fn bad, void *arg, struct err *err)
{
    int64_t *steps;
    int n, found = 0;
    scratch_sweep(root);
    if (list_steps(&steps, &n, root, err) < 0)
        return -1;
    for (int i = 0; i < n && found == 0; i++) {
        struct manifest m;
        struct err why = {0};
        char aside[CHECKPOINT_PATH];
        *info = (struct checkpoint_info){.step = steps[i]};
        if (step_path(info->path, root, steps[i], err) < 0) {
            found = -1;
        } else if (manifest_verify(&m, info->path, &why) == 0 && m.step == steps[i]) {
            info->bytes = m.bytes;
            memcpy(info->digest, m.digest, sizeof(info->digest));
            found = 1;
        } else if (why.code == ERR_SYSTEM || why.code == ERR_MEMORY) {
            found = err_set(err, why.code, "checkpoint %s: %s", info->path, why.text);
        } else {
            if (why.code == ERR_NONE)
                err_set(&why, ERR_DATA, "the manifest belongs to step %lld", (long long)m.step);
            if (checkpoint_quarantine(aside, info->path, why.text, err) < 0)
                found = -1;
            else if (bad)
                bad(arg, aside, why.text);
        }
    }
    free(steps);
    return found;
}

bool checkpoint_is_good(const char *dir)
{
    char path[CHECKPOINT_PATH + 8], word[16] = "";
    snprintf(path, sizeof(path), "%s/trust", dir);
    FILE *f = safe_open_stream(path, NULL);
    bool good = f && fgets(word, sizeof(word), f) && strcmp(word, "good\n") == 0;
    if (f)
        fclose(f);
    return good;
}

int checkpoint_mark_good(const char *dir, struct err *err)
{
    char root[CHECKPOINT_PATH], path[CHECKPOINT_PATH + 8], tmp[SCRATCH_PATH];
    const char *slash = strrchr(dir, '/');
    snprintf(root, sizeof(root), "%.*s", slash ? (int)(slash - dir) : 1, slash ? dir : ".");
    snprintf(path, sizeof(path), "%s/trust", dir);
    if (scratch_name(tmp, path, err) < 0)
        return -1;
    const int fd = safe_open(tmp, O_WRONLY | O_CREAT | O_TRUNC, NULL);
    if (fd < 0)
        return err_set_errno(err, errno, "cannot write %s", path);
    const bool wrote = dprintf(fd, "good\n") > 0;
    int rc = close(fd) == 0 && wrote ? fence_guard(root, err) : err_set_errno(err, errno, "cannot write %s", path);
    if (rc == 0 && rename(tmp, path) < 0)
        rc = err_set_errno(err, errno, "cannot write %s", path);
    if (rc < 0)
        unlink(tmp);
    return rc;
}

int checkpoint_prune(const char *root, int keep, struct err *err)
{
    int64_t *steps;
    int n, rc = 0;
    bool good_kept = false;
    if (list_steps(&steps, &n, root, err) < 0)
        return -1;
    for (int i = 0; i < n && rc == 0; i++) {
        char path[CHECKPOINT_PATH];
        rc = step_path(path, root, steps[i], err);
        bool good = rc == 0 && checkpoint_is_good(path);
        if (rc == 0 && i >= keep && (good_kept || !good)) {
            char tmp[SCRATCH_PATH]; /* removed now, or by a later cleanup */
            if (fence_guard(root, err) < 0)
                rc = -1;
            else if (scratch_name(tmp, path, err) < 0 || rename(path, tmp) < 0)
                rc = err_set_errno(err, errno, "cannot remove %s", path);
            else
                rc = scratch_remove(tmp, err);
        }
        good_kept = good_kept || good;
    }
    free(steps);
    return rc;
}
