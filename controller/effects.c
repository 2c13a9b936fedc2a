/* SPDX-License-Identifier: Apache-2.0 */
/* effects.c - see effects.h */
#include "controller/effects.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/log.h"
#include "controller/attempt.h"
#include "controller/daemon.h"
#include "controller/job.h"
#include "controller/members.h"
#include "engine/err.h"

static int make_dir(const char *path, struct err *err)
{
    if (mkdir(path, 0700) == 0 || errno == EEXIST)
        return 0;
    return err_set(err, ERR_SYSTEM, "cannot make the directory %s: %m", path);
}

/* Whole or not at all. */
static int write_file(const char *dir, const char *name, const char *text, struct err *err)
{
    char path[PATH_MAX], beside[PATH_MAX + 8];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    snprintf(beside, sizeof(beside), "%s.new", path);
    int fd = open(beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_set(err, ERR_SYSTEM, "cannot write %s: %m", beside);
    size_t size = strlen(text);
    bool ok = write(fd, text, size) == (ssize_t)size;
    close(fd);
    if (ok && rename(beside, path) == 0)
        return 0;
    return err_set(err, ERR_SYSTEM, "cannot write %s: %m", path);
}

int effect_files(const struct daemon *d, int64_t id, struct err *err)
{
    char dir[PATH_MAX], spec[PATH_MAX + 16];
    char *yaml = NULL, *canonical = NULL;
    job_dir(dir, sizeof(dir), d, id);
    snprintf(spec, sizeof(spec), "%s/spec.json", dir);
    if (access(spec, F_OK) == 0)
        return 0;
    int rc = -1;
    if (make_dir(dir, err) < 0 ||
        jobs_spec(&yaml, &canonical, d->store, id, err) < 0 ||
        write_file(dir, "spec.yaml", yaml, err) < 0 ||
        write_file(dir, "spec.json", canonical, err) < 0)
        goto out;
    rc = 0;
out:
    free(yaml);
    free(canonical);
    return rc;
}

static void start(struct job *job)
{
    struct err err = { 0 };
    char tag[24];
    if (effect_files(job->daemon, job->core.id, &err) < 0 || make_dir(job->attempt->run_dir, &err) < 0) {
        snprintf(tag, sizeof(tag), "%lld", (long long)job->core.id);
        log_error(tag, "%s", err.text);     /* the attempt will find no directory, and say so */
    }
    attempt_open(job, true);
}

void effect_perform(struct job *job, enum job_effect effect)
{
    struct daemon *d = job->daemon;
    if (!job->core.live) {
        members_dismiss(job);
        attempt_close(job);
    }
    switch (effect) {
    case DO_NOTHING:
    case JOB_EFFECTS:
        return;
    case DO_SCHEDULE:
        fleet_dirty(d);
        return;
    case DO_START:
        start(job);
        return;
    case DO_ATTACH:
        if (job->core.live)
            attempt_open(job, false);
        else
            fleet_dirty(d);
        return;
    case DO_LAUNCH:
        attempt_launch(job);
        return;
    case DO_STOP:
        attempt_stop(job);
        return;
    case DO_REPORT:
        roster_remove(&d->roster, job);
        fleet_dirty(d);
        return;
    }
}
