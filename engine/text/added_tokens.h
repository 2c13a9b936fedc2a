/* SPDX-License-Identifier: Apache-2.0 */
/* added_tokens.h - tokens that are found in a text before it is split into pieces, the longest first */
#ifndef ENGINE_TEXT_ADDED_TOKENS_H
#define ENGINE_TEXT_ADDED_TOKENS_H

#include <stddef.h>

struct err;

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
/* After the last was added. */
void added_tokens_sort(struct added_tokens *a);
/* The longest one that the n bytes begin with, or NULL. */
const struct added_token *added_tokens_find(const struct added_tokens *a, const char *text, size_t n);
void added_tokens_free(struct added_tokens *a);

#endif
