/* SPDX-License-Identifier: Apache-2.0 */
/* collection_captions.c - the captions of a sample and their scores, with those of the side files */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/contract/err.h"
#include "engine/data/collection_internal.h"
#include "engine/data/side_files.h"

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
