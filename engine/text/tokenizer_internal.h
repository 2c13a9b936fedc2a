/* SPDX-License-Identifier: Apache-2.0 */
/* tokenizer_internal.h - internals of a tokenizer, shared by tokenizer*.c only */
#ifndef ENGINE_TEXT_TOKENIZER_INTERNAL_H
#define ENGINE_TEXT_TOKENIZER_INTERNAL_H

#include <stddef.h>
#include <stdint.h>

#include "engine/text/bpe.h"
#include "engine/text/tokenizer.h"

/* The pieces of a tokenizer and their ids, found in both directions
 *
 * A piece is a UTF-8 text with an id from 0 on; ids may have gaps. A second text can have the same id
 * (Gemma: a tab and "<0x09>").
 */
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
/* The text that was added for an id, without a terminating 0, *n its length; NULL: none. */
const char *vocabulary_text(const struct vocabulary *v, int id, size_t *n);

/* Tokens that are found in a text before it is split into pieces, the longest first */

struct added_token {
    char  *text; /* not ended by 0 */
    size_t n;
    int    id;
};

/* Begin with zeros. */
struct added_tokens {
    struct added_token *list;      /* once sorted: by first byte, then the longest first */
    size_t              n, room;
    size_t              from[257]; /* those with first byte b: list[from[b]] to list[from[b + 1]] */
};

/* Copies the text. ERR_DATA: it is empty. */
int added_tokens_add(struct added_tokens *a, int id, const char *text, size_t n, struct err *err);
/* Call after the last token was added. */
void added_tokens_sort(struct added_tokens *a);
/* The longest one that the n bytes begin with, or NULL. */
const struct added_token *added_tokens_find(const struct added_tokens *a, const char *text, size_t n);
void added_tokens_free(struct added_tokens *a);

struct tokenizer {
    struct vocabulary  *pieces;
    struct bpe         *merges;
    struct added_tokens added;
    int                 byte[256]; /* ids of <0x00> to <0xFF> */
    int                 bos, pad;
};

/* Both fill pieces, merges and added tokens. */
int tokenizer_json(struct tokenizer *t, const char *bytes, size_t size, struct err *err);
int tokenizer_model(struct tokenizer *t, const char *bytes, size_t size, struct err *err);

#endif
