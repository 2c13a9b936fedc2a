/* SPDX-License-Identifier: Apache-2.0 */
/* nextdit_acts.c - activations of a Next-DiT and their gradients
 *
 * A model for inference keeps one set for all its blocks; with recompute, one
 * set plus the output of each block.
 */
#include "engine/model/arena.h"
#include "engine/model/model_internal.h"
#include "engine/model/timestep_freqs.h"

/* Row counts of the largest batch, and widths. */
struct sizes {
    size_t B, M, T, C, G, E, F, S, A, P, O, heads, half, image;
};

static struct sizes sizes_of(const struct model *m)
{
    const struct model_config *c = &m->cfg;
    const size_t p = (size_t)c->patch, M = model_most_tokens(m), O = (size_t)nextdit_out_width(c);
    return (struct sizes){
        .B = (size_t)m->max.batch, .M = M, .T = model_most_rows(m), .C = (size_t)c->hidden,
        .G = (size_t)nextdit_groups(c), .E = (size_t)c->caption_channels, .F = (size_t)c->mlp_hidden,
        .S = (size_t)nextdit_second(c),
        .A = (size_t)nextdit_cond(c), .P = (size_t)model_patch_width(m), .O = O,
        .heads = (size_t)c->heads, .half = (size_t)(c->hidden / c->heads / 2),
        .image = O / (p * p) * (size_t)model_limits_pixels(&m->max),
    };
}

static void cut_top(struct nextdit_top_acts *t, struct arena *k, struct sizes z)
{
    t->real = arena_cut(k, z.M, z.half);
    t->imag = arena_cut(k, z.M, z.half);
    t->tok = arena_narrow(k, z.M, z.P);
    t->x0 = arena_cut(k, z.M, z.C);
    t->emb = arena_narrow(k, z.B, 2 * TIMESTEP_FREQS);
    t->e1 = arena_cut(k, z.B, z.A);
    t->e1s = arena_narrow(k, z.B, z.A);
    t->t = arena_cut(k, z.B, z.A);
    t->cap = arena_cut(k, z.B, z.A);
    t->c = arena_cut(k, z.B, z.A);
    t->cs = arena_narrow(k, z.B, z.A);
    t->pooled = arena_cut(k, z.B, z.E);
    t->pooled_stats = arena_cut(k, z.B, 2);
    t->pooled_y = arena_twin(k, t->pooled, z.B, z.E);
    t->pooled_n = arena_narrow(k, z.B, z.E);
    t->y = arena_twin(k, NULL, z.T, z.E);
    t->none = arena_cut(k, z.B, z.C);
    t->scale = arena_cut(k, z.B, z.C);
    t->stats = arena_cut(k, z.M, 2);
    t->h = arena_narrow(k, z.M, z.C);
    t->out = arena_cut(k, z.M, z.O);
    t->image = arena_cut(k, 1, z.image);
}

static void cut_normed(struct nextdit_normed *n, struct arena *k, size_t rows, size_t cols, bool norm)
{
    n->raw = n->normed = arena_narrow(k, rows, cols);
    if (!norm)
        return;
    n->normed = arena_narrow(k, rows, cols);
    n->stats = arena_cut(k, rows, 2);
}

static void cut_attention(struct nextdit_block_acts *a, struct arena *k, struct sizes z, bool norm)
{
    a->h1 = arena_narrow(k, z.M, z.C);
    a->h1_rstd = arena_cut(k, z.M, 1);
    a->yn = arena_narrow(k, z.T, z.E);
    a->y_rstd = arena_cut(k, z.T, 1);
    cut_normed(&a->q, k, z.M, z.C, norm);
    cut_normed(&a->k, k, z.M, z.G, norm);
    cut_normed(&a->ky, k, z.T, z.G, norm);
    a->v = arena_narrow(k, z.M, z.G);
    a->vy = arena_narrow(k, z.T, z.G);
    a->self = arena_narrow(k, z.M, z.C);
    a->cross = arena_narrow(k, z.M, z.C);
    a->both = arena_narrow(k, z.M, z.C);
    a->self_kept = arena_cut(k, z.M, z.heads);
    a->cross_kept = arena_cut(k, z.M, z.heads);
    a->attn_out = arena_narrow(k, z.M, z.C);
    a->attn_rstd = arena_cut(k, z.M, 1);
}

