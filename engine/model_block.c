/* SPDX-License-Identifier: Apache-2.0 */
/* model_block.c - one transformer block, forward and backward
 *
 *   x1 = x  + gate1 * proj(linear_attention(qkv(LN(x) (1 + scale1) + shift1)))
 *   x2 = x1 + proj(cross_attention(q(x1), kv(y)))          no norm, no gate here
 *   x3 = x2 + gate2 * point(glu(depthwise(silu(inverted(LN(x2) (1 + scale2) + shift2)))))
 *
 * Backward walks the same lines upwards; `dx` is the gradient of the residual
 * stream all the way.
 */
#include "engine/model_parts.h"

#define LN_EPS    1e-6f
#define QK_EPS    1e-5f
#define CROSS_EPS 1e-6f

/* Rows of scale_shift_table. */
enum { SHIFT1, SCALE1, GATE1, SHIFT2, SCALE2, GATE2, MOD_ROWS };

static struct kern_heads linear_heads(const struct model *m)
{
    const int dim = m->cfg.linear_head_dim;
    return (struct kern_heads){m->batch, m->tokens, m->cfg.hidden / dim, dim};
}

static struct kern_heads cross_heads(const struct model *m)
{
    return (struct kern_heads){m->batch, m->tokens, m->cfg.heads, m->cfg.hidden / m->cfg.heads};
}

static struct kern_image mlp_image(const struct model *m)
{
    return (struct kern_image){m->batch, m->height / m->cfg.patch, m->width / m->cfg.patch,
                               2 * m->cfg.mlp_hidden};
}

/* Where linear attention finds q and k: in place after ReLU, or normed apart. */
static const float *lin_qk(const struct model *m, const struct block_acts *a, int *ld)
{
    *ld = m->cfg.qk_norm ? 2 * m->cfg.hidden : 3 * m->cfg.hidden;
    return m->cfg.qk_norm ? a->qk : a->qkv;
}

static void self_forward(struct model *m, const struct block_weights *w, struct block_acts *a)
{
    const struct kern_ops *k = m->ops;
    const int C = m->cfg.hidden, M = m->batch * m->tokens, ld = MOD_ROWS * C;
    k->norm_mod(a->h1, a->stats1, a->in, a->mod + SHIFT1 * C, a->mod + SCALE1 * C, ld, m->batch,
                m->tokens, C, LN_EPS);
    k->linear(a->qkv, a->h1, model_w(m, w->qkv), NULL, M, C, 3 * C);
    if (m->cfg.qk_norm) {
        k->rms_norm(a->qk, 2 * C, a->q_rstd, a->qkv, 3 * C, model_w(m, w->q_norm), M, C, QK_EPS);
        k->rms_norm(a->qk + C, 2 * C, a->k_rstd, a->qkv + C, 3 * C, model_w(m, w->k_norm), M, C,
                    QK_EPS);
        k->relu(a->qk, 2 * C, a->qk, 2 * C, M, 2 * C);
    } else {
        k->relu(a->qkv, 3 * C, a->qkv, 3 * C, M, 2 * C);
    }
    int ldqk;
    const float *qk = lin_qk(m, a, &ldqk);
    k->lin_attn(a->attn, C, a->lin, qk, qk + C, ldqk, a->qkv + 2 * C, 3 * C, linear_heads(m));
    k->linear(a->attn_out, a->attn, model_w(m, w->proj), model_w(m, w->proj_b), M, C, C);
    k->gate(a->x1, a->in, a->mod + GATE1 * C, ld, a->attn_out, m->batch, m->tokens, C);
}

