/* SPDX-License-Identifier: Apache-2.0 */
/* sbatch.h - the batch script of one attempt: templates/slurm.sbatch with values filled in */
#ifndef CONTROLLER_REMOTE_SBATCH_H
#define CONTROLLER_REMOTE_SBATCH_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

struct err;

enum { SBATCH_COMMENT = 96 };

struct sbatch {
    const json_t *spec;         /* canonical */
    int64_t       job, attempt;
    const char   *nonce;
    const char   *run_dir;
    const char   *agent;        /* the program's path, the same on every node */
    int           nodes, least; /* wanted and minimum; 0: from the spec */
    int64_t       save_ms;      /* duration of a checkpoint; 0: unknown */
    const char   *avoid;        /* "a,b": nodes to exclude; NULL or "": none */
    const char   *array, *array_comment;    /* directory and comment of an array (slurm_array.h), whose script is the
                                             * same for all its attempts; NULL: a separate job */
};

/* The --comment that identifies an attempt's allocation, whatever its Slurm number. */
void sbatch_comment(char out[SBATCH_COMMENT], int64_t job, int64_t attempt, const char *nonce);

/* The comment for an array of members of sweep `sweep`, the first of which is job `first`. */
void sbatch_array_comment(char out[SBATCH_COMMENT], int64_t sweep, int64_t first, const char *nonce);

/* The script; free() it. NULL: a value is not allowed in a script. */
char *sbatch_render(const struct sbatch *s, struct err *err);

/* The names of variables that Slurm must not store with the job: the spec's secrets, and variables of the daemon's
 * environment that look secret. A new array. */
json_t *sbatch_hidden(const json_t *spec);

#endif
