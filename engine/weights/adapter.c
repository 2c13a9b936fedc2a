/* SPDX-License-Identifier: Apache-2.0 */
/* adapter.c - the tensors of an adapter file; see adapter.h */
#include "engine/weights/adapter.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/err.h"
#include "engine/base/json_make.h"
#include "engine/contract/lora_config.h"
#include "engine/files/safetensors.h"
#include "engine/model/layout.h"

struct st_file;
struct st_tensor;

/* The tensors of one layer. */
struct adapter_layer {
    const struct st_tensor *a, *b, *alpha;
    int                     rank; /* 0: no adapter */
    double                  scale_alpha;
};

struct adapter {
    char                  path[ADAPTER_PATH];
    struct st_file       *file;
    json_t               *notes;      /* of the header or of adapter_config.json, or NULL */
    const char           *prefix;     /* of its keys */
    int                   depth;
    struct adapter_layer *layer;      /* [depth][LORA_MODULES] */
    bool                  has_alpha;
    struct lora_config    config;
};

/* --- reading ------------------------------------------------------------------------------- */

static const json_t *note(const struct adapter *a, const char *key)
{
    char full[96];
    snprintf(full, sizeof(full), "%s%s", a->prefix, key);
    return json_object_get(a->notes, full);
}

/* Whether a key of a pattern, the end of a layer's name, is of this layer. */
static bool is_of(const char *key, int block, enum lora_module module)
{
    char name[96];
    snprintf(name, sizeof(name), "transformer_blocks.%d.%s", block, lora_config_name(module));
    const size_t n = strlen(name), k = strlen(key);
    return k > 0 && k <= n && strcmp(name + n - k, key) == 0 && (k == n || name[n - k - 1] == '.');
}

/* The first key of alpha_pattern that fits, then lora_alpha, then the tensor. NAN: none. */
static double alpha_of(const struct adapter *a, int block, enum lora_module module)
{
    const char *key;
    json_t *value;
    float own;
    const struct st_tensor *t = a->layer[block * LORA_MODULES + (int)module].alpha;
    json_object_foreach((json_t *)(uintptr_t)note(a, "alpha_pattern"), key, value)
        if (json_is_number(value) && is_of(key, block, module))
            return json_number_value(value);
    if (json_is_number(note(a, "lora_alpha")))
        return json_number_value(note(a, "lora_alpha"));
    return t && t->count == 1 && st_to_float(&own, t, 1, NULL) == 0 ? (double)own : NAN;
}

static void fill_layer(struct adapter *a, int block, enum lora_module module)
{
    struct adapter_layer *l = &a->layer[block * LORA_MODULES + (int)module];
    const double alpha = alpha_of(a, block, module);
    if (l->rank == 0)
        return;
    a->has_alpha |= isfinite(alpha);
    l->scale_alpha = isfinite(alpha) ? alpha : l->rank;
}

static bool same_layer(const struct adapter_layer *l, int rank, double alpha)
{
    return l->rank == rank && (rank == 0 || (l->scale_alpha >= alpha && l->scale_alpha <= alpha));
}

/* Rank and alpha that most layers with an adapter have. */
static void choose_usual(struct adapter *a)
{
    int best = 0;
    const int n = a->depth * LORA_MODULES;
    for (int i = 0; i < n; i++) {
        int same = 0;
        for (int k = i; a->layer[i].rank > 0 && k < n; k++)
            same += same_layer(&a->layer[k], a->layer[i].rank, a->layer[i].scale_alpha);
        if (same > best) {
            best = same;
            a->config.rank = a->layer[i].rank;
            a->config.alpha = a->layer[i].scale_alpha;
        }
    }
}

static int except(struct adapter *a, int block, enum lora_module module, const struct adapter_layer *l, struct err *err)
{
    if (a->config.exceptions == LORA_EXCEPTIONS)
        return err_set(err, ERR_DATA, "%s: more than %d layers differ in rank or alpha from the others", a->path,
                       LORA_EXCEPTIONS);
    a->config.exception[a->config.exceptions++] = (struct lora_exception){block, module, l->rank, l->scale_alpha};
    return 0;
}

/* Of one kind of layer: as usual, another in all blocks, or others in some. */
static int configure_module(struct adapter *a, enum lora_module module, struct err *err)
{
    const struct adapter_layer *l = &a->layer[module];
    struct lora_config *c = &a->config;
    bool any = false, same = true;
    for (int b = 0; b < a->depth; b++) {
        any |= l[b * LORA_MODULES].rank > 0;
        same &= same_layer(&l[b * LORA_MODULES], l->rank, l->scale_alpha);
    }
    if (!any)
        return 0;
    c->targets |= 1u << module;
    if (same)
        return same_layer(l, c->rank, c->alpha) ? 0 : except(a, -1, module, l, err);
    for (int b = 0; b < a->depth; b++)
        if (!same_layer(&l[b * LORA_MODULES], c->rank, c->alpha) &&
            except(a, b, module, &l[b * LORA_MODULES], err) < 0)
            return -1;
    return 0;
}

