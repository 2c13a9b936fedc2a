/* SPDX-License-Identifier: Apache-2.0 */
/* mirror.h - copies a job's checkpoints and history to a persistent directory, and back
 *
 *   MIRROR/NAME/  job.json       input of `jobctl adopt`, to resume the job elsewhere
 *                 history.jsonl  the events so far, one per line
 *                 checkpoints/   step-00000040/ ..., metrics.jsonl, samples/ and the like
 *                 lease.json     which machine may train it (agent/os/lease.h)
 *
 * A checkpoint is copied into a scratch directory there, synced, read back against its manifest,
 * and renamed: a checkpoint under its final name is complete, whenever the machine disappears.
 * Training never reads from the mirror: a checkpoint to resume from is first copied to the local
 * directory in the same way. A damaged copy is skipped, and the previous one is used.
 */
#ifndef AGENT_MIRROR_MIRROR_H
#define AGENT_MIRROR_MIRROR_H

#include <jansson.h>
#include <stdint.h>

struct err;

enum { MIRROR_PATH = 4096 };

struct mirror {
    char here[MIRROR_PATH];     /* the job's local checkpoint directory */
    char there[MIRROR_PATH];    /* MIRROR/NAME */
    char job_dir[MIRROR_PATH];  /* holds the histories of its attempts */
    int keep;                   /* number of newest checkpoints kept in the mirror */
};

struct mirror_copy {
    int64_t step, bytes, ms;
    char path[MIRROR_PATH]; /* path of the copy */
};

/* Creates the directories. */
int mirror_open(const struct mirror *m, struct err *err);

/* Copies the newest checkpoint that the mirror lacks: 1 and *done; 0: there is none; -1: error. */
int mirror_push(const struct mirror *m, struct mirror_copy *done, struct err *err);

typedef void (*mirror_bad_fn)(void *arg, const char *path, const char *reason);

/* Copies back the mirror's newest complete checkpoint if it is newer than the local ones: 1, 0
 * or -1 as above. */
int mirror_pull(const struct mirror *m, struct mirror_copy *done, mirror_bad_fn bad, void *arg, struct err *err);

/* Called once, before the first write to the mirror: keeps the history of earlier machines as
 * the beginning of this job's history. */
int mirror_inherit(const struct mirror *m, struct err *err);

/* Copies everything else that changed: curves, images, history. */
int mirror_rest(const struct mirror *m, struct err *err);

/* Writes job.json atomically. */
int mirror_describe(const struct mirror *m, const json_t *job, struct err *err);

#endif
