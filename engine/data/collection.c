/* SPDX-License-Identifier: Apache-2.0 */
/* collection.c - samples by number: descriptions, choice of captions, digests; see collection.h */
#include "engine/data/collection.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/contract/err.h"
#include "engine/contract/utf8.h"
#include "engine/data/collection_internal.h"
#include "engine/data/resample.h"
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

static bool is_utf8(const char *text)
{
    uint32_t character;
    size_t left = strlen(text);
    for (size_t n; left > 0; text += n, left -= n)
        if (!(n = utf8_read(text, left, &character)))
            return false;
    return true;
}

static int check_texts(const struct collection_sample *s, struct err *err)
{
    for (int i = 0; i < s->captions; i++)
        if (!is_utf8(s->caption[i].text))
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

/* --- digests -------------------------------------------------------------------------- */

/* How pictures become those of the model: a change of the code that changes a pixel changes these words. */
static void add_recipe(struct digest *d, const struct collection *c)
{
    digest_add_text(d, c->o.recipe == COLLECTION_SANA ? "sana: alpha dropped, Pillow's filters, centre crop, no flip, 1"
                                                      : "plain: over white, area or linear, centre crop, no flip, 1");
}

static int add_picture(struct digest *d, const struct collection *c, int64_t i, struct err *err)
{
    struct collection_sample s;
    struct collection_bytes b = {0};
    struct aspect to = {0};
    int rc = collection_sample(&s, c, i, err);
    if (rc == 0)
        rc = c->o.latents ? 0 : collection_size(c, i, &to, err);
    if (rc == 0)
        rc = c->kind->load(&b, c, i, err);
    if (rc == 0) {
        const double how[] = {to.height, to.width, c->o.multi_scale, c->o.multi_scale ? s.height : 0,
                              c->o.multi_scale ? s.width : 0, c->o.resolution};
        digest_add(d, b.at, b.size);
        digest_add(d, how, sizeof(how));
        add_recipe(d, c);
    }
    collection_bytes_free(&b);
    collection_sample_free(&s);
    return rc;
}

static int add_captions(struct digest *d, const struct collection *c, int64_t i, struct err *err)
{
    struct collection_sample s;
    if (collection_sample(&s, c, i, err) < 0)
        return -1;
    for (int k = 0; k < s.captions; k++) {
        digest_add_text(d, s.caption[k].kind);
        digest_add_text(d, s.caption[k].text);
    }
    for (int k = 0; k < s.scores; k++) {
        digest_add(d, &s.score[k].caption, sizeof(s.score[k].caption));
        digest_add(d, &s.score[k].score, sizeof(s.score[k].score));
    }
    collection_sample_free(&s);
    return 0;
}

int collection_picture_digest(char text[DIGEST_TEXT], const struct collection *c, int64_t i, struct err *err)
{
    struct digest *d;
    if (digest_create(&d, err) < 0)
        return -1;
    const int rc = add_picture(d, c, i, err);
    digest_text(d, text);
    digest_destroy(d);
    return rc;
}

int collection_sample_digest(char text[DIGEST_TEXT], const struct collection *c, int64_t i, struct err *err)
{
    struct digest *d;
    if (digest_create(&d, err) < 0)
        return -1;
    int rc = add_picture(d, c, i, err);
    if (rc == 0)
        rc = add_captions(d, c, i, err);
    digest_text(d, text);
    digest_destroy(d);
    return rc;
}

static void add_options(struct digest *d, const struct collection *c)
{
    const struct collection_options *o = &c->o;
    const int64_t numbers[] = {c->layout, c->len, o->resolution, o->multi_scale, o->step, o->latents,
                               c->text_dir != NULL, o->caption_suffixes, o->score_suffixes};
    const double rule[] = {o->rule.score_min, o->rule.temperature};
    add_recipe(d, c);
    digest_add(d, numbers, sizeof(numbers));
    digest_add(d, rule, sizeof(rule));
    for (int k = 0; k < o->caption_suffixes; k++)
        digest_add_text(d, o->caption_suffix[k]);
    for (int k = 0; k < o->score_suffixes; k++)
        digest_add_text(d, o->score_suffix[k]);
}

static int add_names(struct digest *d, const struct collection *c, int64_t i, struct err *err)
{
    struct collection_sample s;
    if (collection_sample(&s, c, i, err) < 0)
        return -1;
    digest_add_text(d, s.name);
    digest_add(d, &s.bytes, sizeof(s.bytes));
    digest_add(d, &s.mtime_ns, sizeof(s.mtime_ns));
    collection_sample_free(&s);
    return add_captions(d, c, i, err);
}

int collection_digest(const struct collection *c, char text[DIGEST_TEXT], struct err *err)
{
    struct digest *d;
    int rc = digest_create(&d, err);
    if (rc < 0)
        return -1;
    add_options(d, c);
    for (int64_t i = 0; rc == 0 && i < c->len; i++)
        rc = add_names(d, c, i, err);
    digest_text(d, text);
    digest_destroy(d);
    return rc;
}

/* --- words ------------------------------------------------------------------------------ */

static const char *const layout_words[] = {"a folder of pictures, with a caption file beside each",
                                           "pictures listed in captions.jsonl", "pictures listed in meta_data.json",
                                           "pictures listed in metadata.jsonl", "tar shards"};

static void print_sana(const struct collection_options *o, FILE *to)
{
    if (o->resolution == 0)
        fprintf(to, "pictures: transparency dropped; kept at their size; no flip\n");
    else if (o->multi_scale)
        fprintf(to, "pictures: transparency dropped; bucket by the labels' height and width; %s to cover it, centre crop; "
                    "no flip\n",
                resample_name(o->resolution >= 2048 ? RESAMPLE_LANCZOS : RESAMPLE_BICUBIC));
    else
        fprintf(to, "pictures: transparency dropped; bilinear to a shorter side of %d, centre crop; no flip\n",
                o->resolution);
}

void collection_print(const struct collection *c, FILE *to)
{
    fprintf(to, "layout: %s, %lld samples", layout_words[c->layout], (long long)c->len);
    if (c->layout == COLLECTION_SHARDS)
        fprintf(to, " in %d file%s", c->nshards, c->nshards == 1 ? "" : "s");
    fputc('\n', to);
    if (c->o.latents)
        fprintf(to, "latents: as they are in the shards\n");
    else if (c->o.recipe == COLLECTION_SANA)
        print_sana(&c->o, to);
    else
        fprintf(to, "pictures: transparency over white; %s; no flip\n",
                c->o.resolution ? "area average or linear to cover the size, centre crop" : "kept at their size");
    if (c->o.score_suffixes > 0)
        fprintf(to, "captions: drawn each epoch by score^(1/%g) from %g on, keyed by seed, epoch and sample\n",
                c->o.rule.temperature > 0.01 ? c->o.rule.temperature : 0.01, c->o.rule.score_min);
}
