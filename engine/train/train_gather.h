/* SPDX-License-Identifier: Apache-2.0 */
/* train_gather.h - the trained weights of a run whose ranks have a part each, on rank 0 */
#ifndef ENGINE_TRAIN_TRAIN_GATHER_H
#define ENGINE_TRAIN_TRAIN_GATHER_H

struct train;

/* A collective of all ranks. `weights`: on rank 0 the host view of a model of the run's layout, which gets the weights
 * or, if the run keeps one, their moving average; NULL on the others. */
int train_gather(struct train *t, float *weights);

#endif
