/* SPDX-License-Identifier: Apache-2.0 */
/* model_acts.c - two blocks of memory, carved into activations and what comes back
 *
 * Carving runs twice: once from nothing to learn the size, once from the block.
 * A model that only infers keeps one set for all its blocks, one that recomputes
 * a set and the output of each block.
 */
#include "engine/backend.h"
#include "engine/err.h"
#include "engine/model_parts.h"
#include "engine/timestep_freqs.h"

enum { ALIGN_FLOATS = 16 };

struct knife {
    float *base;   /* NULL while measuring */
    size_t used;
    size_t narrow; /* bytes of a number in a narrow array */
    bool   keeps;  /* see kernels.h */
};

static float *cut(struct knife *k, size_t rows, size_t cols)
{
    float *p = k->base ? k->base + k->used : NULL;
    k->used += (rows * cols + ALIGN_FLOATS - 1) / ALIGN_FLOATS * ALIGN_FLOATS;
    return p;
}

/* A narrow array. */
static void *cut_n(struct knife *k, size_t rows, size_t cols)
{
    return cut(k, (rows * cols * k->narrow + sizeof(float) - 1) / sizeof(float), 1);
}

/* The narrow twin of an array. */
static void *cut_twin(struct knife *k, float *of, size_t rows, size_t cols)
{
    return k->narrow == sizeof(float) ? of : cut_n(k, rows, cols);
}

/* Row counts of the largest batch. */
struct sizes {
    size_t B, M, T, C, D, F, P, prob;
};

static struct sizes sizes_of(const struct model *m)
{
    const struct model_config *c = &m->cfg;
    const size_t B = (size_t)m->max.batch, p = (size_t)c->patch;
    const size_t M = (size_t)model_limits_pixels(&m->max) / (p * p);
    return (struct sizes){
        .B = B, .M = M, .T = B * (size_t)m->max.text, .C = (size_t)c->hidden,
        .D = (size_t)c->caption_channels, .F = (size_t)c->mlp_hidden,
        .P = (size_t)c->latent_channels * p * p,
        .prob = (size_t)c->heads * M * (m->ops->keeps ? (size_t)m->max.text : 2),
    };
}

static void cut_top(struct top_acts *t, struct knife *k, struct sizes z, bool y_norm)
{
    t->tok = cut_n(k, z.M, z.P);
    t->x0 = cut(k, z.M, z.C);
    t->emb = cut_n(k, z.B, 2 * TIMESTEP_FREQS);
    t->e1 = cut(k, z.B, z.C);
    t->e1s = cut_n(k, z.B, z.C);
    t->t = cut(k, z.B, z.C);
    t->ts = cut_n(k, z.B, z.C);
    t->t0 = cut(k, z.B, 6 * z.C);
    t->yn = cut_twin(k, NULL, z.T, z.D);
    t->y1 = cut_n(k, z.T, z.C);
    t->y1g = cut_n(k, z.T, z.C);
    t->y2 = cut_n(k, z.T, z.C);
    t->y = y_norm ? cut_n(k, z.T, z.C) : t->y2;
    t->y_rstd = cut(k, z.T, 1);
    t->mod = cut(k, z.B, 2 * z.C);
    t->stats = cut(k, z.M, 2);
    t->h = cut_n(k, z.M, z.C);
    t->out = cut(k, z.M, z.P);
}

static void cut_attention(struct block_acts *a, struct knife *k, struct sizes z,
                          const struct model_config *c)
{
    const size_t hd = (size_t)c->linear_head_dim;
    a->stats1 = cut(k, z.M, 2);
    a->h1 = cut_n(k, z.M, z.C);
    a->qkv = cut_n(k, z.M, 3 * z.C);
    if (c->qk_norm) {
        a->qk = cut_n(k, z.M, 2 * z.C);
        a->q_rstd = cut(k, z.M, 1);
        a->k_rstd = cut(k, z.M, 1);
    }
    a->lin.vk = cut(k, z.B * (z.C / hd), (hd + 1) * hd);
    a->lin.den = k->keeps ? cut(k, z.M, z.C / hd) : NULL;
    a->attn = cut_n(k, z.M, z.C);
    a->attn_out = cut_n(k, z.M, z.C);
    a->x1 = cut(k, z.M, z.C);
    a->x1n = cut_twin(k, a->x1, z.M, z.C);
    a->cq = cut_n(k, z.M, z.C);
    a->ckv = cut_n(k, z.T, 2 * z.C);
    if (c->cross_norm) {
        a->cqn = cut_n(k, z.M, z.C);
        a->cq_rstd = cut(k, z.M, 1);
        a->ckn = cut_n(k, z.T, z.C);
        a->ck_rstd = cut(k, z.T, 1);
    }
    a->prob = cut(k, 1, z.prob);
    a->cross = cut_n(k, z.M, z.C);
    a->cross_out = cut_n(k, z.M, z.C);
}

