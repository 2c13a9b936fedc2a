/* SPDX-License-Identifier: Apache-2.0 */
/* bpe.h - byte pair encoding: adjacent symbols are merged by rank until no pair is in the table
 *
 * R. Sennrich, B. Haddow, A. Birch: Neural Machine Translation of Rare Words with Subword Units (ACL 2016), in the
 * variant of the tokenizers library: the pair of lowest rank first; among pairs of equal rank, the leftmost.
 */
#ifndef ENGINE_TEXT_BPE_H
#define ENGINE_TEXT_BPE_H

#include <stddef.h>
#include <stdint.h>

struct err;
struct bpe;

int bpe_create(struct bpe **out, struct err *err);
void bpe_destroy(struct bpe *b);

/* `left` and `right` become `merged`; the rank is the number of merges added before. An existing pair keeps its
 * rank. */
int bpe_add(struct bpe *b, int32_t left, int32_t right, int32_t merged, struct err *err);

/* Merges n symbols in place; returns the number left, or -1. Takes n log n steps. */
int64_t bpe_run(const struct bpe *b, int32_t *symbol, size_t n, struct err *err);

#endif
