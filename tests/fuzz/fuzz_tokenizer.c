/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_tokenizer.c - a tokenizer.json or tokenizer.model that somebody else wrote
 *
 * An accepted tokenizer gives existing ids for every text, and a text for every such id; a refusal has a message.
 */
#include <string.h>

#include "engine/base/err.h"
#include "engine/text/prompt.h"
#include "engine/text/tokenizer.h"
#include "tests/fuzz/target.h"

static void check_text(const struct tokenizer *t, const char *text, size_t n)
{
    struct token_ids ids = {0};
    struct err err = {0};
    PROMISE(tokenizer_encode(t, &ids, text, n, &err) == 0 && ids.n <= 3 * n);
    for (size_t i = 0; i < ids.n; i++)
        PROMISE(ids.id[i] >= 0 && ids.id[i] < tokenizer_size(t));
    char *back = tokenizer_decode(t, ids.id, ids.n, NULL, &err);
    PROMISE(back);
    free(back);
    free(ids.id);
}

static void check_prompt(const struct tokenizer *t)
{
    struct prompt p;
    struct err err = {0};
    PROMISE(prompt_sana(&p, t, "Enhance: ", "a cat", 5, 7, &err) == 0);
    PROMISE(p.id[0] == tokenizer_bos(t) && p.row[p.rows - 1] == (int)p.length - 1);
    prompt_free(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tokenizer *t = NULL;
    struct err err = {0};
    if (tokenizer_parse(&t, (const char *)data, size, &err) < 0) {
        PROMISE(err.text[0]);
        return 0;
    }
    check_text(t, "a cat\t  <bos>\n\xC3\xA9 \xFF", 17);
    check_text(t, (const char *)data, size < 4096 ? size : 4096);
    check_prompt(t);
    tokenizer_close(t);
    return 0;
}
