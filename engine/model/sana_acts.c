/* SPDX-License-Identifier: Apache-2.0 */
/* sana_acts.c - activations of SanaMS and their gradients
 *
 * A model for inference keeps one set for all its blocks; with recompute, one
 * set plus the output of each block.
 */
#include "engine/model/arena.h"
#include "engine/model/model_internal.h"
#include "engine/model/timestep_freqs.h"

/* Row counts of the largest batch. */
struct sizes {
    size_t B, M, T, C, D, F, P, prob;
};

static struct sizes sizes_of(const struct model *m)
{
    const struct model_config *c = &m->cfg;
    const size_t B = (size_t)m->max.batch, M = model_most_tokens(m);
    return (struct sizes){
        .B = B, .M = M, .T = model_most_rows(m), .C = (size_t)c->hidden,
        .D = (size_t)c->caption_channels, .F = (size_t)c->mlp_hidden,
        .P = (size_t)model_patch_width(m),
        .prob = (size_t)c->heads * M * (m->ops->keeps ? (size_t)m->max.text : 2),
    };
}

static void cut_top(struct sana_top_acts *t, struct arena *k, struct sizes z, bool y_norm)
{
    t->tok = arena_narrow(k, z.M, z.P);
    t->x0 = arena_cut(k, z.M, z.C);
    t->emb = arena_narrow(k, z.B, 2 * TIMESTEP_FREQS);
    t->e1 = arena_cut(k, z.B, z.C);
    t->e1s = arena_narrow(k, z.B, z.C);
    t->t = arena_cut(k, z.B, z.C);
    t->ts = arena_narrow(k, z.B, z.C);
    t->t0 = arena_cut(k, z.B, 6 * z.C);
    t->yn = arena_twin(k, NULL, z.T, z.D);
    t->y1 = arena_narrow(k, z.T, z.C);
    t->y1g = arena_narrow(k, z.T, z.C);
    t->y2 = arena_narrow(k, z.T, z.C);
    t->y = y_norm ? arena_narrow(k, z.T, z.C) : t->y2;
    t->y_rstd = arena_cut(k, z.T, 1);
    t->mod = arena_cut(k, z.B, 2 * z.C);
    t->stats = arena_cut(k, z.M, 2);
    t->h = arena_narrow(k, z.M, z.C);
    t->out = arena_cut(k, z.M, z.P);
}

static void cut_attention(struct sana_block_acts *a, struct arena *k, struct sizes z, const struct model_config *c)
{
    const size_t hd = (size_t)c->linear_head_dim;
    a->stats1 = arena_cut(k, z.M, 2);
    a->h1 = arena_narrow(k, z.M, z.C);
    a->qkv = arena_narrow(k, z.M, 3 * z.C);
    if (c->qk_norm) {
        a->qk = arena_narrow(k, z.M, 2 * z.C);
        a->q_rstd = arena_cut(k, z.M, 1);
        a->k_rstd = arena_cut(k, z.M, 1);
    }
    a->lin.vk = arena_cut(k, z.B * (z.C / hd), (hd + 1) * hd);
    a->lin.den = k->keeps ? arena_cut(k, z.M, z.C / hd) : NULL;
    a->attn = arena_narrow(k, z.M, z.C);
    a->attn_out = arena_narrow(k, z.M, z.C);
    a->x1 = arena_cut(k, z.M, z.C);
    a->x1n = arena_twin(k, a->x1, z.M, z.C);
    a->cq = arena_narrow(k, z.M, z.C);
    a->ckv = arena_narrow(k, z.T, 2 * z.C);
    if (c->cross_norm) {
        a->cqn = arena_narrow(k, z.M, z.C);
        a->cq_rstd = arena_cut(k, z.M, 1);
        a->ckn = arena_narrow(k, z.T, z.C);
        a->ck_rstd = arena_cut(k, z.T, 1);
    }
    a->prob = arena_cut(k, 1, z.prob);
    a->cross = arena_narrow(k, z.M, z.C);
    a->cross_out = arena_narrow(k, z.M, z.C);
}

/* All but the modulation and the output. */
static void cut_block(struct sana_block_acts *a, struct arena *k, struct sizes z, const struct model_config *c)
{
    cut_attention(a, k, z, c);
    a->x2 = arena_cut(k, z.M, z.C);
    a->stats2 = arena_cut(k, z.M, 2);
    a->h2 = arena_narrow(k, z.M, z.C);
    a->u = arena_narrow(k, z.M, 2 * z.F);
    if (k->keeps) {
        a->glumbconv.s = arena_narrow(k, z.M, 2 * z.F);
        a->glumbconv.d = arena_narrow(k, z.M, 2 * z.F);
    }
    a->g = arena_narrow(k, z.M, z.F);
    a->mlp_out = arena_narrow(k, z.M, z.C);
}

static void cut_back(struct sana_back_acts *b, struct arena *k, struct sizes z)
{
    b->dx = arena_cut(k, z.M, z.C);
    b->dxn = arena_twin(k, b->dx, z.M, z.C);
    b->a = arena_narrow(k, z.M, z.C);
    b->b = arena_narrow(k, z.M, z.C);
    b->dqkv = arena_narrow(k, z.M, 3 * z.C);
    b->dkv = arena_narrow(k, z.T, 2 * z.C);
    b->dy = arena_cut(k, z.T, z.C);
    b->dyn = arena_twin(k, b->dy, z.T, z.C);
    b->ya = arena_narrow(k, z.T, z.C);
    b->work = arena_cut(k, 1, z.prob);
    b->du = arena_narrow(k, z.M, 2 * z.F);
    b->dd = k->keeps ? arena_narrow(k, z.M, 2 * z.F) : NULL;
    b->dg = arena_narrow(k, z.M, z.F);
    b->dmod[0] = arena_cut(k, z.B, 6 * z.C);
    b->dmod[1] = arena_cut(k, z.B, 6 * z.C);
    b->dtop = arena_cut(k, z.B, 2 * z.C);
    b->dt0 = arena_cut(k, z.B, 6 * z.C);
    b->dt0n = arena_twin(k, b->dt0, z.B, 6 * z.C);
    b->dt = arena_cut(k, z.B, z.C);
    b->dtn = arena_twin(k, b->dt, z.B, z.C);
    b->ta = arena_narrow(k, z.B, z.C);
    b->dout = arena_narrow(k, z.M, z.P);
}

void sana_carve(struct model *m, struct arena *k)
{
    const struct sizes z = sizes_of(m);
    struct sana *s = &m->sana;
    cut_top(&s->top, k, z, m->cfg.y_norm);
    for (int i = 0; i < m->cfg.depth; i++) {
        struct sana_block_acts *a = &s->ba[i];
        const bool shares = i > 0 && (!m->train || m->max.recompute);
        if (shares)
            *a = s->ba[0];
        else
            cut_block(a, k, z, &m->cfg);
        a->mod = arena_cut(k, z.B, 6 * z.C); /* of two blocks at a time */
        if (i == 0 || m->train)
            a->x3 = arena_cut(k, z.M, z.C);
        /* Inference has one residual stream: earlier values are not needed. */
        a->in = !m->train ? a->x3 : i == 0 ? s->top.x0 : s->ba[i - 1].x3;
    }
    if (!m->train)
        s->top.x0 = s->ba[0].x3;
}

void sana_carve_back(struct model *m, struct arena *k)
{
    cut_back(&m->sana.back, k, sizes_of(m));
}
