/* SPDX-License-Identifier: Apache-2.0 */
/* nextdit_acts.c - the activations of a Next-DiT, and what comes back
 *
 * A model that only infers keeps one set for all its blocks, one that recomputes
 * a set and the output of each block.
 */
#include "engine/model/arena.h"
#include "engine/model/model_internal.h"
#include "engine/model/timestep_freqs.h"

/* Row counts of the largest batch, and widths. */
struct sizes {
    size_t B, M, T, C, G, E, F, A, P, O, heads, half, image;
};

static struct sizes sizes_of(const struct model *m)
{
    const struct model_config *c = &m->cfg;
    const size_t p = (size_t)c->patch, M = model_most_tokens(m), O = (size_t)next_out_width(c);
    return (struct sizes){
        .B = (size_t)m->max.batch, .M = M, .T = model_most_rows(m), .C = (size_t)c->hidden,
        .G = (size_t)next_groups(c), .E = (size_t)c->caption_channels, .F = (size_t)c->mlp_hidden,
        .A = (size_t)next_cond(c), .P = (size_t)model_patch_width(m), .O = O,
        .heads = (size_t)c->heads, .half = (size_t)(c->hidden / c->heads / 2),
        .image = O / (p * p) * (size_t)model_limits_pixels(&m->max),
    };
}

static void cut_top(struct next_top_acts *t, struct knife *k, struct sizes z)
{
    t->real = knife_cut(k, z.M, z.half);
    t->imag = knife_cut(k, z.M, z.half);
    t->tok = knife_narrow(k, z.M, z.P);
    t->x0 = knife_cut(k, z.M, z.C);
    t->emb = knife_narrow(k, z.B, 2 * TIMESTEP_FREQS);
    t->e1 = knife_cut(k, z.B, z.A);
    t->e1s = knife_narrow(k, z.B, z.A);
    t->t = knife_cut(k, z.B, z.A);
    t->cap = knife_cut(k, z.B, z.A);
    t->c = knife_cut(k, z.B, z.A);
    t->cs = knife_narrow(k, z.B, z.A);
    t->pooled = knife_cut(k, z.B, z.E);
    t->pooled_stats = knife_cut(k, z.B, 2);
    t->pooled_n = knife_narrow(k, z.B, z.E);
    t->y = knife_twin(k, NULL, z.T, z.E);
    t->none = knife_cut(k, z.B, z.C);
    t->scale = knife_cut(k, z.B, z.C);
    t->stats = knife_cut(k, z.M, 2);
    t->h = knife_narrow(k, z.M, z.C);
    t->out = knife_cut(k, z.M, z.O);
    t->image = knife_cut(k, 1, z.image);
}

static void cut_normed(struct next_normed *n, struct knife *k, size_t rows, size_t cols, bool norm)
{
    n->raw = n->normed = knife_narrow(k, rows, cols);
    if (!norm)
        return;
    n->normed = knife_narrow(k, rows, cols);
    n->stats = knife_cut(k, rows, 2);
}

static void cut_attention(struct next_block_acts *a, struct knife *k, struct sizes z, bool norm)
{
    a->h1 = knife_narrow(k, z.M, z.C);
    a->h1_rstd = knife_cut(k, z.M, 1);
    a->yn = knife_narrow(k, z.T, z.E);
    a->y_rstd = knife_cut(k, z.T, 1);
    cut_normed(&a->q, k, z.M, z.C, norm);
    cut_normed(&a->k, k, z.M, z.G, norm);
    cut_normed(&a->ky, k, z.T, z.G, norm);
    a->v = knife_narrow(k, z.M, z.G);
    a->vy = knife_narrow(k, z.T, z.G);
    a->self = knife_narrow(k, z.M, z.C);
    a->cross = knife_narrow(k, z.M, z.C);
    a->both = knife_narrow(k, z.M, z.C);
    a->self_kept = knife_cut(k, z.M, z.heads);
    a->cross_kept = knife_cut(k, z.M, z.heads);
    a->attn_out = knife_narrow(k, z.M, z.C);
    a->attn_rstd = knife_cut(k, z.M, 1);
}

/* All but the residual stream. */
static void cut_block(struct next_block_acts *a, struct knife *k, struct sizes z,
                      const struct model_config *c)
{
    a->mod = knife_cut(k, z.B, 4 * z.C);
    cut_attention(a, k, z, c->qk_norm);
    a->h2 = knife_narrow(k, z.M, z.C);
    a->h2_rstd = knife_cut(k, z.M, 1);
    a->u1 = knife_narrow(k, z.M, z.F);
    a->u3 = knife_narrow(k, z.M, z.F);
    a->g = knife_narrow(k, z.M, z.F);
    a->mlp_out = knife_narrow(k, z.M, z.C);
    a->mlp_rstd = knife_cut(k, z.M, 1);
}

void next_carve(struct model *m, struct knife *k)
{
    const struct sizes z = sizes_of(m);
    struct next *x = &m->next;
    cut_top(&x->top, k, z);
    for (int i = 0; i < m->cfg.depth; i++) {
        struct next_block_acts *a = &x->ba[i];
        const bool shares = i > 0 && (!m->train || m->max.recompute);
        if (shares) {
            *a = x->ba[0];
        } else {
            cut_block(a, k, z, &m->cfg);
            a->x1 = m->train ? knife_cut(k, z.M, z.C) : x->top.x0;
        }
        /* What infers has one residual stream: nobody needs it as it was. */
        a->x2 = m->train ? knife_cut(k, z.M, z.C) : x->top.x0;
        a->in = i == 0 ? x->top.x0 : x->ba[i - 1].x2;
    }
}

void next_carve_back(struct model *m, struct knife *k)
{
    const struct sizes z = sizes_of(m);
    struct next_back_acts *b = &m->next.back;
    b->dx = knife_cut(k, z.M, z.C);
    b->dxn = knife_twin(k, b->dx, z.M, z.C);
    b->dh = knife_cut(k, z.M, z.C);
    b->dhn = knife_twin(k, b->dh, z.M, z.C);
    b->dy = knife_cut(k, z.T, z.E);
    b->dyn = knife_twin(k, b->dy, z.T, z.E);
    b->dcs = knife_cut(k, z.B, z.A);
    b->dcn = knife_twin(k, b->dcs, z.B, z.A);
    b->de = knife_narrow(k, z.B, z.A);
    b->a = knife_narrow(k, z.M, z.C);
    b->b = knife_narrow(k, z.M, z.C);
    b->c = knife_narrow(k, z.M, z.C);
    b->dk = knife_narrow(k, z.M, z.G);
    b->dv = knife_narrow(k, z.M, z.G);
    b->dky = knife_narrow(k, z.T, z.G);
    b->dvy = knife_narrow(k, z.T, z.G);
    b->dg = knife_narrow(k, z.M, z.F);
    b->du1 = knife_narrow(k, z.M, z.F);
    b->du3 = knife_narrow(k, z.M, z.F);
    b->dmod = knife_cut(k, z.B, 4 * z.C);
    b->dmodn = knife_twin(k, b->dmod, z.B, 4 * z.C);
    b->dscale = knife_cut(k, z.B, z.C);
    b->dscalen = knife_twin(k, b->dscale, z.B, z.C);
    b->dnone = knife_cut(k, z.B, z.C);
    b->dpool = knife_cut(k, z.B, z.E);
    b->dpooln = knife_twin(k, b->dpool, z.B, z.E);
    b->dout = knife_narrow(k, z.M, z.O);
    b->dimage = knife_cut(k, 1, z.image);
}
