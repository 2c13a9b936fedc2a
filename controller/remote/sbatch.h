/* SPDX-License-Identifier: Apache-2.0 */
/* sbatch.h - templates/slurm.sbatch filled in: what Slurm is given for one attempt */
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
    int           nodes, least; /* so many, or down to so few; 0: as the spec says */
    int64_t       save_ms;      /* so long does a checkpoint take; 0: not known */
    const char   *avoid;        /* "a,b": nodes that are not to be given; NULL or "": none */
};

/* By which an attempt's allocation is known, whatever number Slurm gives it. */
void sbatch_comment(char out[SBATCH_COMMENT], int64_t job, int64_t attempt, const char *nonce);

/* The script, for free(); NULL: a value cannot stand in a script. */
char *sbatch_render(const struct sbatch *s, struct err *err);

#endif
