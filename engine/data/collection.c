/* SPDX-License-Identifier: Apache-2.0 */
/* collection.c - samples by number: descriptions, choice of captions, digests; see collection.h */
#include "engine/data/collection.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/contract/err.h"
#include "engine/contract/utf8.h"
#include "engine/data/collection_internal.h"
#include "engine/data/side_files.h"

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
