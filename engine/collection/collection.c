/* SPDX-License-Identifier: Apache-2.0 */
/* collection.c - samples of a collection by number, with their captions; see collection.h */
#include "engine/collection/collection.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/err.h"
#include "engine/base/utf8.h"
#include "engine/collection/collection_internal.h"
#include "engine/collection/side_files.h"

char *collection_text(struct err *err, const char *fmt, ...)
{
    char *text = NULL;
    va_list ap;
    va_start(ap, fmt);
    const int n = vasprintf(&text, fmt, ap);
    va_end(ap);
    if (n >= 0)
        return text;
    err_set(err, ERR_MEMORY, "out of memory for a path");
    return NULL;
}

void *collection_grow(void *list, int64_t n, size_t size, struct err *err)
{
    if (n > 0 && (n & (n - 1)) != 0) /* there is room up to the next power of two */
        return list;
    void *more = realloc(list, (n ? (size_t)n * 2 : 1) * size);
    if (!more)
        err_set(err, ERR_MEMORY, "out of memory for a list of %lld samples", (long long)n);
    return more;
}

int collection_bad(const struct collection *c, const char *where, struct err *err)
{
    if (!c->bad || !err || err->code != ERR_DATA)
        return -1;
    c->bad(c->bad_arg, where, err->text);
    *err = (struct err){0};
    return 0;
}

void collection_close(struct collection *c)
{
    if (!c)
        return;
    for (int i = 0; i < c->nshards; i++)
        free(c->shards[i].path);
    if (c->list >= 0)
        close(c->list);
    side_files_destroy(c->side);
    free(c->shards);
    free(c->members);
    free(c->lines);
    free(c->names);
    free(c->name_at);
    free(c->path);
    free(c->text_dir);
    free(c->prompt);
    free(c);
}

int64_t collection_len(const struct collection *c)
{
    return c->len;
}

enum collection_layout collection_layout(const struct collection *c)
{
    return c->layout;
}

void collection_sample_free(struct collection_sample *s)
{
    for (int i = 0; i < s->captions; i++) {
        free(s->caption[i].kind);
        free(s->caption[i].text);
    }
    free(s->caption);
    free(s->score);
    free(s->name);
    free(s->key);
    free(s->where);
    *s = (struct collection_sample){0};
}

static int check_texts(const struct collection_sample *s, struct err *err)
{
    for (int i = 0; i < s->captions; i++)
        if (!utf8_valid(s->caption[i].text, strlen(s->caption[i].text)))
            return err_set(err, ERR_DATA, "the caption is not UTF-8");
    return 0;
}

/* A sentence that does not name the sample's place gets it. */
static int place(const struct collection_sample *s, struct err *err)
{
    if (err && s->where && !strstr(err->text, s->where))
        return err_prefix(err, "%s: ", s->where);
    return -1;
}

int collection_sample(struct collection_sample *out, const struct collection *c, int64_t i, struct err *err)
{
    *out = (struct collection_sample){0};
    if (i < 0 || i >= c->len)
        return err_set(err, ERR_BUG, "sample %lld does not exist; there are %lld", (long long)i, (long long)c->len);
    out->number = i;
    if (c->kind->describe(out, c, i, err) == 0 && check_texts(out, err) == 0)
        return 0;
    place(out, err);
    collection_sample_free(out);
    return -1;
}

char *collection_where(const struct collection *c, int64_t i)
{
    struct collection_sample s = {.number = i};
    c->kind->describe(&s, c, i, NULL); /* sets it first */
    char *where = s.where ? strdup(s.where) : collection_text(NULL, "sample %lld", (long long)i);
    collection_sample_free(&s);
    return where;
}

int collection_load(struct collection_bytes *out, const struct collection *c, int64_t i, struct err *err)
{
    return c->kind->load(out, c, i, err);
}

/* --- captions ------------------------------------------------------------------------- */

/* A caption with several scores counts with its first above the threshold, as in the authors' readers. */
static double score_of(const struct collection *c, const struct collection_sample *s, int at)
{
    for (int i = 0; i < at; i++)
        if (s->score[i].caption == s->score[at].caption && s->score[i].score >= c->o.rule.score_min)
            return s->score[i].score;
    return s->score[at].score;
}

static int chosen(const struct collection *c, const struct collection_sample *s, int at, double *score)
{
    if (score)
        *score = at >= 0 ? score_of(c, s, at) : 0;
    return at >= 0 ? s->score[at].caption : s->prompt;
}

int collection_choose(const struct collection *c, const struct collection_sample *s, int64_t i, uint64_t seed,
                      uint32_t epoch, double *score)
{
    return chosen(c, s, caption_choice_draw(&c->o.rule, s->score, s->scores, seed, epoch, (uint64_t)i), score);
}

int collection_choose_at(const struct collection *c, const struct collection_sample *s, double u, double *score)
{
    return chosen(c, s, caption_choice_at(&c->o.rule, s->score, s->scores, u), score);
}

int collection_best(const struct collection_sample *s)
{
    const int best = caption_choice_best(s->score, s->scores);
    return best >= 0 ? s->score[best].caption : s->prompt;
}

