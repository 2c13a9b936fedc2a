/* SPDX-License-Identifier: Apache-2.0 */
/* fit_advice.h - what to change in a spec that does not fit into memory: the nearest changes that make it fit
 *
 * Pure: no clock, no I/O.
 * Each change is planned as fit.h plans a run, in this order: what costs nothing, what costs time, what changes the
 * training, what needs other machines.
 */
#ifndef ENGINE_OPTIM_FIT_ADVICE_H
#define ENGINE_OPTIM_FIT_ADVICE_H

#include "engine/optim/fit.h"

enum { FIT_ADVICE = 4, FIT_ADVICE_TEXT = 160 };

struct fit_advice {
    char    change[FIT_ADVICE_TEXT]; /* "train.optimizer.type: came" */
    int64_t total;                   /* bytes of a rank with it */
};

/* Up to FIT_ADVICE changes that fit; their number, 0 if none does. *least: the smallest total of those that were tried.
 * -1 (ERR_USAGE): impossible sizes. */
int fit_advise(struct fit_advice out[FIT_ADVICE], int64_t *least, const struct fit_ask *ask, struct err *err);

/* ERR_USAGE if the run cannot fit into ask->room.total, with any micro-batch that it may choose: the sentence names the
 * nearest change that fits. Free memory does not count: it changes. 0 if total is 0, with `memory_check: false`, or if
 * the sizes are impossible, which the model reports. */
int fit_refuse(const struct fit_ask *ask, struct err *err);

#endif