static void cross_forward(struct model *m, const struct block_weights *w, struct block_acts *a,
                          const float *y, const float *mask)
{
    const struct kern_ops *k = m->ops;
    const int C = m->cfg.hidden, M = m->batch * m->tokens, T = m->batch * m->text;
    const float *q = a->cq, *key = a->ckv;
    k->linear(a->cq, a->x1, model_w(m, w->cross_q), model_w(m, w->cross_q_b), M, C, C);
    k->linear(a->ckv, y, model_w(m, w->cross_kv), model_w(m, w->cross_kv_b), T, C, 2 * C);
    if (m->cfg.cross_norm) {
        k->rms_norm(a->cqn, C, a->cq_rstd, a->cq, C, model_w(m, w->cross_q_norm), M, C, CROSS_EPS);
        k->rms_norm(a->ckn, C, a->ck_rstd, a->ckv, 2 * C, model_w(m, w->cross_k_norm), T, C,
                    CROSS_EPS);
        q = a->cqn;
        key = a->ckn;
    }
    k->cross_attn(a->cross, a->prob, q, key, m->cfg.cross_norm ? C : 2 * C, a->ckv + C, 2 * C,
                  mask, m->text, cross_heads(m));
    k->linear(a->cross_out, a->cross, model_w(m, w->cross_proj), model_w(m, w->cross_proj_b), M, C,
              C);
    k->add(a->x2, a->x1, a->cross_out, (size_t)M * (size_t)C);
}

static void mlp_forward(struct model *m, const struct block_weights *w, struct block_acts *a)
{
    const struct kern_ops *k = m->ops;
    const int C = m->cfg.hidden, F = m->cfg.mlp_hidden, M = m->batch * m->tokens;
    const int ld = MOD_ROWS * C;
    k->norm_mod(a->h2, a->stats2, a->x2, a->mod + SHIFT2 * C, a->mod + SCALE2 * C, ld, m->batch,
                m->tokens, C, LN_EPS);
    k->linear(a->u, a->h2, model_w(m, w->inv), model_w(m, w->inv_b), M, C, 2 * F);
    k->silu(a->s, a->u, (size_t)M * 2 * (size_t)F);
    k->depthwise(a->d, a->s, model_w(m, w->depth), model_w(m, w->depth_b), mlp_image(m));
    k->glu(a->g, a->d, M, F);
    k->linear(a->mlp_out, a->g, model_w(m, w->point), NULL, M, F, C);
    k->gate(a->x3, a->x2, a->mod + GATE2 * C, ld, a->mlp_out, m->batch, m->tokens, C);
}

void block_forward(struct model *m, int i, const float *y, const float *mask)
{
    const struct block_weights *w = &m->bw[i];
    struct block_acts *a = &m->ba[i];
    const int C = m->cfg.hidden;
    m->ops->mod_add(a->mod, model_w(m, w->table), m->top.t0, MOD_ROWS * C, C, m->batch, MOD_ROWS,
                    C);
    self_forward(m, w, a);
    cross_forward(m, w, a, y, mask);
    mlp_forward(m, w, a);
}

static void mlp_backward(struct model *m, const struct block_weights *w, const struct block_acts *a)
{
    const struct kern_ops *k = m->ops;
    struct back_acts *d = &m->back;
    const int C = m->cfg.hidden, F = m->cfg.mlp_hidden, M = m->batch * m->tokens;
    const int ld = MOD_ROWS * C;
    k->gate_back(d->a, d->dmod + GATE2 * C, d->dx, a->mod + GATE2 * C, ld, a->mlp_out, m->batch,
                 m->tokens, C);
    k->linear_back(d->dg, 0, model_g(m, w->point), NULL, d->a, a->g, model_w(m, w->point), M, F,
                   C);
    k->glu_back(d->dd, d->dg, a->d, M, F);
    k->depthwise_back(d->du, model_g(m, w->depth), model_g(m, w->depth_b), d->dd, a->s,
                      model_w(m, w->depth), mlp_image(m));
    k->silu_back(d->du, d->du, a->u, (size_t)M * 2 * (size_t)F);
    k->linear_back(d->a, 0, model_g(m, w->inv), model_g(m, w->inv_b), d->du, a->h2,
                   model_w(m, w->inv), M, C, 2 * F);
    k->norm_mod_back(d->dx, d->dmod + SHIFT2 * C, d->dmod + SCALE2 * C, d->a, a->x2, a->stats2,
                     a->mod + SCALE2 * C, ld, m->batch, m->tokens, C);
}

