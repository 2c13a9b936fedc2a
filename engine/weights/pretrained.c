/* SPDX-License-Identifier: Apache-2.0 */
/* pretrained.c - see pretrained.h */
#include "engine/weights/pretrained.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/digest.h"
#include "engine/base/err.h"
#include "engine/contract/manifest.h"
#include "engine/base/text_append.h"
#include "engine/contract/train_spec.h"
#include "engine/hub/hub_cache.h"
#include "engine/model/layout.h"
#include "engine/model/lora.h"
#include "engine/model/model.h"
#include "engine/weights/tensor_view.h"
#include "engine/weights/weights_config.h"
#include "engine/weights/weights_source.h"
#include "engine/weights/weights_summary.h"

#define WEIGHTS_OF_CHECKPOINT "model.safetensors"

struct pretrained {
    struct weights_source *source;
    struct weights_summary summary;
    struct layout         *layout; /* of the last match */
    struct weights_match   match;
};

/* --- opening ------------------------------------------------------------------------------ */

/* A checkpoint has two files of tensors; *file is the one with the weights. Another path stays as it is. */
static int enter_checkpoint(char file[PATH_MAX], const char *path, struct err *err)
{
    char manifest[PATH_MAX];
    struct manifest m;
    if (snprintf(file, PATH_MAX, "%s", path) >= PATH_MAX ||
        snprintf(manifest, sizeof(manifest), "%s/" MANIFEST_FILE, path) >= PATH_MAX)
        return err_set(err, ERR_USAGE, "%.80s...: the path is too long", path);
    if (access(manifest, F_OK) < 0)
        return 0;
    if (manifest_verify(&m, path, err) < 0)
        return err_prefix(err, "checkpoint %s: ", path);
    if (snprintf(file, PATH_MAX, "%s/" WEIGHTS_OF_CHECKPOINT, path) >= PATH_MAX)
        return err_set(err, ERR_USAGE, "%.80s...: the path is too long", path);
    return 0;
}

int pretrained_open(struct pretrained **out, const char *name, struct err *err)
{
    char path[PATH_MAX], file[PATH_MAX];
    struct stat st;
    if (hub_cache_open(path, name, "transformer", err) < 0)
        return -1;
    if (stat(path, &st) < 0 && (errno == ENOENT || errno == ENOTDIR))
        return err_set(err, ERR_USAGE, "%s does not exist", path);
    struct pretrained *p = calloc(1, sizeof(*p));
    if (!p)
        return err_set(err, ERR_MEMORY, "no memory for the weights of %s", path);
    if (enter_checkpoint(file, path, err) < 0 || weights_source_open(&p->source, file, "transformer", err) < 0 ||
        weights_config_check(p->source, NULL, err) < 0) {
        pretrained_close(p);
        return -1;
    }
    weights_summary_make(&p->summary, p->source);
    *out = p;
    return 0;
}

void pretrained_close(struct pretrained *p)
{
    if (!p)
        return;
    weights_match_free(&p->match);
    layout_destroy(p->layout);
    weights_source_close(p->source);
    free(p);
}

/* --- what it is, and what the spec has ---------------------------------------------------- */

static int refuse_unknown(const struct pretrained *p, struct err *err)
{
    const char *first = weights_source_at(p->source, 0)->name;
    if (strstr(first, ".lora"))
        return err_set(err, ERR_USAGE, "%s: these are adapters (LoRA), and a run cannot start from adapters alone: "
                       "jobctl export --merged adds them to their base weights", weights_source_path(p->source));
    return err_set(err, ERR_USAGE, "%s: none of its %d tensors is one of Sana or Lumina-Next; the first is %s. jobctl-"
                   "train inspect --names lists them", weights_source_path(p->source), weights_source_len(p->source),
                   first);
}

static int refuse_other(const struct pretrained *p, const struct weights_summary *spec, struct err *err)
{
    char is[WEIGHTS_SUMMARY_TEXT], want[WEIGHTS_SUMMARY_TEXT], hint[96] = "";
    weights_summary_text(is, &p->summary);
    weights_summary_text(want, spec);
    if (p->summary.preset)
        snprintf(hint, sizeof(hint), "; for this file set train.model: {preset: %s}", p->summary.preset);
    return err_set(err, ERR_USAGE, "%s: this is %s, the spec says %s%s", weights_source_path(p->source), is, want, hint);
}

