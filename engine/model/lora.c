/* SPDX-License-Identifier: Apache-2.0 */
/* lora.c - the adapters of a model, their layout and memory; see lora.h */
#include "engine/model/lora.h"

#include <stdio.h>
#include <stdlib.h>

#include "engine/contract/err.h"
#include "engine/contract/lora_config.h"
#include "engine/model/backend.h"
#include "engine/model/layout.h"
#include "engine/model/lora_internal.h"
#include "engine/model/model_internal.h"

/* --- which layers -------------------------------------------------------------------------- */

/* The tensor of a layer, and its place in it: rows `part` * `out` and on. */
static struct lora_adapter place(const struct model *m, int block, enum lora_module module)
{
    const struct sana_block_weights *w = &m->sana.bw[block];
    const int C = m->cfg.hidden, F = m->cfg.mlp_hidden;
    const struct lora_adapter all[LORA_MODULES] = {
        [LORA_SELF_Q] = {.weight = w->qkv, .row = 0, .out = C, .in = C},
        [LORA_SELF_K] = {.weight = w->qkv, .row = C, .out = C, .in = C},
        [LORA_SELF_V] = {.weight = w->qkv, .row = 2 * C, .out = C, .in = C},
        [LORA_SELF_OUT] = {.weight = w->proj, .out = C, .in = C},
        [LORA_CROSS_Q] = {.weight = w->cross_q, .out = C, .in = C},
        [LORA_CROSS_K] = {.weight = w->cross_kv, .row = 0, .out = C, .in = C},
        [LORA_CROSS_V] = {.weight = w->cross_kv, .row = C, .out = C, .in = C},
        [LORA_CROSS_OUT] = {.weight = w->cross_proj, .out = C, .in = C},
        [LORA_MLP_IN] = {.weight = w->inv, .out = 2 * F, .in = C, .is_conv = true},
        [LORA_MLP_OUT] = {.weight = w->point, .out = C, .in = F, .is_conv = true},
    };
    return all[module];
}

static int tensor_at(const struct layout *l, weight_at at)
{
    int i = 0;
    while (layout_at(l, i)->offset != (size_t)at)
        i++;
    return i;
}

/* "transformer.transformer_blocks.3.attn1.to_q.lora_A.weight" */
static int add_matrix(struct lora *l, const struct lora_adapter *a, char which, int rows, int cols, struct err *err)
{
    char name[TENSOR_NAME];
    const int64_t dim[] = {rows, cols, 1, 1};
    snprintf(name, sizeof(name), "transformer.transformer_blocks.%d.%s.lora_%c.weight", a->block,
             lora_config_name(a->module), which);
    return layout_add(l->layout, name, TENSOR_PARAM, a->is_conv ? 4 : 2, dim, err);
}

static int add(struct lora *l, const struct model *m, int block, enum lora_module module, struct err *err)
{
    const struct lora_config *c = &m->cfg.lora;
    struct lora_adapter a = place(m, block, module);
    a.block = block;
    a.module = module;
    a.tensor = tensor_at(m->layout, a.weight);
    a.rank = lora_config_rank(c, block, module);
    a.alpha = lora_config_alpha(c, block, module);
    a.scale = lora_config_scale(c, block, module);
    if (a.rank > (a.in < a.out ? a.in : a.out))
        return err_set(err, ERR_USAGE, "train.lora.rank: %d is too large for layer %s of block %d, which has %d "
                       "channels; 4 to 64 are usual", a.rank, lora_config_name(module), block,
                       a.in < a.out ? a.in : a.out);
    if ((a.a = add_matrix(l, &a, 'A', a.rank, a.in, err)) < 0 || (a.b = add_matrix(l, &a, 'B', a.out, a.rank, err)) < 0)
        return -1;
    l->adapter[l->len++] = a;
    return 0;
}

static int add_block(struct lora *l, const struct model *m, int block, struct err *err)
{
    l->first[block] = l->len;
    layout_next_unit(l->layout);
    for (int i = 0; i < LORA_MODULES; i++)
        if (lora_config_rank(&m->cfg.lora, block, (enum lora_module)i) > 0 &&
            add(l, m, block, (enum lora_module)i, err) < 0)
            return -1;
    l->own[block] = l->len > l->first[block] ? layout_at(l->layout, layout_len(l->layout) - 1)->unit : -1;
    l->first[block + 1] = l->len;
    return 0;
}

static int declare(struct lora *l, const struct model *m, struct err *err)
{
    const size_t blocks = (size_t)m->cfg.depth;
    l->blocks = m->cfg.depth;
    l->adapter = calloc(blocks * LORA_MODULES, sizeof(*l->adapter));
    l->first = calloc(blocks + 1, sizeof(*l->first));
    l->own = calloc(blocks, sizeof(*l->own));
    if (!l->adapter || !l->first || !l->own)
        return err_set(err, ERR_MEMORY, "no memory for adapters of %zu blocks", blocks);
    for (int i = 0; i < l->blocks; i++)
        if (add_block(l, m, i, err) < 0)
            return -1;
    if (l->len == 0)
        return err_set(err, ERR_USAGE, "train.lora.targets: no layer has an adapter; name layers such as to_q");
    return 0;
}

int lora_create(struct lora **out, struct model *m, struct err *err)
{
    if (m->cfg.family != MODEL_SANA)
        return err_set(err, ERR_USAGE, "train.lora: low-rank adapters are supported for Sana only; leave out "
                       "train.lora, or use a preset of Sana");
    struct lora *l = calloc(1, sizeof(*l));
    if (!l)
        return err_set(err, ERR_MEMORY, "no memory for adapters");
    l->block = -1;
    l->ops = m->ops;
    l->merges = m->ops && m->ops->host;
    l->floats = layout_floats(m->layout);
    if (layout_create(&l->layout, err) < 0 || declare(l, m, err) < 0) {
        lora_destroy(l);
        return -1;
    }
    *out = l;
    return 0;
}