/* The ranks and alphas of all layers, as one config. ERR_DATA: too many exceptions; DoRA. */
static int adapter_configure(struct adapter *a, struct err *err)
{
    if (json_is_true(note(a, "use_dora")))
        return err_set(err, ERR_DATA, "%s: it uses DoRA (use_dora), which is not supported", a->path);
    a->config.rslora = json_is_true(note(a, "use_rslora"));
    for (int b = 0; b < a->depth; b++)
        for (int m = 0; m < LORA_MODULES; m++)
            fill_layer(a, b, (enum lora_module)m);
    choose_usual(a);
    for (int m = 0; m < LORA_MODULES; m++)
        if (configure_module(a, (enum lora_module)m, err) < 0)
            return -1;
    return 0;
}

/* --- writing ------------------------------------------------------------------------------- */

/* A whole number without a point, as diffusers writes it. */
static json_t *number(double x)
{
    return floor(x) >= x && fabs(x) < 1e15 ? json_integer((json_int_t)x) : json_real(x);
}

/* Layers that differ from the rest, by their full names. */
static void patterns(const struct lora_config *c, int depth, json_t *ranks, json_t *alphas)
{
    char name[96];
    for (int b = 0; b < depth; b++)
        for (int m = 0; m < LORA_MODULES; m++) {
            const int rank = lora_config_rank(c, b, (enum lora_module)m);
            const double alpha = lora_config_alpha(c, b, (enum lora_module)m);
            snprintf(name, sizeof(name), "transformer_blocks.%d.%s", b, lora_config_name((enum lora_module)m));
            if (rank > 0 && rank != c->rank)
                json_object_set_new(ranks, name, json_integer(rank));
            if (rank > 0 && (alpha < c->alpha || alpha > c->alpha))
                json_object_set_new(alphas, name, number(alpha));
        }
}

static json_t *targets(const struct lora_config *c)
{
    json_t *list = json_array();
    for (int m = 0; m < LORA_MODULES; m++)
        if (c->targets & 1u << m)
            json_array_append_new(list, json_text(lora_config_name((enum lora_module)m)));
    return list;
}

/* The JSON text of the header; the caller frees it. */
static char *adapter_notes(const struct lora_config *c, int depth, struct err *err)
{
    json_t *ranks = json_object(), *alphas = json_object();
    patterns(c, depth, ranks, alphas);
    json_t *o = json_make("{s:o, s:s, s:n, s:b, s:b, s:s, s:n, s:n, s:o, s:b, s:f, s:n, s:s, s:i, s:o, s:o, s:n, s:b, "
                          "s:b}",
                          "transformer.alpha_pattern", alphas, "transformer.bias", "none",
                          "transformer.exclude_modules", "transformer.fan_in_fan_out", 0,
                          "transformer.inference_mode", 0, "transformer.init_lora_weights", "gaussian",
                          "transformer.layers_pattern", "transformer.layers_to_transform", "transformer.lora_alpha",
                          number(c->alpha), "transformer.lora_bias", 0, "transformer.lora_dropout", 0.0,
                          "transformer.modules_to_save", "transformer.peft_type", "LORA", "transformer.r", c->rank,
                          "transformer.rank_pattern", ranks, "transformer.target_modules", targets(c),
                          "transformer.task_type", "transformer.use_dora", 0, "transformer.use_rslora", c->rslora);
    char *text = o ? json_dumps(o, JSON_INDENT(2) | JSON_SORT_KEYS) : NULL;
    json_decref(o);
    if (!text)
        err_set(err, ERR_MEMORY, "no memory for the description of adapters");
    return text;
}

#define PEFT_FILE  "adapter_model.safetensors"
#define PEFT_NOTES "adapter_config.json"
#define META       "lora_adapter_metadata"

/* --- names --------------------------------------------------------------------------------- */

enum part { PART_A, PART_B, PART_ALPHA };

static const struct {
    const char *end;
    enum part   part;
} ends[] = {
    {".lora_A.weight", PART_A},          {".lora_B.weight", PART_B},
    {".lora_A.default.weight", PART_A},  {".lora_B.default.weight", PART_B},
    {".lora.down.weight", PART_A},       {".lora.up.weight", PART_B},
    {".lora_down.weight", PART_A},       {".lora_up.weight", PART_B},
    {".alpha", PART_ALPHA},
};

static const char *const prefixes[] = {"transformer.", "base_model.model.transformer.", "base_model.model."};

