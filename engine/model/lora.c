/* SPDX-License-Identifier: Apache-2.0 */
/* lora.c - the adapters of a model, their layout and memory; see lora.h */
#include "engine/model/lora.h"

#include <stdio.h>
#include <stdlib.h>

#include "engine/base/err.h"
#include "engine/contract/lora_config.h"
#include "engine/model/backend.h"
#include "engine/model/layout.h"
#include "engine/model/model_internal.h"
#include "kernels/bf16.h"
#include "kernels/kernels.h"

struct kern_ops;

struct lora {
    const struct kern_ops *ops;
    struct layout       *layout;
    struct lora_adapter *adapter;  /* by block */
    int                  len, blocks;
    int                 *first;    /* [blocks + 1]: the adapters of each block */
    int                 *own;      /* [blocks]: the block's unit of `layout`, or -1 */
    bool                 merges;   /* passes use merged weights; see lora.h */
    float               *weights, *grads;
    void                *narrow;   /* the weights, narrow; they themselves where that is fp32 */
    bool                 borrowed; /* the weights are in the caller's memory */
    /* the base: one of both */
    uint16_t            *half;     /* bf16 */
    float               *wide;
    bool                 shared;   /* it is another model's */
    size_t               floats;
    float               *scaled;   /* [out, r], in host memory */
    /* kernel arrays; of narrow numbers those without a type */
    float               *unit;     /* weights of the current unit, merged if passes use merged ones */
    void                *unit_narrow; /* where `unit` is not what products take, and no bf16 base either */
    void                *dy;       /* [rows, out]: some columns of a layer's gradient */
    void                *u, *v;    /* [rows, r] */
    /* the current unit: its first number in the arrays is `now_from` of the layout */
    int                  block;    /* or -1: one without adapters */
    const float         *now;
    const void          *now_narrow;
    float               *now_grads;
    size_t               now_from;
};

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
                       "channels; usual values are 4 to 64", a.rank, lora_config_name(module), block,
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

static const float *lora_now(const struct lora *l, int tensor)
{
    return l->now + (layout_at(l->layout, tensor)->offset - l->now_from);
}

static const void *lora_now_narrow(const struct lora *l, int tensor)
{
    return (const char *)l->now_narrow + (layout_at(l->layout, tensor)->offset - l->now_from) * l->ops->narrow;
}

/* Weights of A and B, and their gradients, of an adapter of the current unit. */
static float *lora_now_grads(const struct lora *l, int tensor)
{
    return l->now_grads + (layout_at(l->layout, tensor)->offset - l->now_from);
}

/* --- weights ------------------------------------------------------------------------------- */

/* `to`, [out, in], gets s B A added; all in host memory. */
static void add_product(const struct lora *l, const struct lora_adapter *a, const float *A, const float *B, float *to)
{
    const struct kern_ops *cpu = l->merges ? l->ops : kern_cpu();
    cpu->scale(l->scaled, B, (float)a->scale, (size_t)a->out * (size_t)a->rank);
    cpu->linear_back_wide(to, 1, NULL, NULL, l->scaled, NULL, A, a->out, a->in, a->rank);
}

void lora_merge(const struct lora *l, const struct lora_adapter *a, const float *weights, float *tensor)
{
    add_product(l, a, weights + layout_at(l->layout, a->a)->offset, weights + layout_at(l->layout, a->b)->offset,
                tensor + (size_t)a->row * (size_t)a->in);
}

/* The weights of the block's adapters, from this process's block or from the caller's units. */
static void take_unit(struct lora *l, struct model *m, int own, bool backward)
{
    void *narrow = l->narrow;
    float *weights = l->weights, *grads = backward ? l->grads : NULL;
    l->now_from = 0;
    if (m->max.by_unit) {
        l->now_from = layout_at(l->layout, l->adapter[l->first[l->block]].a)->offset;
        m->units.need(m->units.arg, own, &weights, &narrow, backward ? &grads : NULL);
    }
    l->now = weights;
    l->now_narrow = narrow;
    l->now_grads = grads;
}

static void merge_block(struct lora *l, struct model *m)
{
    for (int i = l->first[l->block]; i < l->first[l->block + 1]; i++) {
        const struct lora_adapter *a = &l->adapter[i];
        add_product(l, a, lora_now(l, a->a), lora_now(l, a->b),
                    m->weights + ((size_t)a->weight - m->unit_from) + (size_t)a->row * (size_t)a->in);
    }
}

/* The base of a unit as fp32; and what products take: themselves, the base of bf16, or rounded numbers. */
static void widen_unit(struct lora *l, struct model *m, size_t from, size_t n)
{
    if (l->wide)
        l->ops->copy(l->unit, l->wide + from, n);
    else
        l->ops->widen_bf16(l->unit, l->half + from, n);
    m->weights = l->unit;
    m->narrow = l->unit;
    if (l->ops->narrow == sizeof(float))
        return;
    m->narrow = l->half ? (void *)(l->half + from) : l->unit_narrow;
    if (!l->half)
        l->ops->round(l->unit_narrow, l->unit, n);
}

