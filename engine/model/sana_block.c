/* SPDX-License-Identifier: Apache-2.0 */
/* sana_block.c - one transformer block of SanaMS, forward and backward
 *
 *   x1 = x  + gate1 * proj(linear_attention(qkv(LN(x) (1 + scale1) + shift1)))
 *   x2 = x1 + proj(cross_attention(q(x1), kv(y)))          no norm, no gate here
 *   x3 = x2 + gate2 * point(glu(depthwise(silu(inverted(LN(x2) (1 + scale2) + shift2)))))
 *
 * The sum of the last line and the next block's LN(x) are one pass over memory, so a
 * block ends before that sum: the next block computes it, or block_leave()
 * after the last.  The sum of the second line is fused with LN(x2) likewise.
 *
 * Backward runs these lines in reverse; `dx` is the gradient of the residual
 * stream throughout, `a` that of the branch added to it.
 */
#include "engine/model/model_internal.h"

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

static struct kern_text captions(const struct model *m)
{
    return (struct kern_text){.mask = m->mask, .first = m->first, .most = m->text};
}

static struct kern_image mlp_image(const struct model *m)
{
    return (struct kern_image){m->batch, m->height / m->cfg.patch, m->width / m->cfg.patch,
                               2 * m->cfg.mlp_hidden};
}

/* The q and k that linear attention reads: normed, or as projected. */
static void *lin_qk(const struct model *m, const struct sana_block_acts *a, int *ld)
{
    *ld = m->cfg.qk_norm ? 2 * m->cfg.hidden : 3 * m->cfg.hidden;
    return m->cfg.qk_norm ? a->qk : a->qkv;
}

/* The residual stream at the start of block i, and its norm. Adds the MLP output of the previous
 * block in the same pass over the stream. */
static void enter_forward(struct model *m, int i)
{
    const struct kern_ops *k = m->ops;
    struct sana_block_acts *a = &m->sana.ba[i];
    const int C = m->cfg.hidden, ld = MOD_ROWS * C;
    const float *shift = a->mod + SHIFT1 * C, *scale = a->mod + SCALE1 * C;
    if (i == 0)
        k->norm_mod(a->h1, a->stats1, a->in, shift, scale, ld, m->batch, m->tokens, C, LN_EPS);
    else
        k->gate_norm(a->in, a->h1, a->stats1, a[-1].x2, a[-1].mod + GATE2 * C, ld, a[-1].mlp_out,
                     shift, scale, ld, m->batch, m->tokens, C, LN_EPS);
}

static void self_forward(struct model *m, const struct sana_block_weights *w, struct sana_block_acts *a)
{
    const struct kern_ops *k = m->ops;
    const int C = m->cfg.hidden, M = m->batch * m->tokens, ld = MOD_ROWS * C;
    model_linear(m, a->qkv, w->qkv, NO_WEIGHT, a->h1, M, C, 3 * C);
    if (m->cfg.qk_norm) {
        k->rms_norm(a->qk, 2 * C, a->q_rstd, a->qkv, 3 * C, model_w(m, w->q_norm), M, C, QK_EPS);
        k->rms_norm(model_skip(m, a->qk, C), 2 * C, a->k_rstd, model_skip(m, a->qkv, C), 3 * C,
                    model_w(m, w->k_norm), M, C, QK_EPS);
    }
    int ldqk;
    void *qk = lin_qk(m, a, &ldqk);
    k->lin_attn(a->attn, C, a->lin, qk, model_skip(m, qk, C), ldqk, model_skip(m, a->qkv, 2 * C),
                3 * C, linear_heads(m));
    model_linear(m, a->attn_out, w->proj, w->proj_b, a->attn, M, C, C);
    k->gate(a->x1, a->x1n, a->in, a->mod + GATE1 * C, ld, a->attn_out, m->batch, m->tokens, C);
}

static void cross_forward(struct model *m, const struct sana_block_weights *w, struct sana_block_acts *a)
{
    const struct kern_ops *k = m->ops;
    const int C = m->cfg.hidden, M = m->batch * m->tokens, T = m->rows;
    const bool norm = m->cfg.cross_norm;
    model_linear(m, a->cq, w->cross_q, w->cross_q_b, a->x1n, M, C, C);
    model_linear(m, a->ckv, w->cross_kv, w->cross_kv_b, m->sana.top.y, T, C, 2 * C);
    if (norm) {
        k->rms_norm(a->cqn, C, a->cq_rstd, a->cq, C, model_w(m, w->cross_q_norm), M, C, CROSS_EPS);
        k->rms_norm(a->ckn, C, a->ck_rstd, a->ckv, 2 * C, model_w(m, w->cross_k_norm), T, C, CROSS_EPS);
    }
    k->cross_attn(a->cross, a->prob, norm ? a->cqn : a->cq, norm ? a->ckn : a->ckv, norm ? C : 2 * C,
                  model_skip(m, a->ckv, C), 2 * C, captions(m), cross_heads(m));
    model_linear(m, a->cross_out, w->cross_proj, w->cross_proj_b, a->cross, M, C, C);
}

