/* SPDX-License-Identifier: Apache-2.0 */
/* train_parts.h - what train.c, train_start.c and train_pictures.c share; nobody else
 *
 * Functions return 0 or -1 with a sentence in t->err; t->code is the exit code that a failure
 * calls for, or EXIT_DONE to let the kind of the error decide.
 */
#ifndef ENGINE_TRAIN_PARTS_H
#define ENGINE_TRAIN_PARTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/checkpoint.h"
#include "engine/err.h"
#include "engine/exit_code.h"
#include "engine/train.h"
#include "engine/train_spec.h"

enum { TRAIN_PENDING = 16 };

/* A checkpoint that has yet to prove good. */
struct train_pending {
    int64_t step;
    char    path[CHECKPOINT_PATH];
};

struct train {
    const json_t           *job;
    const struct train_env *env;
    struct train_spec       spec;
    char                    dir[CHECKPOINT_PATH]; /* of checkpoints, absolute */
    char                    spec_digest[MANIFEST_DIGEST];

    struct progress *progress;
    struct flight   *flight;
    struct dataset  *data;
    json_t          *codec; /* of the data, or NULL */
    struct loader   *loader;
    struct step     *step;
    struct metrics  *metrics;

    int64_t at;            /* optimizer steps completed */
    int64_t saved;         /* step of the newest checkpoint, or -1 */
    double  saved_s;       /* when it was written, or the run began */
    double  loss;          /* of the last step */
    double  step_s;        /* running mean of a step's time */
    double  said_s, told_s; /* last line for people, for the agent */
    bool    fresh;         /* did not resume */

    struct train_pending pending[TRAIN_PENDING];
    float               *before; /* latents drawn before training, or NULL */

    struct err     err;
    enum exit_code code;
};

double train_clock(void); /* monotonic seconds */

/* train_start.c: from a spec to a run that can take its next step. */
int train_start(struct train *t);

/* train_pictures.c: draw, write, tell, score. */
int train_pictures_before(struct train *t);
int train_pictures_after(struct train *t);

#endif
