/* SPDX-License-Identifier: Apache-2.0 */
/* collection_digest.c - digests and descriptions of a collection and its samples */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/err.h"
#include "engine/collection/collection_internal.h"
#include "engine/image/resample.h"

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
    if (c->prompt)
        digest_add_text(d, c->prompt);
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

/* A side file of a shard, by size and time. */
static int add_side_file(struct digest *d, const struct collection *c, int64_t i, const char *suffix, struct err *err)
{
    struct stat st;
    char *path = c->kind->side(c, i, NULL, suffix, err);
    const bool there = path && stat(path, &st) == 0;
    const int64_t is[] = {there ? st.st_size : -1, there ? st.st_mtim.tv_sec : 0, there ? st.st_mtim.tv_nsec : 0};
    digest_add(d, is, sizeof(is));
    const int rc = path ? 0 : -1;
    free(path);
    return rc;
}

/* Millions of samples: by their files. */
static int add_shard(struct digest *d, const struct collection *c, const struct collection_shard *s, struct err *err)
{
    const int64_t is[] = {s->len, s->bytes, s->mtime_ns};
    const char *slash = strrchr(s->path, '/');
    int rc = 0;
    digest_add_text(d, slash ? slash + 1 : s->path);
    digest_add(d, is, sizeof(is));
    for (int k = 0; rc == 0 && s->len > 0 && k < c->o.caption_suffixes; k++)
        rc = add_side_file(d, c, s->first, c->o.caption_suffix[k], err);
    for (int k = 0; rc == 0 && s->len > 0 && k < c->o.score_suffixes; k++)
        rc = add_side_file(d, c, s->first, c->o.score_suffix[k], err);
    return rc;
}

int collection_digest(const struct collection *c, char text[DIGEST_TEXT], struct err *err)
{
    struct digest *d;
    int rc = digest_create(&d, err);
    if (rc < 0)
        return -1;
    add_options(d, c);
    for (int i = 0; rc == 0 && i < c->nshards; i++)
        rc = add_shard(d, c, &c->shards[i], err);
    for (int64_t i = 0; rc == 0 && c->nshards == 0 && i < c->len; i++)
        rc = add_names(d, c, i, err);
    digest_text(d, text);
    digest_destroy(d);
    return rc;
}

/* --- words ------------------------------------------------------------------------------ */

static const char *const layout_words[] = {"a folder of pictures, with a caption file beside each",
                                           "pictures listed in captions.jsonl", "pictures listed in meta_data.json",
                                           "pictures listed in metadata.jsonl", "tar shards",
                                           "pictures listed in metadata.csv"};

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
    if (c->below[0])
        fprintf(to, "folders in it are not read: %s\n", c->below);
    if (c->o.latents)
        fprintf(to, "latents: as they are in the shards\n");
    else if (c->o.recipe == COLLECTION_SANA)
        print_sana(&c->o, to);
    else
        fprintf(to, "pictures: transparency over white; %s; no flip\n",
                c->o.resolution ? "area average or linear to cover the size, centre crop" : "kept at their size");
    if (c->o.score_suffixes > 0 && c->o.recipe == COLLECTION_PLAIN)
        fprintf(to, "captions: of each picture the one with the best score\n");
    else if (c->o.score_suffixes > 0)
        fprintf(to, "captions: drawn each epoch by score^(1/%g) from %g on, keyed by seed, epoch and sample\n",
                c->o.rule.temperature > 0.01 ? c->o.rule.temperature : 0.01, c->o.rule.score_min);
}
