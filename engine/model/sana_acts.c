/* SPDX-License-Identifier: Apache-2.0 */
/* sana_acts.c - the activations of SanaMS, and what comes back
 *
 * A model that only infers keeps one set for all its blocks, one that recomputes
 * a set and the output of each block.
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

static void cut_top(struct sana_top_acts *t, struct knife *k, struct sizes z, bool y_norm)
{
    t->tok = knife_narrow(k, z.M, z.P);
    t->x0 = knife_cut(k, z.M, z.C);
    t->emb = knife_narrow(k, z.B, 2 * TIMESTEP_FREQS);
    t->e1 = knife_cut(k, z.B, z.C);
    t->e1s = knife_narrow(k, z.B, z.C);
    t->t = knife_cut(k, z.B, z.C);
    t->ts = knife_narrow(k, z.B, z.C);
    t->t0 = knife_cut(k, z.B, 6 * z.C);
    t->yn = knife_twin(k, NULL, z.T, z.D);
    t->y1 = knife_narrow(k, z.T, z.C);
    t->y1g = knife_narrow(k, z.T, z.C);
    t->y2 = knife_narrow(k, z.T, z.C);
    t->y = y_norm ? knife_narrow(k, z.T, z.C) : t->y2;
    t->y_rstd = knife_cut(k, z.T, 1);
    t->mod = knife_cut(k, z.B, 2 * z.C);
    t->stats = knife_cut(k, z.M, 2);
    t->h = knife_narrow(k, z.M, z.C);
    t->out = knife_cut(k, z.M, z.P);
}

static void cut_attention(struct sana_block_acts *a, struct knife *k, struct sizes z,
                          const struct model_config *c)
{
    const size_t hd = (size_t)c->linear_head_dim;
    a->stats1 = knife_cut(k, z.M, 2);
    a->h1 = knife_narrow(k, z.M, z.C);
    a->qkv = knife_narrow(k, z.M, 3 * z.C);
    if (c->qk_norm) {
        a->qk = knife_narrow(k, z.M, 2 * z.C);
        a->q_rstd = knife_cut(k, z.M, 1);
        a->k_rstd = knife_cut(k, z.M, 1);
    }
    a->lin.vk = knife_cut(k, z.B * (z.C / hd), (hd + 1) * hd);
    a->lin.den = k->keeps ? knife_cut(k, z.M, z.C / hd) : NULL;
    a->attn = knife_narrow(k, z.M, z.C);
    a->attn_out = knife_narrow(k, z.M, z.C);
    a->x1 = knife_cut(k, z.M, z.C);
    a->x1n = knife_twin(k, a->x1, z.M, z.C);
    a->cq = knife_narrow(k, z.M, z.C);
    a->ckv = knife_narrow(k, z.T, 2 * z.C);
    if (c->cross_norm) {
        a->cqn = knife_narrow(k, z.M, z.C);
        a->cq_rstd = knife_cut(k, z.M, 1);
        a->ckn = knife_narrow(k, z.T, z.C);
        a->ck_rstd = knife_cut(k, z.T, 1);
    }
    a->prob = knife_cut(k, 1, z.prob);
    a->cross = knife_narrow(k, z.M, z.C);
    a->cross_out = knife_narrow(k, z.M, z.C);
}

/* All but the modulation and the output. */
static void cut_block(struct sana_block_acts *a, struct knife *k, struct sizes z,
                      const struct model_config *c)
{
    cut_attention(a, k, z, c);
    a->x2 = knife_cut(k, z.M, z.C);
    a->stats2 = knife_cut(k, z.M, 2);
    a->h2 = knife_narrow(k, z.M, z.C);
    a->u = knife_narrow(k, z.M, 2 * z.F);
    if (k->keeps) {
        a->mix.s = knife_narrow(k, z.M, 2 * z.F);
        a->mix.d = knife_narrow(k, z.M, 2 * z.F);
    }
    a->g = knife_narrow(k, z.M, z.F);
    a->mlp_out = knife_narrow(k, z.M, z.C);
}

static void cut_back(struct sana_back_acts *b, struct knife *k, struct sizes z)
{
    b->dx = knife_cut(k, z.M, z.C);
    b->dxn = knife_twin(k, b->dx, z.M, z.C);
    b->a = knife_narrow(k, z.M, z.C);
    b->b = knife_narrow(k, z.M, z.C);
    b->dqkv = knife_narrow(k, z.M, 3 * z.C);
    b->dkv = knife_narrow(k, z.T, 2 * z.C);
    b->dy = knife_cut(k, z.T, z.C);
    b->dyn = knife_twin(k, b->dy, z.T, z.C);
    b->ya = knife_narrow(k, z.T, z.C);
    b->work = knife_cut(k, 1, z.prob);
    b->du = knife_narrow(k, z.M, 2 * z.F);
    b->dd = k->keeps ? knife_narrow(k, z.M, 2 * z.F) : NULL;
    b->dg = knife_narrow(k, z.M, z.F);
    b->dmod[0] = knife_cut(k, z.B, 6 * z.C);
    b->dmod[1] = knife_cut(k, z.B, 6 * z.C);
    b->dtop = knife_cut(k, z.B, 2 * z.C);
    b->dt0 = knife_cut(k, z.B, 6 * z.C);
    b->dt0n = knife_twin(k, b->dt0, z.B, 6 * z.C);
    b->dt = knife_cut(k, z.B, z.C);
    b->dtn = knife_twin(k, b->dt, z.B, z.C);
    b->ta = knife_narrow(k, z.B, z.C);
    b->dout = knife_narrow(k, z.M, z.P);
}

void sana_carve(struct model *m, struct knife *k)
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
        a->mod = knife_cut(k, z.B, 6 * z.C); /* of two blocks at a time */
        if (i == 0 || m->train)
            a->x3 = knife_cut(k, z.M, z.C);
        /* What infers has one residual stream: nobody needs it as it was. */
        a->in = !m->train ? a->x3 : i == 0 ? s->top.x0 : s->ba[i - 1].x3;
    }
    if (!m->train)
        s->top.x0 = s->ba[0].x3;
}

void sana_carve_back(struct model *m, struct knife *k)
{
    cut_back(&m->sana.back, k, sizes_of(m));
}
