/* SPDX-License-Identifier: Apache-2.0 */
/* tokenizer_json.c - tokenizer.json of the tokenizers library, as Gemma has it; see tokenizer.h
 *
 * Settings that Gemma's file does not have would give other ids: they are refused by name.
 */
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/text/json_scan.h"
#include "engine/text/tokenizer_internal.h"

/* Where the parts of the file are, 0: absent. The order of members is free in JSON; merges need the vocabulary. */
enum part { ADDED, NORMALIZER, PRE_TOKENIZER, MODEL, VOCAB, MERGES, PARTS };

struct places {
    size_t           at[PARTS];
    struct json_slice text[PARTS];
};

static const struct {
    const char *name;
    enum part   part;
} members[] = {
    {"added_tokens", ADDED}, {"normalizer", NORMALIZER}, {"pre_tokenizer", PRE_TOKENIZER}, {"model", MODEL},
}, members_of_model[] = {
    {"vocab", VOCAB}, {"merges", MERGES},
};

/* Settings of "model" and the values that are possible: 0 null, 1 true, 2 false, else a string. */
static const struct {
    const char *name, *value, *other;
} settings[] = {
    {"type", "\"BPE\"", NULL},
    {"dropout", "null", NULL},
    {"continuing_subword_prefix", "null", "\"\""},
    {"end_of_word_suffix", "null", "\"\""},
    {"byte_fallback", "true", NULL},
    {"ignore_merges", "false", NULL},
};

static int check_setting(struct json_scan *s, const struct json_slice *key)
{
    struct json_slice value;
    char text[160];
    if (json_scan_skip(s, &value) < 0)
        return -1;
    for (size_t i = 0; i < sizeof(settings) / sizeof(*settings); i++)
        if (json_scan_is(key, settings[i].name) && !json_scan_is(&value, settings[i].value) &&
            !(settings[i].other && json_scan_is(&value, settings[i].other))) {
            snprintf(text, sizeof(text), "model.%s is %.*s; only %s is supported", settings[i].name,
                     (int)(value.n < 40 ? value.n : 40), value.at, settings[i].value);
            return json_scan_fail(s, text);
        }
    return 0;
}

/* Notes where a part is; -1: the key is none of them, or an error. */
static int note(struct json_scan *s, struct places *p, enum part part)
{
    json_scan_peek(s);
    if (p->at[part])
        return json_scan_fail(s, "the member occurs twice");
    p->at[part] = s->at;
    return json_scan_skip(s, &p->text[part]);
}

static int find_in_model(struct json_scan *s, struct places *p)
{
    struct json_slice key;
    for (json_scan_enter(s, '{'); json_scan_more(s, '}');) {
        if (json_scan_key(s, &key) < 0)
            return -1;
        bool part = false;
        for (size_t i = 0; i < sizeof(members_of_model) / sizeof(*members_of_model) && !part; i++)
            if ((part = json_scan_is(&key, members_of_model[i].name)) && note(s, p, members_of_model[i].part) < 0)
                return -1;
        if (!part && check_setting(s, &key) < 0)
            return -1;
    }
    return 0;
}

static int find_parts(struct json_scan *s, struct places *p)
{
    struct json_slice key;
    for (json_scan_enter(s, '{'); json_scan_more(s, '}');) {
        if (json_scan_key(s, &key) < 0)
            return -1;
        bool part = false;
        for (size_t i = 0; i < sizeof(members) / sizeof(*members) && !part; i++)
            if ((part = json_scan_is(&key, members[i].name)) && note(s, p, members[i].part) < 0)
                return -1;
        if (!part && json_scan_skip(s, NULL) < 0)
            return -1;
    }
    if (!p->at[MODEL])
        return json_scan_fail(s, "there is no \"model\"; a tokenizer.json is expected");
    s->at = p->at[MODEL];
    if (find_in_model(s, p) < 0)
        return -1;
    return p->at[VOCAB] && p->at[MERGES] ? 0 : json_scan_fail(s, "\"model\" has no \"vocab\" or no \"merges\"");
}

/* --- what is done to the text before the model ------------------------------------------- */

/* One of two values, or it is absent. */
static int check_step(const struct places *p, enum part part, const char *expected, struct err *err)
{
    if (!p->at[part] || json_scan_is(&p->text[part], "null"))
        return part == NORMALIZER ? err_set(err, ERR_DATA, "there is no normalizer; expected %s", expected) : 0;
    json_t *is = json_loadb(p->text[part].at, p->text[part].n, JSON_DECODE_ANY, NULL);
    json_t *should = json_loads(expected, 0, NULL);
    const bool same = is && json_equal(is, should);
    json_decref(is);
    json_decref(should);
    return same ? 0
                : err_set(err, ERR_DATA, "the %s is %.*s; only Gemma's is supported, %s",
                          part == NORMALIZER ? "normalizer" : "pre_tokenizer",
                          (int)(p->text[part].n < 120 ? p->text[part].n : 120), p->text[part].at, expected);
}

/* The pre-tokenizer splits at spaces, of which the normalizer has left none. */
static int check_steps(const struct places *p, struct err *err)
{
    if (check_step(p, NORMALIZER,
                   "{\"type\": \"Replace\", \"pattern\": {\"String\": \" \"}, \"content\": \"\\u2581\"}", err) < 0)
        return -1;
    return check_step(p, PRE_TOKENIZER,
                      "{\"type\": \"Split\", \"pattern\": {\"String\": \" \"}, \"behavior\": "
                      "\"MergedWithPrevious\", \"invert\": false}",
                      err);
}

/* --- vocabulary and merges --------------------------------------------------------------- */