struct place {
    int              block;
    enum lora_module module;
    enum part        part;
};

static const char *without_prefix(const char *name)
{
    for (size_t i = 0; i < sizeof(prefixes) / sizeof(*prefixes); i++)
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
            return name + strlen(prefixes[i]);
    return name;
}

/* false: no adapter of a layer of Sana. */
static bool find_place(struct place *p, const char *full)
{
    int at = 0;
    char layer[ST_NAME];
    const char *name = without_prefix(full);
    if (sscanf(name, "transformer_blocks.%d.%n", &p->block, &at) != 1 || at == 0 || p->block < 0)
        return false;
    for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
        const size_t all = strlen(name), end = strlen(ends[i].end);
        if (all < end + (size_t)at || strcmp(name + all - end, ends[i].end) != 0)
            continue;
        snprintf(layer, sizeof(layer), "%.*s", (int)(all - end) - at, name + at);
        p->part = ends[i].part;
        p->module = lora_config_module(layer);
        return p->module < LORA_MODULES;
    }
    return false;
}

static int refuse_name(const struct adapter *a, const char *name, struct err *err)
{
    char list[400];
    lora_config_list(list, sizeof(list));
    if (strstr(name, "lora_magnitude_vector"))
        return err_set(err, ERR_DATA, "%s: %s belongs to DoRA, which is not supported", a->path, name);
    return err_set(err, ERR_DATA, "%s: %s is not a low-rank adapter of a supported layer: %s of transformer_blocks.N",
                   a->path, name, list);
}

static int take(struct adapter *a, const struct st_tensor *t, struct err *err)
{
    struct place p;
    if (!find_place(&p, t->name))
        return refuse_name(a, t->name, err);
    if (p.block >= a->depth)
        return err_set(err, ERR_USAGE, "%s: %s belongs to block %d, but the model has %d blocks", a->path, t->name,
                       p.block, a->depth);
    struct adapter_layer *l = &a->layer[p.block * LORA_MODULES + (int)p.module];
    const struct st_tensor **to = p.part == PART_A ? &l->a : p.part == PART_B ? &l->b : &l->alpha;
    if (*to)
        return err_set(err, ERR_DATA, "%s: %s and %s are the same tensor", a->path, (*to)->name, t->name);
    *to = t;
    return 0;
}

/* A is [r, in], B [out, r]; both may end with dimensions of 1. */
static int pair(struct adapter *a, struct adapter_layer *l, struct err *err)
{
    const struct st_tensor *A = l->a, *B = l->b;
    if (!A && !B && !l->alpha)
        return 0;
    if (!A || !B)
        return err_set(err, ERR_DATA, "%s: %s has no counterpart (lora_A and lora_B come in pairs)",
                       a->path, (A ? A : B ? B : l->alpha)->name);
    if (A->ndim < 2 || B->ndim < 2 || A->dim[0] != B->dim[1] || A->dim[0] > 1 << 16)
        return err_set(err, ERR_DATA, "%s: %s and %s do not have shapes [r, in] and [out, r]", a->path, A->name,
                       B->name);
    l->rank = (int)A->dim[0];
    return 0;
}

static int sort_tensors(struct adapter *a, struct err *err)
{
    for (int i = 0; i < st_len(a->file); i++)
        if (take(a, st_at(a->file, i), err) < 0)
            return -1;
    for (int i = 0; i < a->depth * LORA_MODULES; i++)
        if (pair(a, &a->layer[i], err) < 0)
            return -1;
    return st_len(a->file) ? 0 : err_set(err, ERR_DATA, "%s: the file has no tensors", a->path);
}

/* --- opening ------------------------------------------------------------------------------- */

static bool is_there(char path[ADAPTER_PATH], const char *dir, const char *name)
{
    return snprintf(path, ADAPTER_PATH, "%s/%s", dir, name) < ADAPTER_PATH && access(path, F_OK) == 0;
}

static int find_file(struct adapter *a, const char *path, struct err *err)
{
    struct stat st;
    if (strlen(path) >= ADAPTER_PATH - 64)
        return err_set(err, ERR_USAGE, "%.80s...: the path is too long", path);
    if (stat(path, &st) < 0)
        return err_set(err, ERR_USAGE, "%s does not exist", path);
    if (!S_ISDIR(st.st_mode)) {
        snprintf(a->path, sizeof(a->path), "%s", path);
        return 0;
    }
    if (is_there(a->path, path, ADAPTER_FILE) || is_there(a->path, path, PEFT_FILE))
        return 0;
    return err_set(err, ERR_USAGE, "%s has neither " ADAPTER_FILE " nor " PEFT_FILE, path);
}

