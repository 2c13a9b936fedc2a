/* SPDX-License-Identifier: Apache-2.0 */
/* lora_pass.c - merged weights for a pass, and gradients of adapters; see lora.h */
#include "engine/model/layout.h"
#include "engine/model/lora_internal.h"
#include "engine/model/model_internal.h"

const float *lora_now(const struct lora *l, int tensor)
{
    return l->now + (layout_at(l->layout, tensor)->offset - l->now_from);
}

const void *lora_now_narrow(const struct lora *l, int tensor)
{
    return (const char *)l->now_narrow + (layout_at(l->layout, tensor)->offset - l->now_from) * l->ops->narrow;
}

float *lora_now_grads(const struct lora *l, int tensor)
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
