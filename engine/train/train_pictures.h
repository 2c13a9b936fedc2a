/* SPDX-License-Identifier: Apache-2.0 */
/* train_pictures.h - sample pictures drawn before and after training, written and scored
 *
 * A failure to draw or write them is a warning and does not end the run.
 */
#ifndef ENGINE_TRAIN_TRAIN_PICTURES_H
#define ENGINE_TRAIN_TRAIN_PICTURES_H

struct train;

int train_pictures_before(struct train *t);
int train_pictures_after(struct train *t);

#endif