/* All but the residual stream. */
static void cut_block(struct nextdit_block_acts *a, struct arena *k, struct sizes z, const struct model_config *c)
{
    a->mod = arena_cut(k, z.B, 4 * z.C);
    cut_attention(a, k, z, c->qk_norm);
    a->h2 = arena_narrow(k, z.M, z.C);
    a->h2_rstd = arena_cut(k, z.M, 1);
    a->u = arena_narrow(k, z.M, z.S + z.F);
    a->g = arena_narrow(k, z.M, z.F);
    a->mlp_out = arena_narrow(k, z.M, z.C);
    a->mlp_rstd = arena_cut(k, z.M, 1);
}

void nextdit_carve(struct model *m, struct arena *k)
{
    const struct sizes z = sizes_of(m);
    struct nextdit *x = &m->next;
    cut_top(&x->top, k, z);
    for (int i = 0; i < m->cfg.depth; i++) {
        struct nextdit_block_acts *a = &x->ba[i];
        const bool shares = i > 0 && (!m->train || m->max.recompute);
        if (shares) {
            *a = x->ba[0];
        } else {
            cut_block(a, k, z, &m->cfg);
            a->x1 = m->train ? arena_cut(k, z.M, z.C) : x->top.x0;
        }
        /* Inference has one residual stream: earlier values are not needed. */
        a->x2 = m->train ? arena_cut(k, z.M, z.C) : x->top.x0;
        a->in = i == 0 ? x->top.x0 : x->ba[i - 1].x2;
    }
}

void nextdit_carve_back(struct model *m, struct arena *k)
{
    const struct sizes z = sizes_of(m);
    struct nextdit_back_acts *b = &m->next.back;
    b->dx = arena_cut(k, z.M, z.C);
    b->dxn = arena_twin(k, b->dx, z.M, z.C);
    b->dh = arena_cut(k, z.M, z.C);
    b->dhn = arena_twin(k, b->dh, z.M, z.C);
    b->dy = arena_cut(k, z.T, z.E);
    b->dyn = arena_twin(k, b->dy, z.T, z.E);
    b->dcs = arena_cut(k, z.B, z.A);
    b->dcn = arena_twin(k, b->dcs, z.B, z.A);
    b->de = arena_narrow(k, z.B, z.A);
    b->a = arena_narrow(k, z.M, z.C);
    b->b = arena_narrow(k, z.M, z.C);
    b->c = arena_narrow(k, z.M, z.C);
    b->dk = arena_narrow(k, z.M, z.G);
    b->dv = arena_narrow(k, z.M, z.G);
    b->dky = arena_narrow(k, z.T, z.G);
    b->dvy = arena_narrow(k, z.T, z.G);
    b->dg = arena_narrow(k, z.M, z.F);
    b->du = arena_narrow(k, z.M, z.S + z.F);
    b->dmod = arena_cut(k, z.B, 4 * z.C);
    b->dmodn = arena_twin(k, b->dmod, z.B, 4 * z.C);
    b->dscale = arena_cut(k, z.B, z.C);
    b->dscalen = arena_twin(k, b->dscale, z.B, z.C);
    b->dnone = arena_cut(k, z.B, z.C);
    b->dpool = arena_cut(k, z.B, z.E);
    b->dpooln = arena_twin(k, b->dpool, z.B, z.E);
    b->dout = arena_narrow(k, z.M, z.O);
    b->dimage = arena_cut(k, 1, z.image);
}
