/* SPDX-License-Identifier: Apache-2.0 */
/* fused_ref.c - the fused operations on the CPU, as sequences of plain ones */
#include <string.h>

#include "kernels/isa_table.h"
#include "kernels/kernels.h"

static const struct kern_ops *own; /* the table that holds these functions */

static void gate_norm(float *y, void *h, float *stats, const float *x, const float *gate, int ldg, const void *a,
                      const float *shift, const float *scale, int ldm, int batch, int tokens, int cols, float eps)
{
    if (gate)
        own->gate(y, y, x, gate, ldg, a, batch, tokens, cols);
    else
        own->add(y, x, a, (size_t)batch * (size_t)tokens * (size_t)cols);
    own->norm_mod(h, stats, y, shift, scale, ldm, batch, tokens, cols, eps);
}

static void gate_norm_back(float *dx, void *da, float *dgate, float *dshift, float *dscale, const void *dh,
                           const float *y, const float *stats, const float *scale, int ldm, const float *gate, int ldg,
                           const void *a, int batch, int tokens, int cols)
{
    own->norm_mod_back(dx, dshift, dscale, dh, y, stats, scale, ldm, batch, tokens, cols);
    if (gate)
        own->gate_back(da, dgate, dx, gate, ldg, a, batch, tokens, cols);
    else
        own->round(da, dx, (size_t)batch * (size_t)tokens * (size_t)cols);
}

static void glumbconv(void *g, struct kern_glumbconv kept, const void *u, const float *w, const float *b,
                      struct kern_image s)
{
    const int rows = s.batch * s.height * s.width;
    own->silu(kept.s, u, (size_t)rows * (size_t)s.channels);
    own->depthwise(kept.d, kept.s, w, b, s);
    own->glu(g, kept.d, rows, s.channels / 2);
}

static void glumbconv_back(void *du, float *dw, float *db, void *work, const void *dg, const void *u,
                           struct kern_glumbconv kept, const float *w, const float *b, struct kern_image s)
{
    const int rows = s.batch * s.height * s.width;
    (void)b;
    own->glu_back(work, dg, kept.d, rows, s.channels / 2);
    own->depthwise_back(du, dw, db, work, kept.s, w, s);
    own->silu_back(du, du, u, (size_t)rows * (size_t)s.channels);
}

static void layer_norm_rope(void *y, int ldy, float *stats, const void *x, int ldx, const float *w, const float *b,
                            struct kern_rope r, float eps)
{
    const struct kern_heads s = r.heads;
    own->layer_norm(y, ldy, stats, x, ldx, w, b, s.batch * s.tokens, s.heads * s.dim, eps);
    own->rope(y, ldy, r.real, r.imag, false, s);
}

/* dx holds dy turned back, before it is overwritten. */
static void layer_norm_rope_back(void *dx, int lddx, float *dw, float *db, const void *dy, int lddy, const void *x,
                                 int ldx, const float *stats, const float *w, struct kern_rope r)
{
    const struct kern_heads s = r.heads;
    const size_t rows = (size_t)s.batch * (size_t)s.tokens, cols = (size_t)s.heads * (size_t)s.dim;
    for (size_t i = 0; i < rows && dx != dy; i++)
        memcpy((float *)dx + i * (size_t)lddx, (const float *)dy + i * (size_t)lddy, cols * sizeof(float));
    own->rope(dx, lddx, r.real, r.imag, true, s);
    own->layer_norm_back(dx, lddx, dw, db, dx, lddx, x, ldx, stats, w, (int)rows, (int)cols);
}

void KERN_FILL(fused)(struct kern_ops *ops)
{
    own = ops;
    ops->gate_norm = gate_norm;
    ops->gate_norm_back = gate_norm_back;
    ops->glumbconv = glumbconv;
    ops->glumbconv_back = glumbconv_back;
    ops->layer_norm_rope = layer_norm_rope;
    ops->layer_norm_rope_back = layer_norm_rope_back;
}