/* All but the modulation and the output. */
static void cut_block(struct block_acts *a, struct knife *k, struct sizes z,
                      const struct model_config *c)
{
    cut_attention(a, k, z, c);
    a->x2 = cut(k, z.M, z.C);
    a->stats2 = cut(k, z.M, 2);
    a->h2 = cut_n(k, z.M, z.C);
    a->u = cut_n(k, z.M, 2 * z.F);
    if (k->keeps) {
        a->mix.s = cut_n(k, z.M, 2 * z.F);
        a->mix.d = cut_n(k, z.M, 2 * z.F);
    }
    a->g = cut_n(k, z.M, z.F);
    a->mlp_out = cut_n(k, z.M, z.C);
}

static void cut_back(struct back_acts *b, struct knife *k, struct sizes z)
{
    b->dx = cut(k, z.M, z.C);
    b->dxn = cut_twin(k, b->dx, z.M, z.C);
    b->a = cut_n(k, z.M, z.C);
    b->b = cut_n(k, z.M, z.C);
    b->dqkv = cut_n(k, z.M, 3 * z.C);
    b->dkv = cut_n(k, z.T, 2 * z.C);
    b->dy = cut(k, z.T, z.C);
    b->dyn = cut_twin(k, b->dy, z.T, z.C);
    b->ya = cut_n(k, z.T, z.C);
    b->work = cut(k, 1, z.prob);
    b->du = cut_n(k, z.M, 2 * z.F);
    b->dd = k->keeps ? cut_n(k, z.M, 2 * z.F) : NULL;
    b->dg = cut_n(k, z.M, z.F);
    b->dmod[0] = cut(k, z.B, 6 * z.C);
    b->dmod[1] = cut(k, z.B, 6 * z.C);
    b->dtop = cut(k, z.B, 2 * z.C);
    b->dt0 = cut(k, z.B, 6 * z.C);
    b->dt0n = cut_twin(k, b->dt0, z.B, 6 * z.C);
    b->dt = cut(k, z.B, z.C);
    b->dtn = cut_twin(k, b->dt, z.B, z.C);
    b->ta = cut_n(k, z.B, z.C);
    b->dout = cut_n(k, z.M, z.P);
}

static size_t carve(struct model *m, float *base)
{
    const struct sizes z = sizes_of(m);
    struct knife k = {.base = base, .narrow = m->ops->narrow, .keeps = m->ops->keeps};
    cut_top(&m->top, &k, z, m->cfg.y_norm);
    for (int i = 0; i < m->cfg.depth; i++) {
        struct block_acts *a = &m->ba[i];
        const bool shares = i > 0 && (!m->train || m->max.recompute);
        if (shares)
            *a = m->ba[0];
        else
            cut_block(a, &k, z, &m->cfg);
        a->mod = cut(&k, z.B, 6 * z.C); /* of two blocks at a time */
        if (i == 0 || m->train)
            a->x3 = cut(&k, z.M, z.C);
        /* What infers has one residual stream: nobody needs it as it was. */
        a->in = !m->train ? a->x3 : i == 0 ? m->top.x0 : m->ba[i - 1].x3;
    }
    if (!m->train)
        m->top.x0 = m->ba[0].x3;
    return k.used;
}

static size_t carve_back(struct model *m, float *base)
{
    struct knife k = {.base = base, .narrow = m->ops->narrow, .keeps = m->ops->keeps};
    if (m->train)
        cut_back(&m->back, &k, sizes_of(m));
    return k.used;
}

int model_carve(struct model *m, struct err *err)
{
    const double most = 1e15; /* floats; far beyond any machine, far below overflow */
    const struct sizes z = sizes_of(m);
    if ((double)z.M * (double)(z.C + z.F + z.P) * (double)m->cfg.depth > most ||
        (double)z.M * m->max.text * m->cfg.heads * m->cfg.depth > most)
        return err_set(err, ERR_USAGE, "a batch of %d x %d x %d is more than memory can address",
                       m->max.batch, m->max.height, m->max.width);
    m->acts_floats = carve(m, NULL);
    m->back_floats = carve_back(m, NULL);
    void *acts = NULL, *back = NULL;
    if (backend_alloc(m->ops, &acts, m->acts_floats * sizeof(float), USE_ACTIVATIONS, err) < 0)
        return -1;
    m->acts = acts;
    carve(m, m->acts);
    if (!m->train)
        return 0;
    if (backend_alloc(m->ops, &back, m->back_floats * sizeof(float), USE_BACKWARD, err) < 0)
        return -1;
    m->back_acts = back;
    carve_back(m, m->back_acts);
    return 0;
}
