/* SPDX-License-Identifier: Apache-2.0 */
/* origin.c - see origin.h */
#include "controller/daemon/origin.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "agent/os/log.h"
#include "controller/base/daemon.h"
#include "controller/job/job_dir.h"
#include "controller/job/job_store.h"
#include "db/jobs.h"
#include "engine/contract/err.h"
#include "engine/contract/field.h"
#include "engine/contract/safe_open.h"

int origin_give(json_t *checkpoint, struct err *err)
{
    unsigned char bits[16];
    char text[2 * sizeof(bits) + 1];
    if (field_text(checkpoint, "origin")[0])
        return 0;
    if (getrandom(bits, sizeof(bits), 0) != (ssize_t)sizeof(bits))
        return err_set(err, ERR_SYSTEM, "cannot get random numbers for the job's origin");
    for (size_t i = 0; i < sizeof(bits); i++)
        snprintf(text + 2 * i, 3, "%02x", bits[i]);
    return json_object_set_new(checkpoint, "origin", json_string(text));
}

/* Is spec.json that of the row? A job that has not started may have none. */
static bool agrees(const json_t *spec, const char *path)
{
    if (access(path, F_OK) < 0)
        return true;
    json_t *theirs = safe_open_json(path, 0, NULL);
    const bool same = json_equal(theirs, spec);
    json_decref(theirs);
    return same;
}

static int write_again(const struct daemon *d, int64_t id, const char *path, struct err *err)
{
    struct job_dir_files files;
    if (unlink(path) < 0)
        return err_set(err, ERR_SYSTEM, "cannot replace %s: %m", path);
    int rc = job_dir_files_init(&files, d, id, err);
    if (rc == 0) {
        rc = job_dir_files_write(&files, err);
        job_dir_files_fini(&files);
    }
    return rc;
}

static int upgrade(struct daemon *d, int64_t id, json_t *spec, const char *path, struct err *err)
{
    if (origin_give(json_object_get(spec, "checkpoint"), err) < 0)
        return -1;
    char *canonical = json_dumps(spec, JSON_COMPACT);
    int rc = canonical ? jobs_set_spec(d->store, id, canonical, err)
                       : err_set(err, ERR_MEMORY, "out of memory for the spec of job %lld", (long long)id);
    free(canonical);
    return rc == 0 && access(path, F_OK) == 0 ? write_again(d, id, path, err) : rc;
}

void origin_upgrade(struct daemon *d, int64_t id)
{
    char path[PATH_MAX + 16], dir[PATH_MAX];
    struct err err = { 0 };
    json_t *spec = job_store_spec(d->store, id, &err);
    json_t *checkpoint = json_object_get(spec, "checkpoint");
    job_dir(dir, sizeof(dir), d, id);
    snprintf(path, sizeof(path), "%s/spec.json", dir);
    if (!json_is_object(checkpoint) || field_text(checkpoint, "origin")[0])
        ;       /* there is nothing to do */
    else if (!agrees(spec, path))
        log_warn(NULL, "job %lld is of an earlier version, and %s is not its spec: it gets no origin, so its "
                 "checkpoints cannot be told from those of another job", (long long)id, path);
    else if (upgrade(d, id, spec, path, &err) < 0)
        log_warn(NULL, "job %lld gets no origin: %s", (long long)id, err.text);
    json_decref(spec);
}
