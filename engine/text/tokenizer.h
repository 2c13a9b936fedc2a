/* SPDX-License-Identifier: Apache-2.0 */
/* tokenizer.h - text to token ids and back, as Gemma's tokenizer does
 *
 * Read from tokenizer.json (the tokenizers library) or tokenizer.model (SentencePiece).  A text becomes ids as follows:
 *
 *   1. It is split at the added tokens, leftmost and longest first; each has its own id.
 *   2. In the rest each space becomes U+2581.  Nothing else is normalised.
 *   3. A character in the vocabulary is a symbol; any other character becomes its UTF-8 bytes, <0x00> to <0xFF>.
 *   4. Adjacent symbols are merged (bpe.h).
 *
 * A tokenizer.model has no list of added tokens: its control, unknown and user-defined pieces are used, as in the
 * tokenizer.json converted from it. It has no merges either: they follow from scores and lengths (tokenizer_model.c).
 * Sources: convert_slow_tokenizer.py of transformers (GemmaConvert, generate_merges), sentencepiece_model.proto.
 */
#ifndef ENGINE_TEXT_TOKENIZER_H
#define ENGINE_TEXT_TOKENIZER_H

#include <stddef.h>
#include <stdint.h>

struct err;
struct tokenizer;

/* Ids of a text. Begin with zeros, free() `id`. */
struct token_ids {
    int32_t *id;
    size_t   n, room;
};

/* `path`: either file, recognized by its content, or a folder that has one (tokenizer.json first). ERR_NOT_FOUND,
 * ERR_DATA: not such a file, damaged, or a tokenizer of another kind, "PATH: line 7: ...". */
int tokenizer_open(struct tokenizer **out, const char *path, struct err *err);
/* The same from bytes, which may be freed afterwards. */
int tokenizer_parse(struct tokenizer **out, const char *bytes, size_t size, struct err *err);
void tokenizer_close(struct tokenizer *t);

/* One more than the largest id. */
int tokenizer_size(const struct tokenizer *t);
/* The ids of "<bos>" and "<pad>". */
int tokenizer_bos(const struct tokenizer *t);
int tokenizer_pad(const struct tokenizer *t);

/* Appends the ids of n bytes, without <bos>. Each byte that is not part of a character counts as U+FFFD. */
int tokenizer_encode(const struct tokenizer *t, struct token_ids *out, const char *text, size_t n, struct err *err);
/* The text of n ids, ended by 0; *bytes (or NULL) gets its length; invalid bytes become U+FFFD. The caller frees it.
 * NULL: an id does not exist, or no memory. */
char *tokenizer_decode(const struct tokenizer *t, const int32_t *id, size_t n, size_t *bytes, struct err *err);

#endif
