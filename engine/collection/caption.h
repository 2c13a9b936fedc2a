/* SPDX-License-Identifier: Apache-2.0 */
/* caption.h - the built-in text encoder: words as hashed character n-grams
 *
 * A caption is split into words (letters and digits; bytes above 127 count as letters;
 * case is folded).  A word is the sum of a vector of signs for itself and one for each
 * trigram of "^word$", scaled to unit variance, so that words with similar
 * spelling are near each other.  Signs come from a hash: the same on every machine.
 * Cross attention sees a set of words; words beyond `words` are dropped.
 * An empty caption is one special token, so that every mask has a 1.
 */
#ifndef ENGINE_COLLECTION_CAPTION_H
#define ENGINE_COLLECTION_CAPTION_H

/* tokens: [words][channels], mask: [words]; each may be NULL. Unused rows are 0. */
void caption_encode(float *tokens, float *mask, const char *text, int words, int channels);

/* Number of words in a caption, without the limit. */
int caption_words(const char *text);

/* The token in every row of a dropped caption: the null embedding of guidance. */
void caption_null(float *tokens, int words, int channels);

#endif
