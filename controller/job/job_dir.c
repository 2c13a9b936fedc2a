/* SPDX-License-Identifier: Apache-2.0 */
/* job_dir.c - see job_dir.h */
#include "controller/job/job_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "controller/base/daemon.h"
#include "db/jobs.h"
#include "engine/base/err.h"
#include "engine/base/safe_open.h"
#include "engine/base/write_all.h"

void job_dir(char *out, size_t size, const struct daemon *d, int64_t id)
{
    snprintf(out, size, "%.4000s/jobs/%lld", d->home.path, (long long)id);
}

void job_dir_run(char *out, size_t size, const struct daemon *d, int64_t id, int64_t attempt)
{
    snprintf(out, size, "%.4000s/jobs/%lld/%lld", d->home.path, (long long)id, (long long)attempt);
}

void job_dir_node(char *out, size_t size, const char *run_dir, int node)
{
    if (node == 0)
        snprintf(out, size, "%s", run_dir);
    else
        snprintf(out, size, "%.4000s/node%d", run_dir, node);
}

int job_dir_open(const char *home, int64_t id, struct err *err)
{
    char jobs[PATH_MAX], name[24];
    snprintf(jobs, sizeof(jobs), "%.4000s/jobs", home);
    snprintf(name, sizeof(name), "%lld", (long long)id);
    return safe_open_dir(jobs, name, err);
}

int job_dir_open_file(const char *home, int64_t id, const char *name, int flags, struct err *err)
{
    const int dir = job_dir_open(home, id, err), fd = dir < 0 ? -1 : safe_open_in(dir, name, flags, err), why = errno;
    if (dir >= 0)
        close(dir);
    errno = why;
    return fd;
}

json_t *job_dir_spec(const char *home, int64_t id)
{
    const int fd = job_dir_open_file(home, id, "spec.json", O_RDONLY, NULL);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "r");      /* json_loadfd() reads byte by byte */
    json_t *spec = f ? json_loadf(f, 0, NULL) : NULL;
    if (f)
        fclose(f);
    else if (fd >= 0)
        close(fd);
    return spec;
}

int job_dir_make(const char *path, struct err *err)
{
    if (mkdir(path, 0700) == 0 || errno == EEXIST)
        return 0;
    return err_set_errno(err, errno, "cannot create directory %s", path);
}

/* Writes the file atomically: a temporary file of this thread, then rename. Two threads may write the same one. */
static int write_file(const char *dir, const char *name, const char *text, struct err *err)
{
    char path[PATH_MAX], beside[PATH_MAX + 24];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    snprintf(beside, sizeof(beside), "%s.new%d", path, (int)gettid());
    int fd = safe_open(beside, O_WRONLY | O_CREAT | O_TRUNC, err);
    if (fd < 0)
        return -1;
    bool ok = write_all(fd, text, strlen(text)) == 0;
    close(fd);
    if (ok && rename(beside, path) == 0)
        return 0;
    const int errnum = errno;
    unlink(beside);
    return err_set_errno(err, errnum, "cannot write %s", path);
}

int job_dir_files_init(struct job_dir_files *f, const struct daemon *d, int64_t id, struct err *err)
{
    *f = (struct job_dir_files){ .yaml = NULL };
    job_dir(f->dir, sizeof(f->dir), d, id);
    return jobs_spec(&f->yaml, &f->canonical, d->store, id, err);
}

void job_dir_files_fini(struct job_dir_files *f)
{
    free(f->yaml);
    free(f->canonical);
    f->yaml = f->canonical = NULL;
}

int job_dir_files_write(const struct job_dir_files *f, struct err *err)
{
    char spec[PATH_MAX + 16], yaml[PATH_MAX + 16];
    snprintf(spec, sizeof(spec), "%s/spec.json", f->dir);
    snprintf(yaml, sizeof(yaml), "%s/spec.yaml", f->dir);
    if (safe_open_has(spec, f->canonical) && safe_open_has(yaml, f->yaml)) /* an edited job's are of its older spec */
        return 0;
    if (job_dir_make(f->dir, err) < 0 || write_file(f->dir, "spec.yaml", f->yaml, err) < 0)
        return -1;
    return write_file(f->dir, "spec.json", f->canonical, err);
}
