/* SPDX-License-Identifier: Apache-2.0 */
/* takeover.h - brings the store and the job.json of each job together (controller/job/job_file.h has the rules)
 *
 * At the daemon's start, jobs that the store lacks, or of which it has an older state, are taken over from their
 * directories, and missing files of jobs are written again. What was lost with the store is reported once, by
 * `jobctl status` (d->store_state.lost), and for each job by `jobctl why`.
 */
#ifndef CONTROLLER_DAEMON_TAKEOVER_H
#define CONTROLLER_DAEMON_TAKEOVER_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "controller/daemon/snapshots.h"

struct daemon;
struct err;
struct job;

/* A list of ids; the caller frees `list`. */
struct ids {
    int64_t *list;
    size_t   count, room;
};

int takeover_ids_put(struct ids *ids, int64_t id); /* -1: out of memory */

struct takeover {
    struct daemon *daemon;
    int64_t        taken, open;     /* jobs; `open`: in the store's group, not committed yet */
    int64_t        newest;          /* the largest id that has a directory */
    int64_t        unreadable;      /* directories without a row and without a sound job.json ... */
    char           ids[160];        /* ... and the first of them */
};

/* Takes over the jobs without a row. In a restored store, jobs whose directory is gone were removed after the copy was
 * made. */
int takeover_begin(struct takeover *t, struct daemon *d, struct err *err);

/* An open job of the store: takes the newer state of its job.json, or all of it where its rows are damaged.
 * *job: as loaded by `load` (replay_job()); NULL: neither can be read, and the job has ended as failed. */
typedef int (*takeover_load_fn)(struct job **out, struct daemon *d, int64_t id, struct err *err);
int takeover_job(struct job **job, struct takeover *t, int64_t id, takeover_load_fn load, struct err *err);

/* Commits, and completes the sentence about what was lost. */
int takeover_end(struct takeover *t, struct err *err);

/* Writes job.json for the jobs that ended last, if a daemon died before it did so, or the disk was full. */
void takeover_refresh(struct daemon *d, takeover_load_fn load);

#endif
