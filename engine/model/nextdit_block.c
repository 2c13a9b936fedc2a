/* SPDX-License-Identifier: Apache-2.0 */
/* nextdit_block.c - one block of a Next-DiT, forward and backward
 *
 *   x1 = x  + tanh(gate1) * RMS( wo( self + tanh(gate) cross ) )
 *   x2 = x1 + tanh(gate2) * RMS( w2( silu(w1 z) * w3 z ) )         z = RMS(x1) (1 + scale2)
 *
 * Queries, keys and values are projections of h = RMS(x) (1 + scale1); self and cross are
 * attentions of the same queries, rotated by their position in the picture: to keys of the picture,
 * rotated likewise, and to those of the caption.  Scales and gates are a matrix times the condition
 * (time and caption).
 *
 * Backward runs these lines in reverse; `dx` is the gradient of the residual stream throughout.
 */
#include "engine/model/layout.h"
#include "engine/model/model_internal.h"

int nextdit_second(const struct model_config *c)
{
    return (int)layout_pair_rows(c->mlp_hidden, c->hidden);
}

#define QK_EPS 1e-5f

/* Rows of the modulation. */
enum { SCALE1, GATE1, SCALE2, GATE2, MOD_ROWS };

static struct kern_heads queries(const struct model *m)
{
    return (struct kern_heads){m->batch, m->tokens, m->cfg.heads, m->cfg.hidden / m->cfg.heads};
}

static struct kern_heads groups(const struct model *m)
{
    return (struct kern_heads){m->batch, m->tokens, m->cfg.kv_heads, m->cfg.hidden / m->cfg.heads};
}

static struct kern_keys own_keys(const struct model *m)
{
    return (struct kern_keys){.most = m->tokens, .heads = m->cfg.kv_heads};
}

static struct kern_keys caption_keys(const struct model *m)
{
    return (struct kern_keys){.first = m->first, .most = m->text, .heads = m->cfg.kv_heads};
}

/* --- forward --------------------------------------------------------------------------------- */

static void norm_forward(const struct model *m, const struct nextdit_normed *n, weight_at w, weight_at b, int rows,
                         int cols)
{
    if (m->cfg.qk_norm)
        m->ops->layer_norm(n->normed, cols, n->stats, n->raw, cols, model_w(m, w), model_w(m, b), rows, cols, QK_EPS);
}

/* Of queries or keys of the picture: their norm, if there is one, and their positions. */
static void rotated_forward(const struct model *m, const struct nextdit_normed *n, weight_at w, weight_at b,
                            struct kern_heads s)
{
    const struct kern_rope r = {m->next.top.real, m->next.top.imag, s};
    const int cols = s.heads * s.dim;
    if (m->cfg.qk_norm)
        m->ops->layer_norm_rope(n->normed, cols, n->stats, n->raw, cols, model_w(m, w), model_w(m, b), r, QK_EPS);
    else
        m->ops->rope(n->normed, cols, r.real, r.imag, false, s);
}

static void project(const struct model *m, const struct nextdit_block_weights *w, const struct nextdit_block_acts *a)
{
    const struct kern_ops *k = m->ops;
    const int C = m->cfg.hidden, G = nextdit_groups(&m->cfg), E = m->cfg.caption_channels;
    const int M = m->batch * m->tokens, T = m->rows;
    k->linear(a->q.raw, a->h1, model_wn(m, w->wq), NULL, M, C, C);
    k->linear(a->k.raw, a->h1, model_wn(m, w->wk), NULL, M, C, G);
    k->linear(a->v, a->h1, model_wn(m, w->wv), NULL, M, C, G);
    k->linear(a->ky.raw, a->yn, model_wn(m, w->wk_y), NULL, T, E, G);
    k->linear(a->vy, a->yn, model_wn(m, w->wv_y), NULL, T, E, G);
    rotated_forward(m, &a->q, w->q_norm, w->q_norm_b, queries(m));
    rotated_forward(m, &a->k, w->k_norm, w->k_norm_b, groups(m));
    norm_forward(m, &a->ky, w->ky_norm, w->ky_norm_b, T, G);
}