static int read_vocab(struct tokenizer *t, struct json_scan *s, size_t at)
{
    struct json_slice piece;
    int64_t id;
    s->at = at;
    for (json_scan_enter(s, '{'); json_scan_more(s, '}');) {
        struct err why = {0};
        if (json_scan_key(s, &piece) < 0)
            return -1;
        const struct json_slice kept = piece; /* a number is not a string: it stays valid */
        if (json_scan_int(s, &id) < 0)
            return -1;
        if (id < 0 || id > VOCABULARY_ID_MAX)
            return json_scan_fail(s, "the id of a piece is too large or negative");
        if (vocabulary_add(t->pieces, (int)id, kept.at, kept.n, &why) < 0)
            return json_scan_fail(s, why.text);
    }
    return 0;
}

/* "left right" with one space, or ["left", "right"]: both texts, one behind the other in `both`. */
static int read_pair(struct json_scan *s, char both[2 * VOCABULARY_PIECE_MAX], size_t *left, size_t *n)
{
    struct json_slice part;
    const bool list = json_scan_peek(s) == '[';
    *n = *left = 0;
    if (!list) {
        if (json_scan_string(s, &part) < 0)
            return -1;
        const char *gap = memchr(part.at, ' ', part.n);
        if (!gap || part.n > VOCABULARY_PIECE_MAX || memchr(gap + 1, ' ', (size_t)(part.at + part.n - gap - 1)))
            return json_scan_fail(s, "expected a merge of two pieces with one space between them");
        *left = (size_t)(gap - part.at);
        *n = part.n - 1;
        memcpy(both, part.at, *left);
        memcpy(both + *left, gap + 1, *n - *left);
        return 0;
    }
    int parts = 0;
    for (json_scan_enter(s, '['); json_scan_more(s, ']'); parts++) {
        if (json_scan_string(s, &part) < 0)
            return -1;
        if (parts == 2 || part.n > VOCABULARY_PIECE_MAX)
            return json_scan_fail(s, "expected a merge of two pieces");
        memcpy(both + *n, part.at, part.n);
        *left = parts == 0 ? part.n : *left;
        *n += part.n;
    }
    return parts == 2 ? 0 : json_scan_fail(s, "expected a merge of two pieces");
}

static int read_merges(struct tokenizer *t, struct json_scan *s, size_t at)
{
    char both[2 * VOCABULARY_PIECE_MAX];
    size_t left, n;
    s->at = at;
    for (json_scan_enter(s, '['); json_scan_more(s, ']');) {
        if (read_pair(s, both, &left, &n) < 0)
            return -1;
        const int a = vocabulary_find(t->pieces, both, left);
        const int b = vocabulary_find(t->pieces, both + left, n - left);
        const int merged = vocabulary_find(t->pieces, both, n);
        if (a < 0 || b < 0 || merged < 0)
            return json_scan_fail(s, "a merge has a piece, or makes one, that is not in the vocabulary");
        if (bpe_add(t->merges, a, b, merged, s->err) < 0)
            return -1;
    }
    return s->err->code == ERR_NONE ? 0 : -1;
}

/* --- added tokens ------------------------------------------------------------------------ */

/* A token that may begin or end inside a word, keeps the spaces around it, and is looked for before normalisation. */
static int add_token(struct tokenizer *t, json_t *row, struct err *err)
{
    const char *text;
    size_t n;
    int id, word, left, right, normalized;
    if (json_unpack(row, "{s:i, s:s%, s:b, s:b, s:b, s:b}", "id", &id, "content", &text, &n, "single_word", &word,
                    "lstrip", &left, "rstrip", &right, "normalized", &normalized) < 0)
        return err_set(err, ERR_DATA, "an added token lacks id, content, single_word, lstrip, rstrip or normalized");
    if (word || left || right || (normalized && memchr(text, ' ', n)))
        return err_set(err, ERR_DATA, "the added token \"%.60s\" has single_word, lstrip, rstrip or normalized set, "
                                      "which is not supported", text);
    const int found = vocabulary_find(t->pieces, text, n);
    if (found >= 0 && found != id)
        return err_set(err, ERR_DATA, "the added token \"%.60s\" has the id %d, and %d in the vocabulary", text, id,
                       found);
    if (found < 0 && vocabulary_add(t->pieces, id, text, n, err) < 0)
        return -1;
    return added_tokens_add(&t->added, id, text, n, err);
}

static int read_added(struct tokenizer *t, struct json_scan *s, const struct places *p)
{
    size_t i;
    json_t *row;
    if (!p->at[ADDED])
        return 0;
    json_t *list = json_loadb(p->text[ADDED].at, p->text[ADDED].n, JSON_ALLOW_NUL, NULL);
    s->at = p->at[ADDED];
    int rc = json_is_array(list) ? 0 : json_scan_fail(s, "\"added_tokens\" is not a list of objects");
    json_array_foreach(list, i, row)
        if (rc == 0)
            rc = add_token(t, row, s->err);
    json_decref(list);
    return rc;
}

int tokenizer_json(struct tokenizer *t, const char *bytes, size_t size, struct err *err)
{
    struct json_scan s;
    struct places p = {0};
    struct err own = {0};
    json_scan_begin(&s, bytes, size, &own);
    if (find_parts(&s, &p) == 0 && check_steps(&p, &own) == 0 && read_vocab(t, &s, p.at[VOCAB]) == 0 &&
        read_merges(t, &s, p.at[MERGES]) == 0)
        read_added(t, &s, &p);
    return json_scan_end(&s) < 0 ? err_set(err, own.code, "%s", own.text) : 0;
}
