/* SPDX-License-Identifier: Apache-2.0 */
/* caption.h - the built-in "text encoder": words as hashed n-grams of their letters
 *
 * A caption is cut into words (letters and digits; bytes above 127 count as letters;
 * case is folded).  A word is the sum of a vector of signs for itself and one for each
 * three neighbouring letters of "^word$", scaled to unit variance, so that words that
 * look alike are near each other.  Signs come from a hash: the same on every machine.
 * Cross attention sees a set of words; what a caption has beyond `words` is dropped.
 * An empty caption is one token of its own, so that every mask has a 1.
 */
#ifndef ENGINE_DATA_CAPTION_H
#define ENGINE_DATA_CAPTION_H

/* tokens: [words][channels], mask: [words]. Rows that are not used are 0. */
void caption_encode(float *tokens, float *mask, const char *text, int words, int channels);

/* How many words a caption has, all of them. */
int caption_words(const char *text);

/* What stands for "no caption" in every row: the null embedding of guidance. */
void caption_null(float *tokens, int words, int channels);

#endif