static void attention_forward(struct model *m, const struct nextdit_block_weights *w,
                              const struct nextdit_block_acts *a)
{
    const struct kern_ops *k = m->ops;
    const struct nextdit_top_acts *top = &m->next.top;
    const int C = m->cfg.hidden, G = nextdit_groups(&m->cfg), E = m->cfg.caption_channels;
    const int M = m->batch * m->tokens, ld = MOD_ROWS * C;
    k->rms_mod(a->h1, a->h1_rstd, a->in, model_w(m, w->norm1), a->mod + SCALE1 * C, ld, m->batch,
               m->tokens, C, m->cfg.norm_eps);
    k->rms_norm(a->yn, E, a->y_rstd, top->y, E, model_w(m, w->y_norm), m->rows, E, m->cfg.norm_eps);
    project(m, w, a);
    k->attend(a->self, a->self_kept, a->q.normed, a->k.normed, G, a->v, G, own_keys(m), queries(m));
    k->attend(a->cross, a->cross_kept, a->q.normed, a->ky.normed, G, a->vy, G, caption_keys(m), queries(m));
    k->head_gate(a->both, a->self, a->cross, model_w(m, w->gate), M, m->cfg.heads, C / m->cfg.heads);
    k->linear(a->attn_out, a->both, model_wn(m, w->wo), NULL, M, C, C);
    k->rms_gate(a->x1, a->attn_rstd, a->in, a->attn_out, model_w(m, w->norm2), a->mod + GATE1 * C, ld,
                m->batch, m->tokens, C, m->cfg.norm_eps);
}

static void mlp_forward(struct model *m, const struct nextdit_block_weights *w, const struct nextdit_block_acts *a)
{
    const struct kern_ops *k = m->ops;
    const int C = m->cfg.hidden, F = m->cfg.mlp_hidden, S = nextdit_second(&m->cfg);
    const int M = m->batch * m->tokens, ld = MOD_ROWS * C;
    k->rms_mod(a->h2, a->h2_rstd, a->x1, model_w(m, w->ffn1), a->mod + SCALE2 * C, ld, m->batch,
               m->tokens, C, m->cfg.norm_eps);
    k->linear(a->u, a->h2, model_wn(m, w->w1), NULL, M, C, S + F);
    k->swiglu(a->g, a->u, M, F, S);
    k->linear(a->mlp_out, a->g, model_wn(m, w->w2), NULL, M, F, C);
    k->rms_gate(a->x2, a->mlp_rstd, a->x1, a->mlp_out, model_w(m, w->ffn2), a->mod + GATE2 * C, ld,
                m->batch, m->tokens, C, m->cfg.norm_eps);
}

void nextdit_block_forward(struct model *m, int i)
{
    const struct nextdit_block_weights *w = &m->next.bw[i];
    const struct nextdit_block_acts *a = &m->next.ba[i];
    m->ops->linear_wide(a->mod, m->next.top.cs, model_wn(m, w->ada), model_w(m, w->ada_b), m->batch,
                        nextdit_cond(&m->cfg), MOD_ROWS * m->cfg.hidden);
    attention_forward(m, w, a);
    mlp_forward(m, w, a);
}

/* --- backward -------------------------------------------------------------------------------- */

static void mlp_backward(struct model *m, const struct nextdit_block_weights *w, const struct nextdit_block_acts *a)
{
    const struct kern_ops *k = m->ops;
    const struct nextdit_back_acts *d = &m->next.back;
    const int C = m->cfg.hidden, F = m->cfg.mlp_hidden, S = nextdit_second(&m->cfg);
    const int M = m->batch * m->tokens, ld = MOD_ROWS * C;
    k->rms_gate_back(d->a, model_g(m, w->ffn2), d->dmod + GATE2 * C, d->dx, a->mlp_out, a->mlp_rstd,
                     model_w(m, w->ffn2), a->mod + GATE2 * C, ld, m->batch, m->tokens, C);
    k->linear_back(d->dg, model_g(m, w->w2), NULL, d->a, a->g, model_wn(m, w->w2), M, F, C);
    k->swiglu_back(d->du, d->dg, a->u, M, F, S);
    k->linear_back(d->dhn, model_g(m, w->w1), NULL, d->du, a->h2, model_wn(m, w->w1), M, C, S + F);
    k->rms_mod_back(d->dx, model_g(m, w->ffn1), d->dmod + SCALE2 * C, d->dhn, a->x1, a->h2_rstd,
                    model_w(m, w->ffn1), a->mod + SCALE2 * C, ld, m->batch, m->tokens, C);
}

static void norm_backward(const struct model *m, void *dx, const struct nextdit_normed *n, weight_at w, weight_at b,
                          int rows, int cols)
{
    if (m->cfg.qk_norm)
        m->ops->layer_norm_back(dx, cols, model_g(m, w), model_g(m, b), dx, cols, n->raw, cols, n->stats,
                                model_w(m, w), rows, cols);
}

static void rotated_backward(const struct model *m, void *dx, const struct nextdit_normed *n, weight_at w, weight_at b,
                             struct kern_heads s)
{
    const struct kern_rope r = {m->next.top.real, m->next.top.imag, s};
    const int cols = s.heads * s.dim;
    if (m->cfg.qk_norm)
        m->ops->layer_norm_rope_back(dx, cols, model_g(m, w), model_g(m, b), dx, cols, n->raw, cols, n->stats,
                                     model_w(m, w), r);
    else
        m->ops->rope(dx, cols, r.real, r.imag, true, s);
}

