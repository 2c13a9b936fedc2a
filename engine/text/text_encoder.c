/* SPDX-License-Identifier: Apache-2.0 */
/* text_encoder.c - see text_encoder.h */
#include "engine/text/text_encoder.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/err.h"
#include "engine/files/mapped_file.h"
#include "engine/hub/hub_cache.h"
#include "engine/text/caption_style.h"
#include "engine/text/gemma.h"
#include "engine/text/gemma_place.h"
#include "engine/text/prompt.h"
#include "engine/text/tokenizer.h"
#include "engine/weights/tensor_view.h"
#include "engine/weights/weights_source.h"

struct text_encoder {
    struct gemma_config    cfg;
    struct gemma_weights   weights;
    struct weights_source *source;
    struct tokenizer      *tokens;
    char                   tokenizer[PATH_MAX]; /* its path, for the digest */
    char                  *chi;
    size_t                 rows;
    bool                   diffusers;
    struct gemma_prefix    prefix; /* length 0: there is none */
    int32_t               *prefix_id;
    float                 *first;  /* row 0 of what the prefix gives */
};

/* --- weights ------------------------------------------------------------------------------ */

/* Published files have the decoder's names below "model.". */
static const struct tensor_view *find(const struct text_encoder *e, const char *name, size_t count, struct err *err)
{
    char full[TENSOR_VIEW_NAME];
    snprintf(full, sizeof(full), "model.%s", name);
    const struct tensor_view *v = weights_source_find(e->source, full);
    if (!v)
        v = weights_source_find(e->source, name);
    if (v && v->count == count)
        return v;
    err_set(err, ERR_DATA, "%s: %s %s config.json", weights_source_path(e->source), full,
            v ? "does not have the size given by" : "is missing, but is required by");
    return NULL;
}

static const float *give_floats(void *arg, const char *name, size_t count, float *scratch, struct err *err)
{
    const struct tensor_view *v = find(arg, name, count, err);
    if (!v)
        return NULL;
    tensor_view_floats(scratch, v, 0, count);
    return scratch;
}

static int give_matrix(void *arg, const char *name, size_t count, float *scratch, struct gemma_matrix *out,
                       struct err *err)
{
    const struct tensor_view *v = find(arg, name, count, err);
    if (!v)
        return -1;
    if (v->dtype == ST_BF16 && tensor_view_is_dense(v)) {
        out->bf16 = v->data;
    } else {
        tensor_view_floats(scratch, v, 0, count);
        out->floats = scratch;
    }
    return 0;
}

static int give_row(void *arg, const char *name, size_t rows, size_t n, size_t row, float *out, struct err *err)
{
    const struct tensor_view *v = find(arg, name, rows * n, err);
    if (!v)
        return -1;
    tensor_view_floats(out, v, row * n, n);
    return 0;
}

static bool all_bf16(const struct weights_source *w)
{
    for (int i = 0; i < weights_source_len(w); i++) {
        const struct tensor_view *v = weights_source_at(w, i);
        if (v->ndim > 1 && (v->dtype != ST_BF16 || !tensor_view_is_dense(v)))
            return false;
    }
    return true;
}

/* --- running ------------------------------------------------------------------------------ */

/* `n` positions behind the first `skip` of a prompt; *out gets n x hidden vectors, which the caller frees. */
static int run(struct text_encoder *e, const struct prompt *p, size_t skip, size_t n, struct gemma_prefix *keep,
               float **out, struct err *err)
{
    float *y = malloc(n * (size_t)e->cfg.hidden * sizeof(*y));
    if (!y)
        return err_set(err, ERR_MEMORY, "no memory for the vectors of %zu tokens", n);
    const struct gemma_input in = {.id = p->id + skip, .mask = p->mask + skip, .batch = 1, .length = (int)n,
                                   .behind = skip ? &e->prefix : NULL, .keep = keep};
    const struct gemma_output to = {.last = e->cfg.version == 2 ? y : NULL,
                                    .before_last = e->cfg.version == 2 ? NULL : y};
    if (gemma_run(&e->cfg, &e->weights, &in, &to, err) == 0) {
        *out = y;
        return 0;
    }
    free(y);
    return -1;
}