bool collection_usable(const struct collection *c, const struct collection_sample *s, int caption)
{
    bool any = false;
    for (int i = 0; i < s->scores; i++) {
        const bool candidate = s->score[i].score >= c->o.rule.score_min;
        any = any || candidate;
        if (candidate && s->score[i].caption == caption)
            return true;
    }
    return !any && collection_best(s) == caption;
}

void collection_trim(char *text)
{
    size_t n = strlen(text), skip = 0;
    for (size_t i = 0; i < n; i++)
        if (isspace((unsigned char)text[i]))
            text[i] = ' ';
    while (n > 0 && text[n - 1] == ' ')
        n--;
    while (skip < n && text[skip] == ' ')
        skip++;
    memmove(text, text + skip, n - skip);
    text[n - skip] = '\0';
}

void collection_label(struct collection_sample *s, const json_t *o)
{
    const json_t *h = json_object_get(o, "height"), *w = json_object_get(o, "width");
    if (json_is_number(h) && json_is_number(w)) {
        s->height = json_number_value(h);
        s->width = json_number_value(w);
    }
}

static int find_caption(const struct collection_sample *s, const char *kind)
{
    for (int k = 0; k < s->captions; k++)
        if (strcmp(s->caption[k].kind, kind) == 0)
            return k;
    return -1;
}

static int replace_caption(struct collection_caption *c, char *text)
{
    free(c->text);
    c->text = text;
    return 0;
}

int collection_add_caption(struct collection_sample *s, const char *kind, const char *text, struct err *err)
{
    const int k = find_caption(s, kind);
    char *copy = strdup(text);
    if (copy && k >= 0)
        return replace_caption(&s->caption[k], copy);
    struct collection_caption *more = copy ? collection_grow(s->caption, s->captions, sizeof(*more), err) : NULL;
    char *name = more ? strdup(kind) : NULL;
    s->caption = more ? more : s->caption;
    if (!name) {
        free(copy);
        return err_set(err, ERR_MEMORY, "out of memory for captions");
    }
    s->caption[s->captions++] = (struct collection_caption){name, copy};
    return 0;
}

/* Text of a caption in JSON: null is an empty one; NULL: it is not a caption. */
static const char *text_of(const json_t *value)
{
    return json_is_null(value) ? "" : json_string_value(value);
}

static int add_captions(struct collection_sample *s, const json_t *kinds, const char *path, struct err *err)
{
    const char *kind;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)kinds, kind, value) {
        if (!text_of(value))
            return err_set(err, ERR_DATA, "%s: \"%s\" of \"%s\" is not a text", path, kind, s->key);
        if (collection_add_caption(s, kind, text_of(value), err) < 0)
            return -1;
    }
    return 0;
}

/* Numbers and texts of numbers; NAN: it is neither. */
static double number_of(const json_t *value)
{
    const char *text = json_string_value(value);
    char *end = NULL;
    if (!text)
        return json_is_number(value) ? json_number_value(value) : NAN;
    const double x = strtod(text, &end);
    return end > text && end[strspn(end, " \t\r\n")] == '\0' ? x : NAN;
}

static int add_score(struct collection_sample *s, int caption, double score, struct err *err)
{
    struct caption_score *more = collection_grow(s->score, s->scores, sizeof(*more), err);
    if (!more)
        return -1;
    s->score = more;
    s->score[s->scores++] = (struct caption_score){caption, score};
    return 0;
}

/* Scores of captions that the sample does not have are left out, as in the authors' readers. */
static int add_scores(struct collection_sample *s, const json_t *kinds, const json_t *own, const char *path,
                      struct err *err)
{
    const char *kind;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)kinds, kind, value) {
        const double score = number_of(value);
        if (isnan(score))
            return err_set(err, ERR_DATA, "%s: \"%s\" of \"%s\" is not a number", path, kind, s->key);
        const char *mine = text_of(json_object_get(own, kind));
        if (find_caption(s, kind) < 0 && mine && collection_add_caption(s, kind, mine, err) < 0)
            return -1;
        const int caption = find_caption(s, kind);
        if (caption >= 0 && add_score(s, caption, score, err) < 0)
            return -1;
    }
    return 0;
}

/* One side file: captions, or scores. */
static int add_file(struct collection_sample *s, const struct collection *c, int64_t i, const char *suffix,
                    bool scores, const json_t *own, struct err *err)
{
    struct err why = {0};
    char *path = c->kind->side(c, i, s, suffix, err);
    json_t *kinds = path ? side_files_find(c->side, path, s->key, &why) : NULL;
    int rc = path ? 0 : -1;
    if (kinds)
        rc = scores ? add_scores(s, kinds, own, path, &why) : add_captions(s, kinds, path, &why);
    if (why.code) {
        if (err)
            *err = why;
        rc = -1;
    }
    json_decref(kinds);
    free(path);
    return rc;
}

int collection_add_side_files(struct collection_sample *s, const struct collection *c, int64_t i, const json_t *own,
                              struct err *err)
{
    for (int k = 0; k < c->o.caption_suffixes; k++)
        if (add_file(s, c, i, c->o.caption_suffix[k], false, own, err) < 0)
            return -1;
    for (int k = 0; k < c->o.score_suffixes; k++)
        if (add_file(s, c, i, c->o.score_suffix[k], true, own, err) < 0)
            return -1;
    return 0;
}