/* `first`: the last block, whose backward comes first, starts the gradient of y. */
static void cross_backward(struct model *m, const struct block_weights *w,
                           const struct block_acts *a, const float *y, int first)
{
    const struct kern_ops *k = m->ops;
    struct back_acts *d = &m->back;
    const int C = m->cfg.hidden, M = m->batch * m->tokens, T = m->batch * m->text;
    const bool norm = m->cfg.cross_norm;
    k->linear_back(d->a, 0, model_g(m, w->cross_proj), model_g(m, w->cross_proj_b), d->dx,
                   a->cross, model_w(m, w->cross_proj), M, C, C);
    k->cross_attn_back(d->b, d->dkv, d->dkv + C, 2 * C, d->work, d->a, a->prob,
                       norm ? a->cqn : a->cq, norm ? a->ckn : a->ckv, norm ? C : 2 * C,
                       a->ckv + C, 2 * C, m->text, cross_heads(m));
    if (norm) {
        k->rms_norm_back(d->b, C, model_g(m, w->cross_q_norm), d->b, C, a->cq, C, a->cq_rstd,
                         model_w(m, w->cross_q_norm), M, C);
        k->rms_norm_back(d->dkv, 2 * C, model_g(m, w->cross_k_norm), d->dkv, 2 * C, a->ckv, 2 * C,
                         a->ck_rstd, model_w(m, w->cross_k_norm), T, C);
    }
    k->linear_back(d->dx, 1, model_g(m, w->cross_q), model_g(m, w->cross_q_b), d->b, a->x1,
                   model_w(m, w->cross_q), M, C, C);
    k->linear_back(d->dy, !first, model_g(m, w->cross_kv), model_g(m, w->cross_kv_b), d->dkv, y,
                   model_w(m, w->cross_kv), T, C, 2 * C);
}

static void self_backward(struct model *m, const struct block_weights *w,
                          const struct block_acts *a)
{
    const struct kern_ops *k = m->ops;
    struct back_acts *d = &m->back;
    const int C = m->cfg.hidden, M = m->batch * m->tokens, ld = MOD_ROWS * C;
    int ldqk;
    const float *qk = lin_qk(m, a, &ldqk);
    k->gate_back(d->a, d->dmod + GATE1 * C, d->dx, a->mod + GATE1 * C, ld, a->attn_out, m->batch,
                 m->tokens, C);
    k->linear_back(d->b, 0, model_g(m, w->proj), model_g(m, w->proj_b), d->a, a->attn,
                   model_w(m, w->proj), M, C, C);
    k->lin_attn_back(d->dqkv, d->dqkv + C, d->dqkv + 2 * C, 3 * C, d->b, C, a->attn, a->lin, qk,
                     qk + C, ldqk, a->qkv + 2 * C, 3 * C, linear_heads(m));
    if (m->cfg.qk_norm) {
        k->rms_norm_back(d->dqkv, 3 * C, model_g(m, w->q_norm), d->dqkv, 3 * C, a->qkv, 3 * C,
                         a->q_rstd, model_w(m, w->q_norm), M, C);
        k->rms_norm_back(d->dqkv + C, 3 * C, model_g(m, w->k_norm), d->dqkv + C, 3 * C, a->qkv + C,
                         3 * C, a->k_rstd, model_w(m, w->k_norm), M, C);
    }
    k->linear_back(d->a, 0, model_g(m, w->qkv), NULL, d->dqkv, a->h1, model_w(m, w->qkv), M, C,
                   3 * C);
    k->norm_mod_back(d->dx, d->dmod + SHIFT1 * C, d->dmod + SCALE1 * C, d->a, a->in, a->stats1,
                     a->mod + SCALE1 * C, ld, m->batch, m->tokens, C);
}

void block_backward(struct model *m, int i, const float *y)
{
    const struct block_weights *w = &m->bw[i];
    const struct block_acts *a = &m->ba[i];
    const int C = m->cfg.hidden;
    mlp_backward(m, w, a);
    cross_backward(m, w, a, y, i == m->cfg.depth - 1);
    self_backward(m, w, a);
    m->ops->mod_add_back(model_g(m, w->table), m->back.dt0, MOD_ROWS * C, C, m->back.dmod,
                         m->batch, MOD_ROWS, C);
}