/* The tokens of the instruction but its last, a space, which most captions merge with their first word. */
static int make_prefix(struct text_encoder *e, struct err *err)
{
    struct prompt p;
    const size_t hidden = (size_t)e->cfg.hidden;
    float *y = NULL;
    if (prompt_sana(&p, e->tokens, e->chi, "", 0, e->rows, err) < 0)
        return -1;
    const size_t n = p.chi > 1 ? p.chi - 1 : 0, floats = gemma_prefix_floats(&e->cfg, (int)n);
    int rc = 0;
    if (n > 0) {
        struct gemma_place *place = e->weights.place;
        struct gemma_prefix made = {gemma_place_new(place, floats, err), NULL, (int)n};
        made.v = made.k ? gemma_place_new(place, floats, err) : NULL;
        e->prefix.k = made.k;
        e->prefix.v = made.v;
        e->prefix_id = calloc(n, sizeof(*e->prefix_id));
        e->first = calloc(hidden, sizeof(*e->first));
        if (!made.v)
            rc = -1;
        else
            rc = e->prefix_id && e->first ? run(e, &p, 0, n, &made, &y, err)
                                          : err_set(err, ERR_MEMORY, "no memory for an instruction");
        if (rc == 0) {
            memcpy(e->first, y, hidden * sizeof(*y));
            memcpy(e->prefix_id, p.id, n * sizeof(*p.id));
            e->prefix.length = (int)n;
        }
    }
    free(y);
    prompt_free(&p);
    return rc;
}

static bool begins_alike(const struct text_encoder *e, const struct prompt *p, size_t tokens)
{
    const size_t n = (size_t)e->prefix.length;
    return n > 0 && tokens > n && memcmp(p->id, e->prefix_id, n * sizeof(*p->id)) == 0;
}

/* Of the first `tokens` positions; rows of later ones stay zero. */
static int encode(struct text_encoder *e, const struct prompt *p, size_t tokens, float *y, float *mask, bool *reused,
                  struct err *err)
{
    const size_t hidden = (size_t)e->cfg.hidden;
    const bool alike = begins_alike(e, p, tokens);
    const size_t skip = alike ? (size_t)e->prefix.length : 0;
    float *all;
    if (run(e, p, skip, tokens - skip, NULL, &all, err) < 0)
        return -1;
    memset(y, 0, p->rows * hidden * sizeof(*y));
    for (size_t i = 0; i < p->rows; i++) {
        const size_t at = (size_t)p->row[i];
        mask[i] = p->mask[at];
        if (at < tokens)
            memcpy(y + i * hidden, at < skip ? e->first : all + (at - skip) * hidden, hidden * sizeof(*y));
    }
    free(all);
    if (reused)
        *reused = alike;
    return 0;
}

static size_t count_tokens(const struct prompt *p)
{
    size_t n = 0;
    while (n < p->length && p->mask[n] > 0)
        n++;
    return n;
}

static int make_prompt(struct text_encoder *e, struct prompt *p, const char *chi, const char *caption, size_t n,
                       struct err *err)
{
    return e->cfg.version == 2 ? prompt_sana(p, e->tokens, chi, caption, n, e->rows, err)
                               : prompt_lumina(p, e->tokens, caption, n, e->rows, err);
}

static int encode_text(struct text_encoder *e, const char *chi, const char *caption, size_t n, bool padding, float *y,
                       float *mask, bool *reused, struct err *err)
{
    struct prompt p;
    if (make_prompt(e, &p, chi, caption, n, err) < 0)
        return -1;
    const int rc = encode(e, &p, padding ? p.length : count_tokens(&p), y, mask, reused, err);
    prompt_free(&p);
    return rc;
}

int text_encoder_caption(struct text_encoder *e, const char *caption, size_t n, float *y, float *mask, bool *reused,
                         struct err *err)
{
    char *changed = NULL;
    if (e->diffusers && !(caption = changed = caption_style_diffusers(caption, n, &n, err)))
        return -1;
    const int rc = encode_text(e, e->chi, caption, n, false, y, mask, reused, err);
    free(changed);
    return rc;
}

int text_encoder_null(struct text_encoder *e, float *y, float *mask, struct err *err)
{
    return encode_text(e, NULL, "", 0, true, y, mask, NULL, err);
}

/* --- opening ------------------------------------------------------------------------------ */

/* A folder of a pipeline, or the folder itself. */
static int folder_of(char out[PATH_MAX], const char *path, const char *part, struct err *err)
{
    struct stat st;
    if (snprintf(out, PATH_MAX, "%s/%s", path, part) >= PATH_MAX)
        return err_set(err, ERR_USAGE, "%.80s...: the path is too long", path);
    if (stat(out, &st) < 0 || !S_ISDIR(st.st_mode))
        snprintf(out, PATH_MAX, "%s", path);
    return 0;
}

/* Files of a hub's cache are links. */
static json_t *read_json(const char *path, struct err *err)
{
    json_error_t why;
    struct mapped_file m;
    if (mapped_file_open(&m, path, err) < 0)
        return NULL;
    json_t *value = json_loadb((const char *)m.bytes, m.size, 0, &why);
    mapped_file_close(&m);
    if (!value)
        err_set(err, ERR_DATA, "%s is not JSON: %s", path, why.text);
    return value;
}

