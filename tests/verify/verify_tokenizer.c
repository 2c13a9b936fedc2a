/* SPDX-License-Identifier: Apache-2.0 */
/* verify_tokenizer.c - kind "tokenizer": texts and their ids, exactly
 *
 * The JSON has strings with ids (without <bos>) and the text that they decode to, bytes that are not UTF-8, and batches
 * of prompts with masks and rows.  tokenizer.json and tokenizer.model beside it must each give all of them.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/err.h"
#include "engine/text/prompt.h"
#include "engine/text/tokenizer.h"
#include "tests/verify/verify_internal.h"

/* The file that is checked. */
struct tokenizer_case {
    struct verify_result           *result;
    const struct verify_case_files *files;
    const char                     *file;
    struct tokenizer               *tokenizer;
    struct err                     *err;
};

/* One row of the result: how many elements differ. */
static void count_differences(struct tokenizer_case *c, const char *what, size_t i, size_t differ)
{
    char name[128];
    const float ours = (float)differ;
    const double want = 0;
    snprintf(name, sizeof(name), "%s %s %zu", c->file, what, i);
    verify_compare(c->result, c->files, &(struct verify_row){name, VERIFY_EXACT, &ours, &want, 1, 0});
}

/* Elements that differ between a list of the JSON and ours; a list that is missing, or of another length, differs. */
static size_t differing(const json_t *want, const int32_t *ours, size_t n)
{
    size_t differ = !json_is_array(want) || json_array_size(want) != n;
    for (size_t i = 0; i < n && i < json_array_size(want); i++)
        differ += json_integer_value(json_array_get(want, i)) != ours[i];
    return differ;
}

static int check_ids(struct tokenizer_case *c, const char *what, size_t i, const char *text, size_t n,
                     const json_t *want, struct token_ids *ids)
{
    ids->n = 0;
    if (tokenizer_encode(c->tokenizer, ids, text, n, c->err) < 0)
        return -1;
    count_differences(c, what, i, differing(want, ids->id, ids->n));
    return 0;
}

static int check_string(struct tokenizer_case *c, size_t i, const json_t *row)
{
    struct token_ids ids = {0};
    size_t n;
    const json_t *text = json_object_get(row, "text"), *decoded = json_object_get(row, "decoded");
    int rc = check_ids(c, "string", i, json_string_value(text), json_string_length(text), json_object_get(row, "ids"),
                       &ids);
    char *back = rc == 0 ? tokenizer_decode(c->tokenizer, ids.id, ids.n, &n, c->err) : NULL;
    if (back && decoded)
        count_differences(c, "decoded", i,
                          n != json_string_length(decoded) || memcmp(back, json_string_value(decoded), n) != 0);
    rc = back ? 0 : -1;
    free(back);
    free(ids.id);
    return rc;
}

static int check_strings(struct tokenizer_case *c)
{
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(c->files->config, "strings"), i, row) {
        if (!json_is_string(json_object_get(row, "text")))
            return err_set(c->err, ERR_DATA, "strings[%zu] has no text", i);
        if (check_string(c, i, row) < 0)
            return -1;
    }
    return 0;
}

static size_t from_hex(char *out, size_t room, const char *hex)
{
    size_t n = 0;
    for (; n < room && hex[0] && hex[1]; hex += 2)
        out[n++] = (char)strtol((char[]){hex[0], hex[1], '\0'}, NULL, 16);
    return n;
}

static int check_bytes(struct tokenizer_case *c)
{
    size_t i;
    json_t *row;
    struct token_ids ids = {0};
    int rc = 0;
    json_array_foreach(json_object_get(json_object_get(c->files->config, "invalid_utf8"), "cases"), i, row) {
        char bytes[1024];
        const char *hex = json_string_value(json_object_get(row, "bytes_hex"));
        if (rc == 0)
            rc = check_ids(c, "bytes", i, bytes, from_hex(bytes, sizeof(bytes), hex ? hex : ""),
                           json_object_get(row, "sentencepiece_ids"), &ids);
    }
    free(ids.id);
    return rc;
}

/* --- prompts ----------------------------------------------------------------------------- */

static size_t differing_mask(const json_t *want, const float *ours, size_t n)
{
    size_t differ = json_array_size(want) != n;
    for (size_t i = 0; i < n && i < json_array_size(want); i++)
        differ += (float)json_number_value(json_array_get(want, i)) != ours[i];
    return differ;
}