static bool same_family(const struct weights_summary *a, const struct weights_summary *b)
{
    return weights_summary_is_sana(a) == weights_summary_is_sana(b);
}

/* Depth and norms are a matter of missing and dropped tensors. */
static bool same_parts(const struct weights_summary *a, const struct weights_summary *b)
{
    return a->depth == b->depth && a->qk_norm == b->qk_norm &&
           (!weights_summary_is_sana(a) || a->cross_norm == b->cross_norm);
}

static int check_kind(const struct pretrained *p, const struct model_config *cfg, bool strict, struct err *err)
{
    struct weights_summary spec;
    weights_summary_of_config(&spec, cfg);
    if (p->summary.naming == WEIGHTS_NAMINGS)
        return refuse_unknown(p, err);
    if (!same_family(&p->summary, &spec) || (p->summary.hidden > 0 && p->summary.hidden != spec.hidden) ||
        (strict && !same_parts(&p->summary, &spec)))
        return refuse_other(p, &spec, err);
    const int heads = weights_summary_heads(&p->summary);
    if (heads && heads != cfg->heads)
        return err_set(err, ERR_USAGE, "%s: this is %s, which has %d heads of softmax attention, the spec says "
                       "model.heads: %d", weights_source_path(p->source), p->summary.model, heads, cfg->heads);
    return 0;
}

static int check_tensors(const struct pretrained *p, bool strict, struct err *err)
{
    const struct weights_match *m = &p->match;
    char why[440] = "";
    if (m->shapes == 0 && m->matched > 0 && (!strict || (m->missing == 0 && m->dropped == 0)))
        return 0;
    if (m->shapes)
        text_append(why, sizeof(why), "; %d have another shape: %s", m->shapes, m->first_shape);
    if (m->missing)
        text_append(why, sizeof(why), "; %d missing: %s%s", m->missing, m->first_missing,
                    m->missing > 1 ? ", ..." : "");
    if (m->dropped)
        text_append(why, sizeof(why), "; %d that the model does not have: %s%s", m->dropped, m->first_dropped,
                    m->dropped > 1 ? ", ..." : "");
    return err_set(err, ERR_USAGE, "%s: %d of the model's %d tensors match%s%s", weights_source_path(p->source),
                   m->matched, layout_len(p->layout), why,
                   m->shapes || m->matched == 0 ? "" : "; weights_strict: false accepts this");
}

/* --- matching ----------------------------------------------------------------------------- */

static void complete(struct model_config *cfg, const struct weights_summary *s)
{
    if (cfg->latent_channels == 0 && s->inputs > 0)
        cfg->latent_channels = weights_summary_is_sana(s) ? s->inputs : s->inputs / (cfg->patch * cfg->patch);
    if (cfg->caption_channels == 0)
        cfg->caption_channels = s->captions;
    if (cfg->caption_len == 0)
        cfg->caption_len = 1;
    cfg->latent_channels += cfg->latent_channels == 0;
    cfg->caption_channels += cfg->caption_channels == 0;
}

void pretrained_complete(const struct pretrained *p, struct model_config *cfg)
{
    const struct tensor_view *null = weights_source_find(p->source, "y_embedder.y_embedding");
    if (cfg->caption_len == 0 && null && null->ndim == 2 && null->dim[0] <= INT_MAX)
        cfg->caption_len = (int)null->dim[0];
    complete(cfg, &p->summary);
}

int pretrained_match(struct pretrained *p, const struct model_config *cfg, bool strict, struct err *err)
{
    struct model_config whole = *cfg;
    whole.lora.rank = 0; /* a file has all weights */
    weights_match_free(&p->match);
    layout_destroy(p->layout);
    p->layout = NULL;
    if (check_kind(p, cfg, strict, err) < 0)
        return -1;
    complete(&whole, &p->summary);
    if (model_layout_make(&p->layout, &whole, err) < 0 || weights_match_make(&p->match, p->layout, p->source, err) < 0)
        return -1;
    return check_tensors(p, strict, err) < 0 ? -1 : weights_config_check(p->source, cfg, err);
}

int pretrained_match_spec(struct pretrained *p, const struct train_spec *s, struct err *err)
{
    return pretrained_match(p, &s->model, s->weights_strict, err) < 0 ? err_prefix(err, "train.model.weights: ") : 0;
}