static int parse_notes(struct adapter *a, const char *text, struct err *err)
{
    json_error_t why;
    a->prefix = "transformer.";
    a->notes = json_loads(text, JSON_REJECT_DUPLICATES, &why);
    if (!json_is_object(a->notes))
        return err_set(err, ERR_DATA, "%s: " META " is not a JSON object: %s", a->path, why.text);
    return 0;
}

/* peft's, beside the file. */
static int read_notes_beside(struct adapter *a, struct err *err)
{
    json_error_t why;
    char path[ADAPTER_PATH];
    const char *slash = strrchr(a->path, '/');
    const int dir = slash ? (int)(slash - a->path) : 0;
    if (snprintf(path, sizeof(path), "%.*s%s" PEFT_NOTES, dir, a->path, slash ? "/" : "") >= ADAPTER_PATH ||
        access(path, F_OK) < 0 || strcmp(slash ? slash + 1 : a->path, PEFT_FILE) != 0)
        return 0;
    a->prefix = "";
    a->notes = json_load_file(path, JSON_REJECT_DUPLICATES, &why);
    return json_is_object(a->notes) ? 0 : err_set(err, ERR_DATA, "%s: not a JSON object: %s", path, why.text);
}

static int read_notes(struct adapter *a, struct err *err)
{
    const char *text = st_meta(a->file, META);
    return text ? parse_notes(a, text, err) : read_notes_beside(a, err);
}

int adapter_open(struct adapter **out, const char *path, int depth, struct err *err)
{
    struct adapter *a = calloc(1, sizeof(*a));
    struct adapter_layer *layers = calloc((size_t)depth * LORA_MODULES, sizeof(*layers));
    if (!a || !layers) {
        free(a);
        free(layers);
        return err_set(err, ERR_MEMORY, "no memory for the adapters of %d blocks", depth);
    }
    *a = (struct adapter){.depth = depth, .layer = layers, .prefix = ""};
    if (find_file(a, path, err) < 0 || st_open(&a->file, a->path, err) < 0 || read_notes(a, err) < 0 ||
        sort_tensors(a, err) < 0 || adapter_configure(a, err) < 0) {
        adapter_close(a);
        return -1;
    }
    *out = a;
    return 0;
}

void adapter_close(struct adapter *a)
{
    if (!a)
        return;
    json_decref(a->notes);
    st_close(a->file);
    free(a->layer);
    free(a);
}

const struct lora_config *adapter_config(const struct adapter *a)
{
    return &a->config;
}

bool adapter_has_alpha(const struct adapter *a)
{
    return a->has_alpha;
}

/* --- numbers ------------------------------------------------------------------------------- */

/* Shapes may differ in dimensions of 1. */
static bool same_shape(const struct tensor *t, const struct st_tensor *s)
{
    int d = 0;
    for (int i = 0; i < s->ndim; i++) {
        if (s->dim[i] == 1 && (d >= t->ndim || t->dim[d] != 1))
            continue;
        if (d >= t->ndim || t->dim[d++] != s->dim[i])
            return false;
    }
    for (; d < t->ndim; d++)
        if (t->dim[d] != 1)
            return false;
    return s->count == t->count;
}

int adapter_read(const struct adapter *a, const struct layout *l, float *weights, struct err *err)
{
    for (int i = 0; i < layout_len(l); i++) {
        struct place p;
        const struct tensor *t = layout_at(l, i);
        if (!find_place(&p, t->name))
            return err_set(err, ERR_BUG, "%s is not a tensor of an adapter", t->name);
        const struct adapter_layer *layer = &a->layer[p.block * LORA_MODULES + (int)p.module];
        const struct st_tensor *s = p.part == PART_A ? layer->a : layer->b;
        if (!s || !same_shape(t, s))
            return err_set(err, ERR_USAGE, "%s: %s %s", a->path, t->name,
                           s ? "does not have the shape of the model's layer and rank" : "is missing");
        if (st_to_float(weights + t->offset, s, t->count, err) < 0)
            return -1;
    }
    return 0;
}

int adapter_write(int fd, const struct lora_config *c, int depth, const struct layout *l, const float *weights,
                  struct err *err)
{
    struct st_writer *w = NULL;
    int64_t bytes;
    char *notes = adapter_notes(c, depth, err);
    int rc = notes ? st_writer_create(&w, err) : -1;
    if (rc == 0 && (rc = st_writer_meta(w, "format", "pt", err)) == 0)
        rc = st_writer_meta(w, META, notes, err);
    for (int i = 0; rc == 0 && i < layout_len(l); i++) {
        const struct tensor *t = layout_at(l, i);
        rc = st_writer_add(w, t->name, ST_F32, t->ndim, t->dim, weights + t->offset, err);
    }
    if (rc == 0)
        rc = st_writer_write(w, fd, &bytes, err);
    st_writer_destroy(w);
    free(notes);
    return rc;
}
