/* SPDX-License-Identifier: Apache-2.0 */
/* fit_advice.h - changes that make a spec fit into memory, the smallest first
 *
 * Pure: no clock, no I/O.
 * Each change is planned as in fit.h, in this order: free changes, changes that cost time, changes of the training
 * itself, changes of the machines.
 */
#ifndef ENGINE_OPTIM_FIT_ADVICE_H
#define ENGINE_OPTIM_FIT_ADVICE_H

#include "engine/optim/fit.h"

enum { FIT_ADVICE = 4, FIT_ADVICE_TEXT = 160 };

struct fit_advice {
    char    change[FIT_ADVICE_TEXT]; /* "train.optimizer.type: came" */
    int64_t total;                   /* a rank's bytes with this change */
};

/* Up to FIT_ADVICE changes that fit; returns their number, 0 if none fits. *least: the smallest total among those
 * tried. -1 (ERR_USAGE): impossible sizes. */
int fit_advise(struct fit_advice out[FIT_ADVICE], int64_t *least, const struct fit_ask *ask, struct err *err);

/* ERR_USAGE if the run cannot fit into ask->room.total, with any micro-batch that it may choose: the message names the
 * smallest change that fits. Free memory is ignored, because it changes. 0 if total is 0, with `memory_check: false`,
 * or if the sizes are impossible, which the model reports. */
int fit_refuse(const struct fit_ask *ask, struct err *err);

#endif