/* From the gradients of the attentions' inputs to those of h1, in dh, and of the captions' norm. */
static void project_backward(struct model *m, const struct nextdit_block_weights *w, const struct nextdit_block_acts *a)
{
    const struct kern_ops *k = m->ops;
    const struct nextdit_back_acts *d = &m->next.back;
    const int C = m->cfg.hidden, G = nextdit_groups(&m->cfg), E = m->cfg.caption_channels;
    const int M = m->batch * m->tokens, T = m->rows;
    rotated_backward(m, d->a, &a->q, w->q_norm, w->q_norm_b, queries(m));
    rotated_backward(m, d->dk, &a->k, w->k_norm, w->k_norm_b, groups(m));
    norm_backward(m, d->dky, &a->ky, w->ky_norm, w->ky_norm_b, T, G);
    k->linear_back_wide(d->dh, 0, model_g(m, w->wq), NULL, d->a, a->h1, model_wn(m, w->wq), M, C, C);
    k->linear_back_wide(d->dh, 1, model_g(m, w->wk), NULL, d->dk, a->h1, model_wn(m, w->wk), M, C, G);
    k->linear_back_wide(d->dh, 1, model_g(m, w->wv), NULL, d->dv, a->h1, model_wn(m, w->wv), M, C, G);
    k->linear_back_wide(d->dy, 0, model_g(m, w->wk_y), NULL, d->dky, a->yn, model_wn(m, w->wk_y), T, E, G);
    k->linear_back_wide(d->dy, 1, model_g(m, w->wv_y), NULL, d->dvy, a->yn, model_wn(m, w->wv_y), T, E, G);
    const void *dy = model_narrow(m, d->dyn, d->dy, (size_t)T * (size_t)E);
    k->rms_norm_back(d->dyn, E, model_g(m, w->y_norm), dy, E, m->next.top.y, E, a->y_rstd, model_w(m, w->y_norm), T, E);
}

static void attention_backward(struct model *m, const struct nextdit_block_weights *w,
                               const struct nextdit_block_acts *a)
{
    const struct kern_ops *k = m->ops;
    const struct nextdit_back_acts *d = &m->next.back;
    const int C = m->cfg.hidden, G = nextdit_groups(&m->cfg), M = m->batch * m->tokens, ld = MOD_ROWS * C;
    k->rms_gate_back(d->a, model_g(m, w->norm2), d->dmod + GATE1 * C, d->dx, a->attn_out, a->attn_rstd,
                     model_w(m, w->norm2), a->mod + GATE1 * C, ld, m->batch, m->tokens, C);
    k->linear_back(d->b, model_g(m, w->wo), NULL, d->a, a->both, model_wn(m, w->wo), M, C, C);
    k->head_gate_back(d->c, model_g(m, w->gate), d->b, a->cross, model_w(m, w->gate), M, m->cfg.heads,
                      C / m->cfg.heads);
    k->zero(d->a, model_narrow_floats(m, (size_t)M * (size_t)C)); /* of the queries: both attentions add to it */
    k->attend_back(d->a, d->dk, d->dv, G, d->b, a->self, a->self_kept, a->q.normed, a->k.normed, G, a->v,
                   G, own_keys(m), queries(m));
    k->attend_back(d->a, d->dky, d->dvy, G, d->c, a->cross, a->cross_kept, a->q.normed, a->ky.normed, G,
                   a->vy, G, caption_keys(m), queries(m));
    project_backward(m, w, a);
    k->rms_mod_back(d->dx, model_g(m, w->norm1), d->dmod + SCALE1 * C,
                    model_narrow(m, d->dhn, d->dh, (size_t)M * (size_t)C), a->in, a->h1_rstd,
                    model_w(m, w->norm1), a->mod + SCALE1 * C, ld, m->batch, m->tokens, C);
}

void nextdit_block_backward(struct model *m, int i)
{
    const struct nextdit_block_weights *w = &m->next.bw[i];
    const struct nextdit_block_acts *a = &m->next.ba[i];
    const struct nextdit_back_acts *d = &m->next.back;
    const int width = MOD_ROWS * m->cfg.hidden;
    mlp_backward(m, w, a);
    attention_backward(m, w, a);
    m->ops->linear_back_wide(d->dcs, 1, model_g(m, w->ada), model_g(m, w->ada_b),
                             model_narrow(m, d->dmodn, d->dmod, (size_t)m->batch * (size_t)width),
                             m->next.top.cs, model_wn(m, w->ada), m->batch, nextdit_cond(&m->cfg), width);
}
