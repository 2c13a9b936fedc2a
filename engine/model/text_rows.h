/* SPDX-License-Identifier: Apache-2.0 */
/* text_rows.h - the captions of a batch without their padding: one row of numbers a token
 *
 * Captions are padded to the longest; what the padding would be projected to is
 * multiplied by a probability of exactly 0 and adds exactly 0 to each gradient.  So
 * a step takes the tokens alone, sample after sample: those of sample b are rows
 * first[b] to first[b + 1].  A caption ends with its last token that is not
 * masked; one without any keeps all, as it attends to its padding.
 *
 * How many rows there are would differ from batch to batch, and with it all that a
 * device prepares for a size of product.  So they come in multiples of `step`, of
 * which a full batch has some 32: the rows missing to that are padding, masked as
 * it was.
 */
#ifndef ENGINE_MODEL_TEXT_ROWS_H
#define ENGINE_MODEL_TEXT_ROWS_H

/* For the largest batch there will be. */
int text_rows_step(int batch, int text);

/* Fills first[batch + 1] from mask[batch, text], 1 = real token, and returns the rows there are. */
int text_rows_find(int *first, const float *mask, int batch, int text, int step);

#endif