/* The rows that the model gets, as ids and mask. */
static size_t differing_rows(const json_t *row, const struct prompt *p)
{
    const json_t *ids = json_object_get(row, "selected_ids"), *mask = json_object_get(row, "selected_mask");
    size_t differ = differing(json_object_get(row, "select_index"), p->row, p->rows);
    for (size_t i = 0; i < p->rows; i++)
        differ += json_integer_value(json_array_get(ids, i)) != p->id[p->row[i]] ||
                  (float)json_number_value(json_array_get(mask, i)) != p->mask[p->row[i]];
    return differ;
}

/* The instruction's lines; the caller frees it. */
static char *join_lines(const json_t *lines)
{
    size_t i, room = 1, n = 0;
    json_t *line;
    json_array_foreach(lines, i, line)
        room += json_string_length(line) + 1;
    char *out = calloc(room, 1);
    json_array_foreach(lines, i, line)
        if (out)
            n += (size_t)snprintf(out + n, room - n, "%s%s", i ? "\n" : "", json_string_value(line));
    return out;
}

static int check_sana(struct tokenizer_case *c, size_t i, const json_t *row)
{
    struct prompt p;
    const json_t *caption = json_object_get(row, "prompt");
    char *chi = join_lines(json_object_get(row, "chi_prompt"));
    const size_t rows = (size_t)json_integer_value(json_object_get(row, "model_max_length"));
    const int rc = json_is_string(caption)
                       ? prompt_sana(&p, c->tokenizer, chi, json_string_value(caption), json_string_length(caption),
                                     rows, c->err)
                       : err_set(c->err, ERR_DATA, "sana_batches[%zu] has no prompt", i);
    free(chi);
    if (rc < 0)
        return -1;
    count_differences(c, "sana ids", i, differing(json_object_get(row, "input_ids"), p.id, p.length));
    count_differences(c, "sana mask", i, differing_mask(json_object_get(row, "attention_mask"), p.mask, p.length));
    count_differences(c, "sana rows", i, differing_rows(row, &p));
    count_differences(c, "sana instruction", i,
                      (json_int_t)p.chi != json_integer_value(json_object_get(row, "num_chi_prompt_tokens")));
    prompt_free(&p);
    return 0;
}

static int check_lumina(struct tokenizer_case *c, const json_t *batch)
{
    size_t i;
    json_t *caption;
    const json_t *ids = json_object_get(batch, "input_ids"), *mask = json_object_get(batch, "attention_mask");
    struct token_ids tokens = {0};
    size_t longest = 0;
    int rc = 0;
    json_array_foreach(json_object_get(batch, "captions"), i, caption) {
        tokens.n = 0;
        if (rc == 0)
            rc = tokenizer_encode(c->tokenizer, &tokens, json_string_value(caption), json_string_length(caption),
                                  c->err);
        longest = tokens.n + 1 > longest ? tokens.n + 1 : longest;
    }
    free(tokens.id);
    json_array_foreach(json_object_get(batch, "captions"), i, caption) {
        struct prompt p;
        if (rc < 0 || prompt_lumina(&p, c->tokenizer, json_string_value(caption), json_string_length(caption),
                                    prompt_lumina_length(longest, PROMPT_LUMINA_MAX), c->err) < 0)
            return -1;
        count_differences(c, "lumina ids", i, differing(json_array_get(ids, i), p.id, p.length));
        count_differences(c, "lumina mask", i, differing_mask(json_array_get(mask, i), p.mask, p.length));
        prompt_free(&p);
    }
    return rc;
}

static int check_file(struct tokenizer_case *c)
{
    size_t i;
    json_t *row;
    if (check_strings(c) < 0 || check_bytes(c) < 0)
        return -1;
    json_array_foreach(json_object_get(c->files->config, "sana_batches"), i, row)
        if (check_sana(c, i, row) < 0)
            return -1;
    return check_lumina(c, json_object_get(c->files->config, "lumina_batch"));
}

int verify_tokenizer(struct verify_result *result, const struct verify_case_files *files, struct err *err)
{
    static const char *const name[] = {"tokenizer.json", "tokenizer.model"};
    const char *slash = strrchr(files->path, '/');
    const int folder = slash ? (int)(slash - files->path + 1) : 0;
    for (size_t i = 0; i < sizeof(name) / sizeof(*name); i++) {
        char path[PATH_MAX];
        struct tokenizer_case c = {result, files, name[i], NULL, err};
        snprintf(path, sizeof(path), "%.*s%s", folder, files->path, name[i]);
        if (i > 0 && access(path, F_OK) < 0)
            continue;
        if (tokenizer_open(&c.tokenizer, path, err) < 0)
            return -1;
        const int rc = check_file(&c);
        tokenizer_close(c.tokenizer);
        if (rc < 0)
            return -1;
    }
    return result->tensors ? 0 : err_set(err, ERR_DATA, "there is nothing to check: no strings");
}
