/* SPDX-License-Identifier: Apache-2.0 */
/* lora_pass.c - merged weights for a pass, and gradients of adapters; see lora.h */
#include <string.h>

#include "engine/model/layout.h"
#include "engine/model/lora_internal.h"
#include "engine/model/model_internal.h"

const float *lora_now(const struct lora *l, int tensor)
{
    return l->now + (layout_at(l->layout, tensor)->offset - l->now_from);
}

float *lora_now_grads(const struct lora *l, int tensor)
{
    return l->now_grads + (layout_at(l->layout, tensor)->offset - l->now_from);
}

/* --- weights ------------------------------------------------------------------------------- */

static void scale_to(float *to, const float *from, size_t n, double by)
{
    const float s = (float)by;
    for (size_t i = 0; i < n; i++)
        to[i] = s * from[i];
}

/* `to`, [out, in], gets s B A added. */
static void add_product(const struct lora *l, const struct lora_adapter *a, const float *A, const float *B, float *to)
{
    scale_to(l->scaled, B, (size_t)a->out * (size_t)a->rank, a->scale);
    l->ops->linear_back_wide(to, 1, NULL, NULL, l->scaled, NULL, A, a->out, a->in, a->rank);
}

void lora_merge(const struct lora *l, const struct lora_adapter *a, const float *weights, float *tensor)
{
    add_product(l, a, weights + layout_at(l->layout, a->a)->offset, weights + layout_at(l->layout, a->b)->offset,
                tensor + (size_t)a->row * (size_t)a->in);
}

/* The weights of the block's adapters, from this process's block or from the caller's units. */
static void take_unit(struct lora *l, struct model *m, int own, bool backward)
{
    void *narrow;
    float *weights = l->weights, *grads = backward ? l->grads : NULL;
    l->now_from = 0;
    if (m->max.by_unit) {
        l->now_from = layout_at(l->layout, l->adapter[l->first[l->block]].a)->offset;
        m->units.need(m->units.arg, own, &weights, &narrow, backward ? &grads : NULL);
    }
    l->now = weights;
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

void lora_enter(struct lora *l, struct model *m, int unit, bool backward)
{
    const size_t from = (size_t)m->net->unit_from(m, unit);
    const size_t to = unit < model_last_unit(m) ? (size_t)m->net->unit_from(m, unit + 1) : l->floats;
    const bool is_block = unit != MODEL_FIRST_UNIT && unit != model_last_unit(m);
    l->block = is_block && l->own[unit - 1] >= 0 ? unit - 1 : -1;
    lora_base_get(l, from, to - from, l->unit);
    m->weights = l->unit;
    m->narrow = l->unit;
    m->grads = NULL;
    m->unit_from = from;
    if (l->block < 0)
        return;
    take_unit(l, m, l->own[l->block], backward);
    merge_block(l, m);
}

/* --- gradients ----------------------------------------------------------------------------- */

/* Columns [a->row, a->row + a->out) of dy [rows, n]. */
static const float *columns(const struct lora *l, const struct lora_adapter *a, const float *dy, int rows, int n)
{
    if (a->out == n)
        return dy;
    for (size_t r = 0; r < (size_t)rows; r++)
        memcpy(l->dy + r * (size_t)a->out, dy + r * (size_t)n + a->row, (size_t)a->out * sizeof(*dy));
    return l->dy;
}

static void back(struct lora *l, const struct lora_adapter *a, const float *dy, const float *x, int rows)
{
    const size_t n = (size_t)rows * (size_t)a->rank;
    const float *A = lora_now(l, a->a), *B = lora_now(l, a->b);
    l->ops->linear(l->u, x, A, NULL, rows, a->in, a->rank);
    scale_to(l->u, l->u, n, a->scale);
    l->ops->linear_back(l->v, lora_now_grads(l, a->b), NULL, dy, l->u, B, rows, a->rank, a->out);
    scale_to(l->v, l->v, n, a->scale);
    l->ops->linear_back(NULL, lora_now_grads(l, a->a), NULL, l->v, x, A, rows, a->in, a->rank);
}

void lora_back(struct lora *l, weight_at weight, const float *dy, const float *x, int rows, int n)
{
    for (int i = l->block < 0 ? 0 : l->first[l->block]; l->block >= 0 && i < l->first[l->block + 1]; i++)
        if (l->adapter[i].weight == weight)
            back(l, &l->adapter[i], columns(l, &l->adapter[i], dy, rows, n), x, rows);
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