void lora_enter(struct lora *l, struct model *m, int unit, bool backward)
{
    const size_t from = (size_t)m->net->unit_from(m, unit);
    const size_t to = unit < model_last_unit(m) ? (size_t)m->net->unit_from(m, unit + 1) : l->floats;
    const bool is_block = unit != MODEL_FIRST_UNIT && unit != model_last_unit(m);
    l->block = is_block && l->own[unit - 1] >= 0 ? unit - 1 : -1;
    widen_unit(l, m, from, to - from);
    m->grads = NULL;
    m->unit_from = from;
    if (l->block < 0)
        return;
    take_unit(l, m, l->own[l->block], backward);
    if (l->merges)
        merge_block(l, m);
}

/* The next adapter of a layer, from the *i-th on; NULL: none. */
static const struct lora_adapter *next_of(const struct lora *l, weight_at weight, int *i)
{
    while (l->block >= 0 && *i < l->first[l->block + 1])
        if (l->adapter[(*i)++].weight == weight)
            return &l->adapter[*i - 1];
    return NULL;
}

static int first_of(const struct lora *l)
{
    return l->block < 0 ? 0 : l->first[l->block];
}

/* u = s x A^T */
static void project(struct lora *l, const struct lora_adapter *a, const void *x, int rows)
{
    l->ops->linear(l->u, x, lora_now_narrow(l, a->a), NULL, rows, a->in, a->rank);
    l->ops->scale(l->u, l->u, (float)a->scale, (size_t)rows * (size_t)a->rank);
}

void lora_forward(struct lora *l, weight_at weight, void *y, const void *x, int rows, int n)
{
    const struct lora_adapter *a;
    for (int i = first_of(l); !l->merges && (a = next_of(l, weight, &i));) {
        project(l, a, x, rows);
        l->ops->linear_add((char *)y + (size_t)a->row * l->ops->narrow, n, l->u, lora_now_narrow(l, a->b), rows,
                           a->rank, a->out);
    }
}

/* --- gradients ----------------------------------------------------------------------------- */

/* Columns [a->row, a->row + a->out) of dy [rows, n]. */
static const void *columns_of(const struct lora *l, const struct lora_adapter *a, const void *dy, int rows, int n)
{
    if (a->out == n)
        return dy;
    l->ops->columns(l->dy, (const char *)dy + (size_t)a->row * l->ops->narrow, n, rows, a->out);
    return l->dy;
}

/* Leaves v. */
static void back(struct lora *l, const struct lora_adapter *a, const void *dy, const void *x, int rows)
{
    const void *A = lora_now_narrow(l, a->a), *B = lora_now_narrow(l, a->b);
    project(l, a, x, rows);
    l->ops->linear_back(l->v, lora_now_grads(l, a->b), NULL, dy, l->u, B, rows, a->rank, a->out);
    l->ops->scale(l->v, l->v, (float)a->scale, (size_t)rows * (size_t)a->rank);
    l->ops->linear_back(NULL, lora_now_grads(l, a->a), NULL, l->v, x, A, rows, a->in, a->rank);
}

/* dx += v A */
static void back_input(struct lora *l, const struct lora_adapter *a, void *dx, float *wide_dx, int rows)
{
    const void *A = lora_now_narrow(l, a->a);
    if (wide_dx)
        l->ops->linear_back_wide(wide_dx, 1, NULL, NULL, l->v, NULL, A, rows, a->in, a->rank);
    else
        l->ops->linear_back_add(dx, l->v, A, rows, a->in, a->rank);
}

void lora_back(struct lora *l, weight_at weight, void *dx, float *wide_dx, const void *dy, const void *x, int rows,
               int n)
{
    const struct lora_adapter *a;
    for (int i = first_of(l); (a = next_of(l, weight, &i));) {
        back(l, a, columns_of(l, a, dy, rows, n), x, rows);
        if (!l->merges)
            back_input(l, a, dx, wide_dx, rows);
    }
}

void lora_leave(struct lora *l, struct model *m, int unit)
{
    if (l->block < 0 || unit - 1 != l->block)
        return;
    const int own = l->own[l->block];
    if (m->max.by_unit)
        m->units.done(m->units.arg, own);
    if (m->on_ready && own > 0)
        m->on_ready(m->on_ready_arg, layout_at(l->layout, l->adapter[l->first[l->block]].a)->offset);
}

enum { PIECE = 16384 };

static void put_half(struct lora *l, size_t from, size_t n, const float *numbers)
{
    uint16_t half[PIECE];
    for (size_t at = 0; at < n; at += PIECE) {
        const size_t some = n - at < PIECE ? n - at : PIECE;
        bf16_round(half, numbers + at, some);
        l->ops->upload(l->half + from + at, half, some * sizeof(*half));
    }
}

void lora_base_put(struct lora *l, size_t from, size_t n, const float *numbers)
{
    if (l->wide)
        l->ops->upload(l->wide + from, numbers, n * sizeof(*numbers));
    else
        put_half(l, from, n, numbers);
}

void lora_base_get(const struct lora *l, size_t from, size_t n, float *numbers)
{
    uint16_t half[PIECE];
    if (l->wide) {
        l->ops->download(numbers, l->wide + from, n * sizeof(*numbers));
        return;
    }
    for (size_t at = 0; at < n; at += PIECE) {
        const size_t some = n - at < PIECE ? n - at : PIECE;
        l->ops->download(half, l->half + from + at, some * sizeof(*half));
        kern_cpu()->widen_bf16(numbers + at, half, some);
    }
}

void lora_base_share(struct lora *l, const struct lora *with)
{
    if (!l->shared) {
        l->ops->release(l->half);
        l->ops->release(l->wide);
    }
    l->shared = true;
    l->half = with->half;
    l->wide = with->wide;
}