int pretrained_of_spec(struct pretrained **out, const struct train_spec *s, struct err *err)
{
    *out = NULL;
    if (!s->weights[0])
        return 0;
    if (pretrained_open(out, s->weights, err) < 0)
        return err_prefix(err, "train.model.weights: ");
    if (pretrained_match_spec(*out, s, err) == 0)
        return 0;
    pretrained_close(*out);
    *out = NULL;
    return -1;
}

/* --- after a match ------------------------------------------------------------------------ */

bool pretrained_read(const struct pretrained *p, int i, size_t from, size_t to, float *out)
{
    return weights_match_read(&p->match, p->layout, p->source, i, from, to, out);
}

const struct weights_match *pretrained_found(const struct pretrained *p)
{
    return &p->match;
}

enum { FREEZE_PIECE = 1 << 18 };

/* By pieces: a tensor may be large. */
static bool freeze_tensor(const struct pretrained *p, struct model *m, int i, float *piece, struct digest *d)
{
    const struct tensor *t = layout_at(p->layout, i);
    for (size_t from = 0; from < t->count; from += FREEZE_PIECE) {
        const size_t n = t->count - from < FREEZE_PIECE ? t->count - from : FREEZE_PIECE;
        if (!pretrained_read(p, i, from, from + n, piece))
            return weights_names_optional(t->name);
        lora_base_put(model_lora(m), t->offset + from, n, piece);
        digest_add(d, piece, n * sizeof(*piece));
    }
    return true;
}

static int freeze(const struct pretrained *p, struct model *m, float *piece, struct digest *d, struct err *err)
{
    for (int i = 0; i < layout_len(p->layout); i++)
        if (!freeze_tensor(p, m, i, piece, d))
            return err_set(err, ERR_USAGE, "%s has no tensor %s; train.lora needs all weights of the model",
                           weights_source_path(p->source), layout_at(p->layout, i)->name);
    return 0;
}

int pretrained_freeze(const struct pretrained *p, struct model *m, char *digest, struct err *err)
{
    struct digest *d;
    float *piece = malloc(FREEZE_PIECE * sizeof(*piece));
    if (!piece)
        return err_set(err, ERR_MEMORY, "no memory to read %s", weights_source_path(p->source));
    int rc = digest_create(&d, err);
    if (rc == 0) {
        rc = freeze(p, m, piece, d, err);
        if (digest)
            digest_text(d, digest);
        digest_destroy(d);
    }
    free(piece);
    return rc;
}

bool pretrained_null(const struct pretrained *p, float *out, size_t count)
{
    const int i = layout_find(p->layout, "y_embedder.y_embedding");
    return i >= 0 && layout_at(p->layout, i)->count == count && pretrained_read(p, i, 0, count, out);
}

void pretrained_text(char text[PRETRAINED_TEXT], const struct pretrained *p)
{
    char is[WEIGHTS_SUMMARY_TEXT];
    const char *before = "";
    weights_summary_text(is, &p->summary);
    text[0] = '\0';
    text_append(text, PRETRAINED_TEXT, "%s, %d tensors (", is, p->match.matched);
    for (int d = 0; d < ST_DTYPES; d++)
        if (p->summary.of_type[d]) {
            text_append(text, PRETRAINED_TEXT, "%s%s", before, st_dtype_name((enum st_dtype)d));
            before = ", ";
        }
    text_append(text, PRETRAINED_TEXT, "), %s, from %s", weights_names_text(p->match.naming),
                weights_source_path(p->source));
}

bool pretrained_left_out(char text[PRETRAINED_TEXT], const struct pretrained *p)
{
    const struct weights_match *m = &p->match;
    text[0] = '\0';
    if (m->missing == 0 && m->dropped == 0)
        return false;
    text_append(text, PRETRAINED_TEXT, "%s:", weights_source_path(p->source));
    if (m->missing)
        text_append(text, PRETRAINED_TEXT, " %d tensors of the model are not in it and are drawn at random: %s%s",
                    m->missing, m->first_missing, m->missing > 1 ? ", ..." : "");
    if (m->dropped)
        text_append(text, PRETRAINED_TEXT, "%s %d of its tensors are left out: %s%s", m->missing ? ";" : "",
                    m->dropped, m->first_dropped, m->dropped > 1 ? ", ..." : "");
    return true;
}
