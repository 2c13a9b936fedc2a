/* SPDX-License-Identifier: Apache-2.0 */
/* train_validate.h - pictures of the spec's prompts (train.validate), every so many steps of a run
 *
 *   DIR/samples/prompt-01.step-00000250.png   one picture
 *   DIR/samples/prompts.png                   all of them, a row per step
 *
 * Rank 0 draws before the first step, at each multiple of validate.every and after the last step; the others wait, and
 * receive its progress.  A picture depends on the weights, the prompt and the seed: a run that is killed and resumed
 * draws what it would have drawn.  A step at which a run begins again is drawn only if a picture of it is missing. A
 * failure to draw is a warning and does not end the run.
 */
#ifndef ENGINE_TRAIN_TRAIN_VALIDATE_H
#define ENGINE_TRAIN_TRAIN_VALIDATE_H

struct train;

/* At each step boundary of all ranks. -1: the ranks have lost each other, or a checkpoint needed for this failed. */
int train_validate(struct train *t);

#endif
