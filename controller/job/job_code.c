/* SPDX-License-Identifier: Apache-2.0 */
/* job_code.c - see job_code.h */
#include "controller/job/job_code.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/code/code_tree.h"
#include "controller/base/daemon.h"
#include "controller/job/job_dir.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_file.h"
#include "engine/base/json_text.h"
#include "engine/base/safe_open.h"
#include "engine/base/scratch.h"

#define KEPT "kept"     /* beside a manifest whose links cannot be counted */

enum { PATH = PATH_MAX + 300 };

static const char *const records[] = {JOB_CODE_INFO, "commit", "diff.patch", CODE_MANIFEST};

enum { RECORDS = sizeof(records) / sizeof(records[0]) };

void job_code_original(char *out, size_t size, const char *home, const char *digest)
{
    snprintf(out, size, "%.3900s/" JOB_CODE "/%s", home, digest);
}

static void code_of(char out[PATH], const struct daemon *d, int64_t id)
{
    char dir[PATH_MAX];
    job_dir(dir, sizeof(dir), d, id);
    snprintf(out, PATH, "%s/" JOB_CODE, dir);
}

static int lock_home(int *lock, const char *home, int how, struct err *err)
{
    char path[PATH];
    snprintf(path, sizeof(path), "%.3900s/" JOB_CODE "/lock", home);
    *lock = safe_open(path, O_RDWR | O_CREAT, err);
    if (*lock < 0)
        return -1;
    int rc;
    while ((rc = flock(*lock, how)) < 0 && errno == EINTR)
        ;
    if (rc == 0)
        return 0;
    err_set_errno(err, errno, "cannot lock %s", path);
    close(*lock);
    *lock = -1;
    return -1;
}

int job_code_open(int *lock, const char *home, struct err *err)
{
    char path[PATH];
    snprintf(path, sizeof(path), "%.3900s/" JOB_CODE, home);
    *lock = -1;
    if (job_dir_make(path, err) < 0 || lock_home(lock, home, LOCK_SH, err) < 0)
        return -1;
    scratch_sweep(path);
    return 0;
}

static int copy_json(const char *from, const char *to, struct err *err)
{
    char kept[PATH];
    json_t *value = safe_open_json(from, 0, err);
    int rc = value && json_file_save(value, to, JSON_COMPACT) == 0 ? 0 : err_set(err, ERR_SYSTEM, "cannot write %s", to);
    snprintf(kept, sizeof(kept), "%.*s/" KEPT, (int)(strrchr(from, '/') - from), from);
    const int fd = rc == 0 ? safe_open(kept, O_WRONLY | O_CREAT, err) : -1;
    if (fd >= 0)
        close(fd);
    json_decref(value);
    return fd < 0 ? -1 : 0;
}

int job_code_link(const char *from, const char *to, struct err *err)
{
    if (link(from, to) == 0)
        return 0;
    if (errno == EPERM || errno == EMLINK || errno == EOPNOTSUPP || errno == ENOSYS || errno == EXDEV)
        return copy_json(from, to, err);
    return err_set_errno(err, errno, "cannot link %s to %s", to, from);
}

/* ---- of a job ---- */

static bool is_staged(const char *name)
{
    return strncmp(name, ".tmp-", 5) == 0 && !strchr(name, '/') && strlen(name) <= NAME_MAX;
}

static int require(const char *dir, bool must, struct err *err)
{
    char path[PATH + 16];
    snprintf(path, sizeof(path), "%s/" CODE_MANIFEST, dir);
    if (!must || access(path, F_OK) == 0)
        return 0;
    return err_set(err, ERR_USAGE, "snapshot: true needs the snapshot of the code that jobctl submit and jobctl run "
                   "take; this request has none");
}

int job_code_adopt(const struct daemon *d, int64_t id, const char *name, bool must, struct err *err)
{
    char from[PATH], to[PATH], dir[PATH_MAX];
    if (name[0] && !is_staged(name))
        return err_set(err, ERR_USAGE, "code: expected the name of a directory that jobctl submit created");
    snprintf(from, sizeof(from), "%.3900s/" JOB_CODE "/%.255s", d->home.path, name[0] ? name : ".tmp-none");
    if (require(from, must, err) < 0)
        return -1;
    job_dir(dir, sizeof(dir), d, id);
    code_of(to, d, id);
    if (access(to, F_OK) == 0)
        code_tree_remove(to, NULL);     /* of a job that was never stored */
    if (!name[0] || (!must && access(from, F_OK) < 0))
        return 0;               /* recorded in another home: not here */
    if (job_dir_make(dir, err) < 0)
        return -1;
    return rename(from, to) == 0 ? 0 : err_set_errno(err, errno, "cannot move the job's code from %s", from);
}

