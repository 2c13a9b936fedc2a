/* SPDX-License-Identifier: Apache-2.0 */
/* prompt.h - captions as token ids, masks and rows, as the authors' programs pass them to the text encoder
 *
 * Sana (train_scripts/train.py, app/sana_pipeline.py): an instruction (complex human instruction, "chi") of n tokens
 * with <bos> precedes the caption; the ids are padded or cut on the right to n + rows - 2, and `rows` of the
 * encoder's rows are used: row 0, and the last rows - 1, which begin where the instruction ends.  Without instruction
 * the length is `rows`, and all are used.
 *
 * Lumina-Next (lumina_next_t2i/train.py): captions of a batch, padded on the right to the longest, rounded up to a
 * multiple of 8, 256 at most.
 */
#ifndef ENGINE_TEXT_PROMPT_H
#define ENGINE_TEXT_PROMPT_H

#include <stddef.h>
#include <stdint.h>

struct err;
struct tokenizer;

/* One caption. `mask` is 1 for a token and 0 for padding. */
struct prompt {
    int32_t *id;
    float   *mask;
    int     *row;                 /* rows of the encoder's output that the model gets */
    size_t   length, rows, chi;   /* of id and mask; of row; tokens of the instruction, 0 without one */
};

enum { PROMPT_SANA_ROWS = 300, PROMPT_LUMINA_MAX = 256 };

/* `chi` NULL or "": no instruction. `caption`: n bytes. ERR_USAGE: fewer than 2 rows. */
int prompt_sana(struct prompt *out, const struct tokenizer *t, const char *chi, const char *caption, size_t n,
                size_t rows, struct err *err);
/* The length for a batch whose longest caption has `longest` tokens with <bos>. */
size_t prompt_lumina_length(size_t longest, size_t max);
/* One caption of a batch of that length, all rows. */
int prompt_lumina(struct prompt *out, const struct tokenizer *t, const char *caption, size_t n, size_t length,
                  struct err *err);
/* Accepts a zeroed struct. */
void prompt_free(struct prompt *p);

#endif
