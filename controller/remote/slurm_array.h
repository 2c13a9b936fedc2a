/* SPDX-License-Identifier: Apache-2.0 */
/* slurm_array.h - members of a sweep that go to Slurm in one submission, as a job array
 *
 * The attempts that a sweep starts at once (controller/job/sweep.h) gather here, then one script is submitted for all
 * of them, as --array=0-11%3: at most 3 run at once.  A task of the array finds its attempt by its index in
 *
 *   jobs/<sweep>/arrays/<nonce>/K.task   two lines: the run directory, then "JOB ATTEMPT NONCE"
 *   jobs/<sweep>/arrays/<nonce>/K.log    a link to slurm.log in the run directory: Slurm writes its output there
 *   jobs/<sweep>/arrays/<nonce>/script   the script without --array, written last: all others are there
 *   RUN_DIR/array.json                   {"dir", "task", "comment"}: the array that the attempt belongs to
 *
 * All of them are on disk before the submission. After a crash, an attempt finds its array by array.json, and in Slurm
 * by its comment (controller/remote/sbatch.h). If Slurm has no such array, it is resubmitted with the same comment for
 * the attempts that lack it, but never twice (controller/slurm/main.c). An attempt whose script differs from the
 * others' goes into a separate array; a single attempt, or one whose array Slurm refused, becomes a separate job.
 */
#ifndef CONTROLLER_REMOTE_SLURM_ARRAY_H
#define CONTROLLER_REMOTE_SLURM_ARRAY_H

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "controller/remote/remote_link.h"
#include "controller/remote/sbatch.h"

struct err;
struct slurm_array;

enum slurm_array_end {
    SLURM_ARRAY_ASKED,      /* being submitted: from now on it may exist */
    SLURM_ARRAY_ANSWERED,   /* Slurm's answer: slurm_client.h */
    SLURM_ARRAY_ALONE       /* become a separate job */
};

/* One attempt; zeroed: it has no array. Its owner sets the first fields, before it joins at the latest. */
struct slurm_array_member {
    struct remote_link       *link;
    struct remote_array       of;       /* its sweep; of.sweep is 0: not a member */
    void (*tell)(struct slurm_array_member *m, enum slurm_array_end end, const json_t *answer);
    void (*wait)(struct slurm_array_member *m, const char *text);
    /* of this module: */
    char                      sweep_dir[PATH_MAX];
    char                      dir[PATH_MAX], comment[SBATCH_COMMENT];   /* "": none yet */
    int                       task;
    struct slurm_array       *array;    /* set while it collects members or is submitted */
};

/* Reads array.json: the array that it is a task of. False: none that can have been submitted. */
bool slurm_array_recall(struct slurm_array_member *m);

/* Waits for the others, then submits; tell() follows, but not during this call. `s` is complete except for the
 * array; `hide`: names of variables that Slurm must not get. -1: no script, or no memory. */
int slurm_array_join(struct slurm_array_member *m, const struct sbatch *s, const json_t *hide, struct err *err);

/* Its link ends, or it is stopped: no more callbacks. */
void slurm_array_leave(struct slurm_array_member *m);

/* Is this Slurm job (controller/slurm/main.c) the task of this member? */
bool slurm_array_is(const struct slurm_array_member *m, const json_t *job);

/* The script of an array with the line that lists its tasks; free() it. `most` 0: all run at once. NULL: no memory. */
char *slurm_array_script(const char *script, const char *tasks, int count, int64_t most);

/* The text of K.task; free() it. NULL: no memory. */
char *slurm_array_task_text(const char *run_dir, int64_t job, int64_t attempt, const char *nonce);

#endif