/* Up to the MLP output, which the next block or block_leave() adds to x2. */
static void mlp_forward(struct model *m, const struct sana_block_weights *w, struct sana_block_acts *a)
{
    const struct kern_ops *k = m->ops;
    const int C = m->cfg.hidden, F = m->cfg.mlp_hidden, M = m->batch * m->tokens;
    k->gate_norm(a->x2, a->h2, a->stats2, a->x1, NULL, 0, a->cross_out, a->mod + SHIFT2 * C,
                 a->mod + SCALE2 * C, MOD_ROWS * C, m->batch, m->tokens, C, LN_EPS);
    model_linear(m, a->u, w->inv, w->inv_b, a->h2, M, C, 2 * F);
    k->glumbconv(a->g, a->glumbconv, a->u, model_w(m, w->depth), model_w(m, w->depth_b), mlp_image(m));
    model_linear(m, a->mlp_out, w->point, NO_WEIGHT, a->g, M, F, C);
}

void block_forward(struct model *m, int i)
{
    const struct sana_block_weights *w = &m->sana.bw[i];
    struct sana_block_acts *a = &m->sana.ba[i];
    const int C = m->cfg.hidden;
    m->ops->mod_add(a->mod, model_w(m, w->table), m->sana.top.t0, MOD_ROWS * C, C, m->batch, MOD_ROWS, C);
    enter_forward(m, i);
    self_forward(m, w, a);
    cross_forward(m, w, a);
    mlp_forward(m, w, a);
}

/* The modulation and the sum at the block's start are kept and not recomputed. */
void block_again(struct model *m, int i)
{
    const struct sana_block_weights *w = &m->sana.bw[i];
    struct sana_block_acts *a = &m->sana.ba[i];
    const int C = m->cfg.hidden, ld = MOD_ROWS * C;
    m->ops->norm_mod(a->h1, a->stats1, a->in, a->mod + SHIFT1 * C, a->mod + SCALE1 * C, ld,
                     m->batch, m->tokens, C, LN_EPS);
    self_forward(m, w, a);
    cross_forward(m, w, a);
    mlp_forward(m, w, a);
    m->ops->gate_back(m->sana.back.a, m->sana.back.dmod[i % 2] + GATE2 * C, m->sana.back.dx, a->mod + GATE2 * C,
                      ld, a->mlp_out, m->batch, m->tokens, C);
}

void block_leave(struct model *m, void *h, float *stats, const float *mod, int ld)
{
    struct sana_block_acts *a = &m->sana.ba[m->cfg.depth - 1];
    const int C = m->cfg.hidden;
    m->ops->gate_norm(a->x3, h, stats, a->x2, a->mod + GATE2 * C, MOD_ROWS * C, a->mlp_out, mod,
                      mod + C, ld, m->batch, m->tokens, C, LN_EPS);
}

void block_leave_back(struct model *m, float *dmod, const float *stats, const float *mod, int ld)
{
    const struct sana_block_acts *a = &m->sana.ba[m->cfg.depth - 1];
    struct sana_back_acts *d = &m->sana.back;
    const int C = m->cfg.hidden;
    m->ops->zero(d->dx, (size_t)m->batch * (size_t)m->tokens * (size_t)C);
    m->ops->gate_norm_back(d->dx, d->a, d->dmod[(m->cfg.depth - 1) % 2] + GATE2 * C, dmod, dmod + C, d->a, a->x3, stats,
                           mod + C, ld, a->mod + GATE2 * C, MOD_ROWS * C, a->mlp_out, m->batch, m->tokens, C);
}

/* From the gradient of the output of mlp_forward(), in d->a, to that of cross_out, in d->dxn. */
static void mlp_backward(struct model *m, const struct sana_block_weights *w, const struct sana_block_acts *a,
                         float *dmod)
{
    const struct kern_ops *k = m->ops;
    struct sana_back_acts *d = &m->sana.back;
    const int C = m->cfg.hidden, F = m->cfg.mlp_hidden, M = m->batch * m->tokens;
    model_linear_back(m, d->dg, w->point, NO_WEIGHT, d->a, a->g, M, F, C);
    k->glumbconv_back(d->du, model_g(m, w->depth), model_g(m, w->depth_b), d->dd, d->dg, a->u, a->glumbconv,
                      model_w(m, w->depth), model_w(m, w->depth_b), mlp_image(m));
    model_linear_back(m, d->a, w->inv, w->inv_b, d->du, a->h2, M, C, 2 * F);
    k->gate_norm_back(d->dx, d->dxn, NULL, dmod + SHIFT2 * C, dmod + SCALE2 * C, d->a, a->x2, a->stats2,
                      a->mod + SCALE2 * C, MOD_ROWS * C, NULL, 0, NULL, m->batch, m->tokens, C);
}

