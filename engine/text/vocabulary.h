/* SPDX-License-Identifier: Apache-2.0 */
/* vocabulary.h - the pieces of a tokenizer and their ids, found in both directions
 *
 * A piece is some bytes of UTF-8 with an id from 0 on; ids may leave gaps.  A second text can stand for the same id
 * (Gemma: a tab and "<0x09>").
 */
#ifndef ENGINE_TEXT_VOCABULARY_H
#define ENGINE_TEXT_VOCABULARY_H

#include <stddef.h>
#include <stdint.h>

struct err;
struct vocabulary;

/* The largest id that is accepted, and the longest piece in bytes. */
enum { VOCABULARY_ID_MAX = 4 * 1024 * 1024 - 1, VOCABULARY_PIECE_MAX = 4096 };

/* `bytes`: of all texts that will be added, at most. */
int vocabulary_create(struct vocabulary **out, size_t bytes, struct err *err);
void vocabulary_destroy(struct vocabulary *v);

/* Copies the text. ERR_DATA: a duplicate text or id, an empty text, or one that is too long. */
int vocabulary_add(struct vocabulary *v, int id, const char *text, size_t n, struct err *err);
/* A second text for an existing id. */
int vocabulary_alias(struct vocabulary *v, int id, const char *text, size_t n, struct err *err);

/* One more than the largest id. */
int vocabulary_size(const struct vocabulary *v);
/* The id, or -1. */
int vocabulary_find(const struct vocabulary *v, const char *text, size_t n);
/* The text that was added for an id, not ended by 0, *n its bytes; NULL: there is none. */
const char *vocabulary_text(const struct vocabulary *v, int id, size_t *n);

#endif
