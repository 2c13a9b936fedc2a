/* SPDX-License-Identifier: Apache-2.0 */
/* tokenizer_internal.h - inside of a tokenizer, shared by tokenizer*.c only */
#ifndef ENGINE_TEXT_TOKENIZER_INTERNAL_H
#define ENGINE_TEXT_TOKENIZER_INTERNAL_H

#include "engine/text/added_tokens.h"
#include "engine/text/bpe.h"
#include "engine/text/tokenizer.h"
#include "engine/text/vocabulary.h"

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