static int read_config(struct text_encoder *e, const char *folder, struct err *err)
{
    char path[PATH_MAX + 16];
    snprintf(path, sizeof(path), "%s/config.json", folder);
    if (access(path, F_OK) != 0 && errno == ENOENT)
        return err_set(err, ERR_NOT_FOUND, "%s has no config.json: name a folder as Gemma is published, or a diffusers "
                       "folder", folder);
    json_t *config = read_json(path, err);
    const char *type = json_string_value(json_object_get(config, "model_type"));
    int rc = -1;
    if (config && (!type || (strcmp(type, "gemma") != 0 && strcmp(type, "gemma2") != 0)))
        err_set(err, ERR_DATA, "%s: \"model_type\" is %.40s, not gemma or gemma2", path, type ? type : "missing");
    else if (config)
        rc = gemma_config_parse(&e->cfg, strcmp(type, "gemma2") == 0 ? 2 : 1, config, err) < 0
                 ? err_prefix(err, "%s: ", path)
                 : 0;
    json_decref(config);
    return rc;
}

static int check_layer(struct text_encoder *e, int layer, struct err *err)
{
    const struct gemma_config *c = &e->cfg;
    const size_t hidden = (size_t)c->hidden, wide = hidden * (size_t)c->intermediate;
    const size_t q = hidden * (size_t)c->heads * (size_t)c->head_dim, kv = q / (size_t)c->heads * (size_t)c->kv_heads;
    const struct {
        const char *name;
        size_t      count;
    } rows[] = {{"self_attn.q_proj", q}, {"self_attn.k_proj", kv}, {"self_attn.v_proj", kv}, {"self_attn.o_proj", q},
                {"mlp.gate_proj", wide}, {"mlp.up_proj", wide}, {"mlp.down_proj", wide}, {"input_layernorm", hidden},
                {"post_attention_layernorm", hidden}, {"pre_feedforward_layernorm", hidden},
                {"post_feedforward_layernorm", hidden}};
    char name[96];
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows) - (c->version == 2 ? 0 : 2); i++) {
        snprintf(name, sizeof(name), "layers.%d.%s.weight", layer, rows[i].name);
        if (!find(e, name, rows[i].count, err))
            return -1;
    }
    return 0;
}

/* All tensors are there before the first caption. */
static int check_weights(struct text_encoder *e, struct err *err)
{
    const size_t hidden = (size_t)e->cfg.hidden;
    if (!find(e, "embed_tokens.weight", (size_t)e->cfg.vocab * hidden, err) || !find(e, "norm.weight", hidden, err))
        return -1;
    for (int i = 0; i < e->cfg.layers; i++)
        if (check_layer(e, i, err) < 0)
            return -1;
    return 0;
}

/* `tokenizer`: where it is, or NULL: in `path`. */
static int open_all(struct text_encoder *e, const char *name, const char *tokenizer, struct err *err)
{
    char path[PATH_MAX], folder[PATH_MAX];
    if (hub_cache_open(path, name, "text_encoder,tokenizer", err) < 0)
        return -1;
    if (folder_of(folder, path, "text_encoder", err) < 0 || read_config(e, folder, err) < 0 ||
        weights_source_open(&e->source, folder, "text_encoder", err) < 0 || check_weights(e, err) < 0 ||
        folder_of(e->tokenizer, tokenizer ? tokenizer : path, "tokenizer", err) < 0 ||
        tokenizer_open(&e->tokens, e->tokenizer, err) < 0)
        return -1;
    e->weights.in_place = all_bf16(e->source);
    if (tokenizer_size(e->tokens) > e->cfg.vocab)
        return err_set(err, ERR_DATA, "%s: its tokenizer has %d ids, its text encoder only %d: they do not belong "
                       "together", path, tokenizer_size(e->tokens), e->cfg.vocab);
    return 0;
}

