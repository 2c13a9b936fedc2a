/* SPDX-License-Identifier: Apache-2.0 */
/* text_rows.h - packed captions of a batch: one row per token, without padding
 *
 * Captions are padded to the longest; the projection of padding is
 * multiplied by a probability of exactly 0 and adds exactly 0 to each gradient.  So
 * a step uses the tokens only, sample after sample: those of sample b are rows
 * first[b] to first[b + 1] - 1.  A caption ends with its last unmasked token;
 * a caption without one keeps all tokens, because it attends to its padding.
 *
 * The number of rows would differ from batch to batch, and with it everything that a
 * device prepares per product size.  So it is rounded up to a multiple of `step`;
 * a full batch has some 32 steps, and the extra rows are masked
 * padding.
 */
#ifndef ENGINE_MODEL_TEXT_ROWS_H
#define ENGINE_MODEL_TEXT_ROWS_H

/* For the largest batch. */
int text_rows_step(int batch, int text);

/* Fills first[batch + 1] from mask[batch, text], 1 = real token, and returns the number of rows. */
int text_rows_find(int *first, const float *mask, int batch, int text, int step);

#endif