void lora_destroy(struct lora *l)
{
    if (!l)
        return;
    void *const arrays[] = {l->borrowed ? NULL : l->weights, l->grads, l->shared ? NULL : l->half,
                            l->shared ? NULL : l->wide, l->unit, l->unit_narrow, l->dy, l->u, l->v,
                            l->narrow == l->weights ? NULL : l->narrow};
    for (size_t i = 0; l->ops && i < sizeof(arrays) / sizeof(arrays[0]); i++)
        l->ops->release(arrays[i]);
    layout_destroy(l->layout);
    free(l->scaled);
    free(l->adapter);
    free(l->first);
    free(l->own);
    free(l);
}

const struct layout *lora_layout(const struct lora *l)
{
    return l->layout;
}

struct layout *lora_take_layout(struct lora *l)
{
    struct layout *layout = l->layout;
    l->layout = NULL;
    return layout;
}

int lora_len(const struct lora *l)
{
    return l->len;
}

const struct lora_adapter *lora_at(const struct lora *l, int i)
{
    return &l->adapter[i];
}

const struct lora_adapter *lora_of_tensor(const struct lora *l, int i)
{
    return &l->adapter[i / 2];
}

/* --- memory -------------------------------------------------------------------------------- */

/* Numbers of the largest unit of the model; of the largest of each buffer. */
struct most {
    size_t unit, scaled, dy, u;
};

static size_t max_of(size_t a, size_t b)
{
    return a > b ? a : b;
}

static struct most measure(const struct lora *l, const struct model *m)
{
    const size_t rows = max_of(model_most_tokens(m), model_most_rows(m));
    struct most most = {0};
    for (int u = 0; u <= model_last_unit(m); u++) {
        const size_t to = u < model_last_unit(m) ? (size_t)m->net->unit_from(m, u + 1) : l->floats;
        most.unit = max_of(most.unit, to - (size_t)m->net->unit_from(m, u));
    }
    for (int i = 0; i < l->len; i++) {
        const struct lora_adapter *a = &l->adapter[i];
        const bool part = (size_t)a->out * (size_t)a->in != layout_at(m->layout, a->tensor)->count;
        most.scaled = max_of(most.scaled, (size_t)a->out * (size_t)a->rank);
        most.u = max_of(most.u, rows * (size_t)a->rank);
        most.dy = max_of(most.dy, part ? rows * (size_t)a->out : 0);
    }
    return most;
}

/* NULL: of no numbers, or an error. */
static void *array_of(const struct model *m, size_t numbers, size_t size, enum backend_use use, struct err *err)
{
    return numbers ? backend_alloc(m->ops, numbers * size, use, err) : NULL;
}

/* u is needed in a pass forward, too, if that does not merge. */
static int alloc_buffers(struct lora *l, const struct model *m, const struct most *n, struct err *err)
{
    const size_t size = m->ops->narrow;
    const enum backend_use use = m->train ? USE_BACKWARD : USE_ACTIVATIONS;
    if (((m->train || !l->merges) && !(l->u = array_of(m, n->u, size, use, err))) ||
        (m->train && !(l->v = array_of(m, n->u, size, use, err))) ||
        (m->train && n->dy && !(l->dy = array_of(m, n->dy, size, use, err))))
        return -1;
    return 0;
}

static int alloc_base(struct lora *l, const struct model *m, const struct most *n, struct err *err)
{
    const bool wide = m->cfg.lora.base_fp32, rounds = wide && m->ops->narrow < sizeof(float);
    if (wide)
        l->wide = array_of(m, l->floats, sizeof(*l->wide), USE_WEIGHTS, err);
    else
        l->half = array_of(m, l->floats, sizeof(*l->half), USE_WEIGHTS, err);
    if ((!l->wide && !l->half) || !(l->unit = array_of(m, n->unit, sizeof(float), USE_WEIGHTS, err)) ||
        (rounds && !(l->unit_narrow = array_of(m, n->unit, m->ops->narrow, USE_WEIGHTS, err))))
        return -1;
    l->scaled = malloc(n->scaled * sizeof(*l->scaled));
    return l->scaled ? 0 : err_set(err, ERR_MEMORY, "no memory for adapters");
}

int lora_alloc(struct lora *l, struct model *m, struct err *err)
{
    const struct most n = measure(l, m);
    const size_t floats = layout_floats(l->layout);
    if (alloc_base(l, m, &n, err) < 0 || alloc_buffers(l, m, &n, err) < 0)
        return -1;
    if (m->max.by_unit)
        return 0;
    if (!(l->narrow = l->weights = array_of(m, floats, sizeof(float), USE_WEIGHTS, err)) ||
        (m->train && !(l->grads = array_of(m, floats, sizeof(float), USE_GRADIENTS, err))) ||
        (m->ops->narrow < sizeof(float) && !(l->narrow = array_of(m, floats, m->ops->narrow, USE_WEIGHTS, err))))
        return -1;
    return 0;
}

float *lora_weights(const struct lora *l)
{
    return l->weights;
}

float *lora_grads(const struct lora *l)
{
    return l->grads;
}

void *lora_narrow(const struct lora *l)
{
    return l->narrow;
}

void lora_place(struct lora *l, float *weights)
{
    if (!l->borrowed)
        l->ops->release(l->weights);
    l->borrowed = true;
    l->narrow = l->weights = weights;
}