int text_encoder_open(struct text_encoder **out, const char *path, const struct text_encoder_options *options,
                      struct err *err)
{
    struct text_encoder *e = calloc(1, sizeof(*e));
    if (!e || !(e->chi = strdup(options->chi ? options->chi : ""))) {
        free(e);
        return err_set(err, ERR_MEMORY, "no memory for a text encoder");
    }
    e->weights = (struct gemma_weights){.tensor = give_floats, .matrix = give_matrix, .row = give_row, .arg = e};
    e->diffusers = options->diffusers;
    if (!(e->weights.place = gemma_place_open())) {
        text_encoder_close(e);
        return err_set(err, ERR_MEMORY, "no memory for a text encoder");
    }
    int rc = open_all(e, path, options->tokenizer, err);
    e->rows = options->rows ? (size_t)options->rows : e->cfg.version == 2 ? PROMPT_SANA_ROWS : PROMPT_LUMINA_MAX;
    if (rc == 0 && e->cfg.version == 2 && e->chi[0] && !options->no_prefix)
        rc = make_prefix(e, err);
    if (rc < 0) {
        text_encoder_close(e);
        return -1;
    }
    *out = e;
    return 0;
}

void text_encoder_close(struct text_encoder *e)
{
    if (!e)
        return;
    if (e->weights.place) {
        gemma_place_drop(e->weights.place, e->prefix.k);
        gemma_place_drop(e->weights.place, e->prefix.v);
        gemma_place_close(e->weights.place);
    }
    free(e->prefix_id);
    free(e->first);
    free(e->chi);
    tokenizer_close(e->tokens);
    weights_source_close(e->source);
    free(e);
}

int text_encoder_version(const struct text_encoder *e)
{
    return e->cfg.version;
}

int64_t text_encoder_bytes(const struct text_encoder *e)
{
    int64_t bytes = 0;
    for (int i = 0; i < weights_source_len(e->source); i++) {
        const struct tensor_view *v = weights_source_at(e->source, i);
        bytes += (int64_t)(v->count * st_dtype_size(v->dtype));
    }
    return bytes;
}

double text_encoder_token_flops(const struct text_encoder *e)
{
    const struct gemma_config *c = &e->cfg;
    const double heads = (double)(2 * c->heads + 2 * c->kv_heads) * c->head_dim;
    return 2.0 * c->hidden * (heads + 3.0 * c->intermediate) * (c->layers - (c->version == 1));
}

int text_encoder_tokens(const struct text_encoder *e, const char *caption, size_t n, int *rows, struct err *err)
{
    struct prompt p;
    if (make_prompt((struct text_encoder *)(uintptr_t)e, &p, e->chi, caption, n, err) < 0)
        return -1;
    const size_t tokens = count_tokens(&p);
    *rows = 0;
    for (size_t i = 0; i < p.rows; i++)
        *rows += p.mask[p.row[i]] > 0;
    prompt_free(&p);
    return (int)tokens - (e->prefix.length > 0 || e->chi[0] ? (int)(p.chi > 1 ? p.chi - 1 : 0) : 0);
}

int text_encoder_rows(const struct text_encoder *e)
{
    return (int)e->rows;
}

int text_encoder_channels(const struct text_encoder *e)
{
    return e->cfg.hidden;
}

/* --- digest ------------------------------------------------------------------------------- */

/* The numbers of a config one by one: between them a struct may have bytes of no meaning. */
static void add_config(struct digest *d, const struct text_encoder *e)
{
    char text[320];
    const struct gemma_config *c = &e->cfg;
    snprintf(text, sizeof(text), "gemma %d %d %d %d %d %d %d %d window %d cap %.17g scale %.17g eps %.17g theta %.17g "
             "rows %zu style %s", c->version, c->vocab, c->hidden, c->intermediate, c->layers, c->heads, c->kv_heads,
             c->head_dim, c->window, c->cap, c->scale, c->eps, c->theta, e->rows, e->diffusers ? "diffusers" : "authors");
    digest_add_text(d, text);
    digest_add_text(d, e->chi);
}

/* The file that tokenizer_open() takes. */
static int add_tokenizer(struct digest *d, const struct text_encoder *e, struct err *err)
{
    static const char *const files[] = {"/tokenizer.json", "/tokenizer.model", ""};
    char path[PATH_MAX + 32], text[DIGEST_TEXT];
    int64_t bytes;
    size_t i = 0;
    do
        snprintf(path, sizeof(path), "%s%s", e->tokenizer, files[i]);
    while (access(path, F_OK) < 0 && ++i < sizeof(files) / sizeof(*files) - 1);
    if (digest_file(text, &bytes, path, err) < 0)
        return -1;
    digest_add_text(d, text);
    return 0;
}

int text_encoder_digest(const struct text_encoder *e, char text[DIGEST_TEXT], struct err *err)
{
    struct digest *d;
    if (digest_create(&d, err) < 0)
        return -1;
    add_config(d, e);
    const int rc = add_tokenizer(d, e, err);
    for (int i = 0; rc == 0 && i < weights_source_len(e->source); i++)
        tensor_view_digest(d, weights_source_at(e->source, i));
    digest_text(d, text);
    digest_destroy(d);
    return rc;
}
