/* SPDX-License-Identifier: Apache-2.0 */
/* vae_load_kl.c - the layers of AutoencoderKL by the names of diffusers */
#include <stdio.h>

#include "engine/vae/vae_internal.h"

static struct kern_conv window(int in, int out)
{
    return (struct kern_conv){.in = in, .out = out, .kernel = 3, .stride = 1, .pad = 1, .groups = 1};
}

static struct kern_conv point(int in, int out)
{
    return (struct kern_conv){.in = in, .out = out, .kernel = 1, .stride = 1, .groups = 1};
}

static int load_res(struct vae_loader *l, struct vae_kl_res *r, int in, int out, const char *at)
{
    if (vae_load_norm(l, &r->norm1, in, "%s.norm1", at) < 0 ||
        vae_load_conv(l, &r->conv1, window(in, out), true, "%s.conv1", at) < 0 ||
        vae_load_norm(l, &r->norm2, out, "%s.norm2", at) < 0 ||
        vae_load_conv(l, &r->conv2, window(out, out), true, "%s.conv2", at) < 0)
        return -1;
    return in == out ? 0 : vae_load_conv(l, &r->shortcut, point(in, out), true, "%s.conv_shortcut", at);
}

static int load_middle(struct vae_loader *l, const char *half, int c)
{
    struct vae_kl_middle *m = &l->v->middle;
    char at[64];
    for (int i = 0; i < 2; i++) {
        snprintf(at, sizeof(at), "%s.mid_block.resnets.%d", half, i);
        if (load_res(l, &m->res[i], c, c, at) < 0)
            return -1;
    }
    snprintf(at, sizeof(at), "%s.mid_block.attentions.0", half);
    if (vae_load_norm(l, &m->norm, c, "%s.group_norm", at) < 0 ||
        vae_load_conv(l, &m->q, point(c, c), true, "%s.to_q", at) < 0 ||
        vae_load_conv(l, &m->k, point(c, c), true, "%s.to_k", at) < 0 ||
        vae_load_conv(l, &m->v, point(c, c), true, "%s.to_v", at) < 0)
        return -1;
    return vae_load_conv(l, &m->out, point(c, c), true, "%s.to_out.0", at);
}

/* Stage i of the highest resolution first; diffusers numbers those of a decoder from the lowest. */
static int load_stage(struct vae_loader *l, int i, const char *half, bool up)
{
    const struct vae_config *c = &l->v->cfg;
    struct vae_stage *s = &l->v->stage[i];
    const int before = up ? i + 1 : i - 1, last = c->stages - 1;
    const int width = c->width[i], in = before < 0 || before > last ? width : c->width[before];
    char block[64], at[96];
    s->blocks = up ? c->decoder_depth[i] : c->encoder_depth[i];
    if (!(s->res = vae_keep(l, (size_t)s->blocks * sizeof(*s->res))))
        return -1;
    snprintf(block, sizeof(block), "%s.%s_blocks.%d", half, up ? "up" : "down", up ? last - i : i);
    for (int b = 0; b < s->blocks; b++) {
        snprintf(at, sizeof(at), "%s.resnets.%d", block, b);
        if (load_res(l, &s->res[b], b ? width : in, width, at) < 0)
            return -1;
    }
    struct kern_conv change = window(width, width);
    change.up = up;
    change.stride = up ? 1 : 2;
    change.pad = up; /* going down, zeros are behind the picture only */
    if (i == (up ? 0 : last))
        return 0;
    return vae_load_conv(l, &s->change, change, true, "%s.%ssamplers.0.conv", block, up ? "up" : "down");
}

int vae_load_kl(struct vae_loader *l)
{
    struct vae *v = l->v;
    const struct vae_config *c = &v->cfg;
    const bool up = v->half == VAE_DECODER;
    const char *half = up ? "decoder" : "encoder";
    const int deep = c->width[c->stages - 1], high = c->width[0];
    for (int i = 0; i < c->stages; i++)
        if (load_stage(l, i, half, up) < 0)
            return -1;
    if (load_middle(l, half, deep) < 0 ||
        vae_load_conv(l, &v->in, up ? window(c->latent, deep) : window(3, high), true, "%s.conv_in", half) < 0 ||
        vae_load_norm(l, &v->out_norm, up ? high : deep, "%s.conv_norm_out", half) < 0 ||
        vae_load_conv(l, &v->out, up ? window(high, 3) : window(deep, 2 * c->latent), true, "%s.conv_out", half) < 0)
        return -1;
    return up ? vae_load_conv(l, &v->quant, point(c->latent, c->latent), true, "post_quant_conv")
              : vae_load_conv(l, &v->quant, point(2 * c->latent, 2 * c->latent), true, "quant_conv");
}
