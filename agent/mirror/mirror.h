/* SPDX-License-Identifier: Apache-2.0 */
/* mirror.h - a second copy of a job in a slow, lasting directory, and the way back
 *
 *   MIRROR/NAME/  job.json       what `jobctl adopt` needs to go on with it
 *                 history.jsonl  what happened so far, a line per event
 *                 checkpoints/   step-00000040/ ..., metrics.jsonl, samples/ and the like
 *                 lease.json     who may train it (agent/mirror/lease.h)
 *
 * A checkpoint is copied into a scratch directory there, synced, read back against its
 * manifest, and renamed; so what has its name is whole, whenever the machine goes away.
 * Nothing is ever trained from the mirror: what is to be resumed is copied here first, the
 * same way.  A damaged copy is passed over for the one before it.
 */
#ifndef AGENT_MIRROR_MIRROR_H
#define AGENT_MIRROR_MIRROR_H

#include <jansson.h>
#include <stdint.h>

struct err;

enum { MIRROR_PATH = 4096 };

struct mirror {
    char here[MIRROR_PATH];     /* the job's directory of checkpoints */
    char there[MIRROR_PATH];    /* MIRROR/NAME */
    char job_dir[MIRROR_PATH];  /* with the histories of its attempts */
    int  keep;                  /* so many of the newest stay there */
};

struct mirror_copy {
    int64_t step, bytes, ms;
    char    path[MIRROR_PATH]; /* where it is now */
};

/* Makes the directories. */
int mirror_open(const struct mirror *m, struct err *err);

/* The newest checkpoint that is here and not there: 1 and *done, 0: there is none, -1. */
int mirror_push(const struct mirror *m, struct mirror_copy *done, struct err *err);

typedef void (*mirror_bad_fn)(void *arg, const char *path, const char *reason);

/* The newest one there that is whole, if it is newer than what is here: as above. */
int mirror_pull(const struct mirror *m, struct mirror_copy *done, mirror_bad_fn bad, void *arg,
                struct err *err);

/* Once, before anything is written there: what the mirror tells of earlier machines stays the
 * beginning of this job's history. */
int mirror_inherit(const struct mirror *m, struct err *err);

/* Everything beside the checkpoints that has changed: curves, pictures, history. */
int mirror_rest(const struct mirror *m, struct err *err);

/* job.json, whole or as it was. */
int mirror_describe(const struct mirror *m, const json_t *job, struct err *err);

#endif