int job_code_inherit(const struct daemon *d, int64_t of, int64_t id, bool must, struct err *err)
{
    char from[PATH], to[PATH], dir[PATH_MAX], one[PATH + 16], other[PATH + 16];
    code_of(from, d, of);
    code_of(to, d, id);
    job_dir(dir, sizeof(dir), d, id);
    if (require(from, must, err) < 0)
        return -1;
    if (access(from, F_OK) < 0)
        return 0;
    code_tree_remove(to, NULL);
    if (job_dir_make(dir, err) < 0 || job_dir_make(to, err) < 0)
        return -1;
    for (int i = 0; i < RECORDS; i++) {
        snprintf(one, sizeof(one), "%s/%s", from, records[i]);
        snprintf(other, sizeof(other), "%s/%s", to, records[i]);
        if (access(one, F_OK) == 0 && job_code_link(one, other, err) < 0)
            return -1;
    }
    return 0;
}

void job_code_discard(const struct daemon *d, int64_t id)
{
    char path[PATH];
    code_of(path, d, id);
    code_tree_remove(path, NULL);
}

json_t *job_code_info(const char *dir)
{
    char path[PATH];
    snprintf(path, sizeof(path), "%.4000s/" JOB_CODE "/" JOB_CODE_INFO, dir);
    json_t *info = safe_open_json(path, 0, NULL);
    path[strlen(path) - strlen("/" JOB_CODE_INFO)] = '\0';
    if (json_is_object(info))
        json_object_set_new(info, "dir", json_text(path));
    return info;
}

bool job_code_dir(char *out, size_t size, const struct daemon *d, int64_t id)
{
    char dir[PATH], path[PATH + 16];
    code_of(dir, d, id);
    snprintf(path, sizeof(path), "%s/" CODE_MANIFEST, dir);
    return access(path, F_OK) == 0 && (size_t)snprintf(out, size, "%s", dir) < size;
}

int job_code_unpack(const char *dir, struct err *err)
{
    char home[PATH_MAX], from[PATH], path[PATH];
    json_t *info = job_code_info(dir);
    const char *digest = field_text(info, "snapshot");
    int rc = 0;
    snprintf(home, sizeof(home), "%s", dir);
    for (int up = 0; up < 2 && strrchr(home, '/'); up++)
        *strrchr(home, '/') = '\0';
    snprintf(path, sizeof(path), "%.4000s/" JOB_CODE "/" CODE_TREE, dir);
    if (code_digest_ok(digest) && field_true(info, "must")) {
        job_code_original(from, sizeof(from), home, digest);
        if (code_tree_copy(from, path, err) < 0)
            rc = err_prefix(err, "the snapshot of the code: ");
    }
    json_decref(info);
    return rc;
}

/* ---- the end ---- */

void job_code_loosen(const char *dir)
{
    char path[PATH];
    snprintf(path, sizeof(path), "%.4000s/" JOB_CODE, dir);
    code_tree_loosen(path);
}

static bool is_wanted(const char *dir)
{
    char path[PATH + 16];
    struct stat st;
    snprintf(path, sizeof(path), "%s/" KEPT, dir);
    if (access(path, F_OK) == 0)
        return true;
    snprintf(path, sizeof(path), "%s/" CODE_MANIFEST, dir);
    return lstat(path, &st) < 0 ? errno != ENOENT : st.st_nlink > 1;
}

/* Under a temporary name, so that no part of it stays under its name if the process dies meanwhile. */
static void remove_original(const char *dir)
{
    char tmp[SCRATCH_PATH];
    if (scratch_name(tmp, dir, NULL) < 0)
        return;
    code_tree_loosen(dir);
    if (rename(dir, tmp) == 0)
        code_tree_remove(tmp, NULL);
}

void job_code_collect(const char *home)
{
    char path[PATH], dir[PATH];
    int lock = -1;
    snprintf(path, sizeof(path), "%.3900s/" JOB_CODE, home);
    if (access(path, F_OK) < 0 || lock_home(&lock, home, LOCK_EX | LOCK_NB, NULL) < 0)
        return;
    scratch_sweep(path);        /* what a killed submit left has a link as well */
    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d));) {
        if (!code_digest_ok(e->d_name))
            continue;
        job_code_original(dir, sizeof(dir), home, e->d_name);
        if (!is_wanted(dir))
            remove_original(dir);
    }
    if (d)
        closedir(d);
    close(lock);
}
