/* SPDX-License-Identifier: Apache-2.0 */
/* prompt.c - see prompt.h */
#include "engine/text/prompt.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/text/tokenizer.h"

void prompt_free(struct prompt *p)
{
    free(p->id);
    free(p->mask);
    free(p->row);
    *p = (struct prompt){0};
}

static int reserve(struct prompt *p, size_t length, size_t rows, struct err *err)
{
    *p = (struct prompt){calloc(length, sizeof(*p->id)), calloc(length, sizeof(*p->mask)),
                         calloc(rows, sizeof(*p->row)), length, rows, 0};
    if (p->id && p->mask && p->row)
        return 0;
    prompt_free(p);
    return err_set(err, ERR_MEMORY, "no memory for a caption of %zu tokens", length);
}

/* <bos> and the ids, cut or padded. */
static void fill(struct prompt *p, const struct tokenizer *t, const struct token_ids *text)
{
    for (size_t i = 0; i < p->length; i++) {
        p->mask[i] = i <= text->n;
        p->id[i] = i == 0 ? tokenizer_bos(t) : i <= text->n ? text->id[i - 1] : tokenizer_pad(t);
    }
}

/* The instruction and the caption as one text: a token may reach over the seam. */
static int encode_both(struct token_ids *out, const struct tokenizer *t, const char *chi, const char *caption, size_t n,
                       struct err *err)
{
    const size_t before = strlen(chi);
    char *text = malloc(before + n + 1);
    if (!text)
        return err_set(err, ERR_MEMORY, "no memory for a caption of %zu bytes", n);
    memcpy(text, chi, before);
    memcpy(text + before, caption, n);
    const int rc = tokenizer_encode(t, out, text, before + n, err);
    free(text);
    return rc;
}

int prompt_sana(struct prompt *out, const struct tokenizer *t, const char *chi, const char *caption, size_t n,
                size_t rows, struct err *err)
{
    struct token_ids alone = {0}, both = {0};
    int rc = -1;
    *out = (struct prompt){0};
    if (rows < 2)
        return err_set(err, ERR_USAGE, "a caption needs at least 2 rows, not %zu", rows);
    chi = chi ? chi : "";
    if (tokenizer_encode(t, &alone, chi, strlen(chi), err) == 0 && encode_both(&both, t, chi, caption, n, err) == 0) {
        const size_t with_bos = chi[0] ? alone.n + 1 : 0;
        rc = reserve(out, with_bos ? with_bos + rows - 2 : rows, rows, err);
        if (rc == 0) {
            fill(out, t, &both);
            out->chi = with_bos;
            for (size_t i = 1; i < rows; i++)
                out->row[i] = (int)(out->length - rows + i);
        }
    }
    free(alone.id);
    free(both.id);
    return rc;
}

size_t prompt_lumina_length(size_t longest, size_t max)
{
    const size_t rounded = (longest + 7) / 8 * 8;
    return rounded < max ? rounded : max;
}

int prompt_lumina(struct prompt *out, const struct tokenizer *t, const char *caption, size_t n, size_t length,
                  struct err *err)
{
    struct token_ids ids = {0};
    *out = (struct prompt){0};
    int rc = tokenizer_encode(t, &ids, caption, n, err);
    if (rc == 0)
        rc = reserve(out, length, length, err);
    if (rc == 0) {
        fill(out, t, &ids);
        for (size_t i = 0; i < length; i++)
            out->row[i] = (int)i;
    }
    free(ids.id);
    return rc;
}