/* `first`: the last block, which runs backward first, initializes the gradient of y. */
static void cross_backward(struct model *m, const struct sana_block_weights *w,
                           const struct sana_block_acts *a, int first)
{
    const struct kern_ops *k = m->ops;
    struct sana_back_acts *d = &m->sana.back;
    const int C = m->cfg.hidden, M = m->batch * m->tokens, T = m->rows;
    const bool norm = m->cfg.cross_norm;
    model_linear_back(m, d->a, w->cross_proj, w->cross_proj_b, d->dxn, a->cross, M, C, C);
    k->cross_attn_back(d->b, d->dkv, model_skip(m, d->dkv, C), 2 * C, d->work, d->a, a->prob,
                       norm ? a->cqn : a->cq, norm ? a->ckn : a->ckv, norm ? C : 2 * C,
                       model_skip(m, a->ckv, C), 2 * C, captions(m), cross_heads(m));
    if (norm) {
        k->rms_norm_back(d->b, C, model_g(m, w->cross_q_norm), d->b, C, a->cq, C, a->cq_rstd,
                         model_w(m, w->cross_q_norm), M, C);
        k->rms_norm_back(d->dkv, 2 * C, model_g(m, w->cross_k_norm), d->dkv, 2 * C, a->ckv, 2 * C,
                         a->ck_rstd, model_w(m, w->cross_k_norm), T, C);
    }
    model_linear_back_wide(m, d->dx, 1, w->cross_q, w->cross_q_b, d->b, a->x1n, M, C, C);
    model_linear_back_wide(m, d->dy, !first, w->cross_kv, w->cross_kv_b, d->dkv, m->sana.top.y, T, C, 2 * C);
}

/* Ends with the gradient of h1 in d->a. */
static void self_backward(struct model *m, const struct sana_block_weights *w,
                          const struct sana_block_acts *a, float *dmod)
{
    const struct kern_ops *k = m->ops;
    struct sana_back_acts *d = &m->sana.back;
    const int C = m->cfg.hidden, M = m->batch * m->tokens, ld = MOD_ROWS * C;
    void *dk = model_skip(m, d->dqkv, C), *dv = model_skip(m, d->dqkv, 2 * C);
    int ldqk;
    void *qk = lin_qk(m, a, &ldqk);
    k->gate_back(d->a, dmod + GATE1 * C, d->dx, a->mod + GATE1 * C, ld, a->attn_out, m->batch, m->tokens, C);
    model_linear_back(m, d->b, w->proj, w->proj_b, d->a, a->attn, M, C, C);
    k->lin_attn_back(d->dqkv, dk, dv, 3 * C, d->b, C, a->attn, a->lin, qk, model_skip(m, qk, C),
                     ldqk, model_skip(m, a->qkv, 2 * C), 3 * C, linear_heads(m));
    if (m->cfg.qk_norm) {
        k->rms_norm_back(d->dqkv, 3 * C, model_g(m, w->q_norm), d->dqkv, 3 * C, a->qkv, 3 * C,
                         a->q_rstd, model_w(m, w->q_norm), M, C);
        k->rms_norm_back(dk, 3 * C, model_g(m, w->k_norm), dk, 3 * C, model_skip(m, a->qkv, C),
                         3 * C, a->k_rstd, model_w(m, w->k_norm), M, C);
    }
    model_linear_back(m, d->a, w->qkv, NO_WEIGHT, d->dqkv, a->h1, M, C, 3 * C);
}

/* Through enter_forward(), to the gradient of the previous block's MLP output, in d->a. */
static void enter_backward(struct model *m, int i)
{
    const struct kern_ops *k = m->ops;
    const struct sana_block_acts *a = &m->sana.ba[i];
    struct sana_back_acts *d = &m->sana.back;
    const int C = m->cfg.hidden, ld = MOD_ROWS * C;
    float *dshift = d->dmod[i % 2] + SHIFT1 * C, *dscale = d->dmod[i % 2] + SCALE1 * C;
    const float *scale = a->mod + SCALE1 * C;
    if (i == 0 || m->max.recompute) /* block_again() continues from there */
        k->norm_mod_back(d->dx, dshift, dscale, d->a, a->in, a->stats1, scale, ld, m->batch, m->tokens, C);
    else
        k->gate_norm_back(d->dx, d->a, d->dmod[(i - 1) % 2] + GATE2 * C, dshift, dscale, d->a, a->in, a->stats1, scale,
                          ld, a[-1].mod + GATE2 * C, ld, a[-1].mlp_out, m->batch, m->tokens, C);
}

void block_backward(struct model *m, int i)
{
    const struct sana_block_weights *w = &m->sana.bw[i];
    const struct sana_block_acts *a = &m->sana.ba[i];
    const int C = m->cfg.hidden;
    float *dmod = m->sana.back.dmod[i % 2];
    mlp_backward(m, w, a, dmod);
    cross_backward(m, w, a, i == m->cfg.depth - 1);
    self_backward(m, w, a, dmod);
    enter_backward(m, i);
    m->ops->mod_add_back(model_g(m, w->table), m->sana.back.dt0, MOD_ROWS * C, C, dmod, m->batch, MOD_ROWS, C);
}
