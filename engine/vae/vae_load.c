/* SPDX-License-Identifier: Apache-2.0 */
/* vae_load.c - weights of an autoencoder, read by name and packed for the kernels */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/vae/vae_internal.h"

enum { NAME = 128 };

/* Memory that lives as long as the model; NULL with an error. */
static void *vae_keep(struct vae_loader *l, size_t bytes)
{
    struct vae *v = l->v;
    void **more = realloc(v->owned, (v->owned_len + 1) * sizeof(*more));
    if (more)
        v->owned = more;
    void *p = more ? aligned_alloc(64, (bytes + 63) / 64 * 64) : NULL;
    if (!p)
        return err_set(l->err, ERR_MEMORY, "no memory for weights: %zu bytes", bytes), NULL;
    v->owned[v->owned_len++] = p;
    return memset(p, 0, bytes);
}

/* Weights are aligned for the kernels of the CPU. */
static float *keep_array(struct vae_loader *l, size_t n)
{
    if (l->v->ops->host)
        return vae_keep(l, n * sizeof(float));
    float *p = vae_arrays_new(l->v->arrays, n);
    if (!p)
        err_set(l->err, ERR_DEVICE_MEMORY, "out of GPU memory: no %zu bytes for weights of an autoencoder",
                n * sizeof(float));
    return p;
}

/* The same where the kernels run: a copy of host memory. */
static const float *vae_keep_floats(struct vae_loader *l, const float *from, size_t n)
{
    float *p = keep_array(l, n);
    if (p)
        l->v->ops->upload(p, from, n * sizeof(float));
    return p;
}

/* Valid until the next call. */
static const float *vae_load_tensor(struct vae_loader *l, const char *name, size_t rows, size_t each)
{
    const size_t count = rows * each;
    if (count > l->room) {
        float *more = realloc(l->scratch, count * sizeof(*more));
        if (!more)
            return err_set(l->err, ERR_MEMORY, "no memory for tensor %s of %zu numbers", name, count), NULL;
        l->scratch = more;
        l->room = count;
    }
    return l->from->tensor(l->from->arg, name, rows, each, l->scratch, l->err);
}

static int reserve_work(struct vae *v, struct kern_conv c, struct err *err)
{
    const size_t need = v->ops->conv_work(c);
    if (need <= v->work_size)
        return 0;
    if (v->ops->host)
        free(v->work);
    else
        vae_arrays_drop(v->arrays, v->work);
    v->work_size = need;
    v->work = v->ops->host ? aligned_alloc(64, (need * sizeof(float) + 63) / 64 * 64)
                           : vae_arrays_new(v->arrays, need);
    return v->work ? 0
                   : err_set(err, vae_arrays_error(v->arrays), "no memory for convolutions: %zu bytes",
                             need * sizeof(float));
}

static int vae_load_packed(struct vae_loader *l, struct vae_conv *to, struct kern_conv c, const float *w)
{
    const size_t n = (size_t)(c.groups * c.out) * (size_t)(c.kernel * c.kernel) * (size_t)c.in;
    float *packed = keep_array(l, l->v->ops->conv_size(c));
    if (!packed || reserve_work(l->v, c, l->err) < 0)
        return -1;
    const float *there = vae_arrays_input(l->v->arrays, w, n);
    if (!there)
        return err_set(l->err, ERR_DEVICE_MEMORY, "out of GPU memory: no %zu bytes for weights", n * sizeof(*w));
    l->v->ops->conv_pack(packed, there, c);
    vae_arrays_drop_input(l->v->arrays, there);
    *to = (struct vae_conv){.c = c, .w = packed, .work = &l->v->work};
    return 0;
}

static const float *keep_tensor(struct vae_loader *l, const char *name, size_t count)
{
    const float *w = vae_load_tensor(l, name, count, 1);
    return w ? vae_keep_floats(l, w, count) : NULL;
}

__attribute__((format(printf, 5, 6)))
static int vae_load_conv(struct vae_loader *l, struct vae_conv *to, struct kern_conv c, bool bias, const char *format, ...)
{
    char base[NAME], name[NAME + 8];
    va_list args;
    va_start(args, format);
    vsnprintf(base, sizeof(base), format, args);
    va_end(args);
    snprintf(name, sizeof(name), "%s.weight", base);
    const float *w = vae_load_tensor(l, name, (size_t)(c.out * c.groups), (size_t)c.in * (size_t)(c.kernel * c.kernel));
    if (!w || vae_load_packed(l, to, c, w) < 0)
        return -1;
    snprintf(name, sizeof(name), "%s.bias", base);
    if (bias && !(to->bias = keep_tensor(l, name, (size_t)(c.out * c.groups))))
        return -1;
    return 0;
}

/* w: in host memory */
__attribute__((format(printf, 4, 5)))
static int vae_load_norm(struct vae_loader *l, struct vae_norm *to, int channels, const char *format, ...)
{
    char base[NAME], name[NAME + 8];
    va_list args;
    va_start(args, format);
    vsnprintf(base, sizeof(base), format, args);
    va_end(args);
    snprintf(name, sizeof(name), "%s.weight", base);
    if (!(to->w = keep_tensor(l, name, (size_t)channels)))
        return -1;
    snprintf(name, sizeof(name), "%s.bias", base);
    return (to->b = keep_tensor(l, name, (size_t)channels)) ? 0 : -1;
}

static struct kern_conv window(int in, int out)
{
    return (struct kern_conv){.in = in, .out = out, .kernel = 3, .stride = 1, .pad = 1, .groups = 1};
}

static struct kern_conv point(int in, int out)
{
    return (struct kern_conv){.in = in, .out = out, .kernel = 1, .stride = 1, .groups = 1};
}

static struct kern_conv with_silu(struct kern_conv c)
{
    c.silu = true;
    return c;
}

static int load_res(struct vae_loader *l, struct vae_res *b, int channels, const char *at)
{
    if (vae_load_conv(l, &b->conv1, with_silu(window(channels, channels)), true, "%s.main.conv1.conv", at) < 0 ||
        vae_load_conv(l, &b->conv2, window(channels, channels), false, "%s.main.conv2.conv", at) < 0)
        return -1;
    return vae_load_norm(l, &b->norm, channels, "%s.main.conv2.norm", at);
}

/* Row `i` of the queries, or of keys and values, in the joint matrix: heads of 32 + 32 + 32 rows. */
static size_t joint_row(bool query, size_t i)
{
    const size_t part = query ? VAE_HEAD : 2 * VAE_HEAD;
    return i / part * (3 * VAE_HEAD) + i % part + (query ? 0 : VAE_HEAD);
}

/* to[rows][each] of w; across: to[each][rows] */
static void pick_rows(float *to, const float *w, size_t rows, size_t each, bool query, bool across)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < each; i++)
            to[across ? i * rows + r : r * each + i] = w[joint_row(query, r) * each + i];
}

/* A joint tensor [3 C][each] as a convolution for the queries and one for the rest. */
static int load_joint(struct vae_loader *l, struct vae_conv *q, struct vae_conv *kv, struct kern_conv c, int channels,
                      const char *name)
{
    const size_t C = (size_t)channels, each = (size_t)c.in;
    const float *w = vae_load_tensor(l, name, 3 * C, each);
    float *sorted = w ? malloc(2 * C * each * sizeof(*sorted)) : NULL;
    int rc = -1;
    if (w && !sorted)
        err_set(l->err, ERR_MEMORY, "no memory for tensor %s", name);
    for (int half = 0; sorted && half < 2; half++) {
        const int rows = channels * (half ? 2 : 1);
        struct kern_conv own = c;
        *(c.groups == 1 ? &own.out : &own.groups) = c.groups == 1 ? rows : rows / c.out;
        pick_rows(sorted, w, (size_t)rows, each, !half, false);
        if ((rc = vae_load_packed(l, half ? kv : q, own, sorted)) < 0)
            break;
    }
    free(sorted);
    return rc;
}

/* [channels][taps] as [taps][channels]; joint: the rows of the queries, or the others */
static const float *load_depth(struct vae_loader *l, const char *name, int rows, int taps, int joint, bool query)
{
    const float *w = vae_load_tensor(l, name, (size_t)(joint ? joint : rows), (size_t)taps);
    const size_t n = (size_t)rows * (size_t)taps;
    float *to = w ? malloc(n * sizeof(*to)) : NULL;
    if (w && !to)
        err_set(l->err, ERR_MEMORY, "no memory for tensor %s", name);
    if (to && joint)
        pick_rows(to, w, (size_t)rows, (size_t)taps, query, true);
    for (int r = 0; to && !joint && r < rows; r++)
        for (int t = 0; t < taps; t++)
            to[t * rows + r] = w[r * taps + t];
    const float *kept = to ? vae_keep_floats(l, to, n) : NULL;
    free(to);
    return kept;
}

static int load_attention(struct vae_loader *l, struct vae_vit *b, int c, const char *at)
{
    char name[128];
    const struct kern_conv group = {.in = VAE_HEAD, .out = VAE_HEAD, .kernel = 1, .stride = 1, .groups = 2};
    snprintf(name, sizeof(name), "%s.context_module.main.qkv.conv.weight", at);
    if (load_joint(l, &b->q, &b->kv, point(c, c), c, name) < 0)
        return -1;
    snprintf(name, sizeof(name), "%s.context_module.main.aggreg.0.0.weight", at);
    if (!(b->depth_q = load_depth(l, name, c, 25, 3 * c, true)) ||
        !(b->depth_kv = load_depth(l, name, 2 * c, 25, 3 * c, false)))
        return -1;
    snprintf(name, sizeof(name), "%s.context_module.main.aggreg.0.1.weight", at);
    if (load_joint(l, &b->scale_q, &b->scale_kv, group, c, name) < 0 ||
        vae_load_conv(l, &b->proj, point(2 * c, c), false, "%s.context_module.main.proj.conv", at) < 0)
        return -1;
    return vae_load_norm(l, &b->proj_norm, c, "%s.context_module.main.proj.norm", at);
}

static int load_vit(struct vae_loader *l, struct vae_vit *b, int c, const char *at)
{
    char name[128];
    if (load_attention(l, b, c, at) < 0 ||
        vae_load_conv(l, &b->invert, with_silu(point(c, 8 * c)), true, "%s.local_module.main.inverted_conv.conv",
                      at) < 0)
        return -1;
    snprintf(name, sizeof(name), "%s.local_module.main.depth_conv.conv.weight", at);
    if (!(b->depth = load_depth(l, name, 8 * c, 9, 0, false)))
        return -1;
    snprintf(name, sizeof(name), "%s.local_module.main.depth_conv.conv.bias", at);
    if (!(b->depth_bias = load_depth(l, name, 8 * c, 1, 0, false)) ||
        vae_load_conv(l, &b->point, point(4 * c, c), false, "%s.local_module.main.point_conv.conv", at) < 0)
        return -1;
    return vae_load_norm(l, &b->point_norm, c, "%s.local_module.main.point_conv.norm", at);
}

static int load_change(struct vae_loader *l, struct vae_stage *s, int stage, const char *half, bool up)
{
    const int *w = l->v->cfg.width;
    struct kern_conv c = window(w[up ? stage + 1 : stage], w[up ? stage : stage + 1]);
    c.up = up;
    c.stride = up ? 1 : 2;
    return vae_load_conv(l, &s->change, c, true, "%s.stages.%d.op_list.%d.main.%s", half, stage, up ? 0 : s->blocks,
                         up ? "conv.conv" : "conv");
}

static int load_stage(struct vae_loader *l, int i, const char *half, bool up)
{
    const struct vae_config *c = &l->v->cfg;
    struct vae_stage *s = &l->v->stage[i];
    const bool change = i < c->stages - 1;
    char at[64];
    s->blocks = up ? c->decoder_depth[i] : c->encoder_depth[i];
    if (!(s->block = vae_keep(l, (size_t)s->blocks * sizeof(*s->block))))
        return -1;
    for (int b = 0; b < s->blocks; b++) {
        snprintf(at, sizeof(at), "%s.stages.%d.op_list.%d", half, i, b + (up && change));
        if ((c->attention[i] ? load_vit(l, &s->block[b].vit, c->width[i], at)
                             : load_res(l, &s->block[b].res, c->width[i], at)) < 0)
            return -1;
    }
    return change ? load_change(l, s, i, half, up) : 0;
}

int vae_load_dcae(struct vae_loader *l)
{
    struct vae *v = l->v;
    const struct vae_config *c = &v->cfg;
    const bool up = v->half == VAE_DECODER;
    const int deep = c->width[c->stages - 1];
    for (int i = 0; i < c->stages; i++)
        if (load_stage(l, i, up ? "decoder" : "encoder", up) < 0)
            return -1;
    if (!up)
        return vae_load_conv(l, &v->in, window(3, c->width[0]), true, "encoder.project_in.conv") < 0
                   ? -1
                   : vae_load_conv(l, &v->out, window(deep, c->latent), true,
                                   "encoder.project_out.main.op_list.0.conv");
    if (vae_load_conv(l, &v->in, window(c->latent, deep), true, "decoder.project_in.main.conv") < 0 ||
        vae_load_norm(l, &v->out_norm, c->width[0], "decoder.project_out.op_list.0") < 0)
        return -1;
    return vae_load_conv(l, &v->out, window(c->width[0], 3), true, "decoder.project_out.op_list.2.conv");
}

static int load_kl_res(struct vae_loader *l, struct vae_kl_res *r, int in, int out, const char *at)
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
        if (load_kl_res(l, &m->res[i], c, c, at) < 0)
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
static int load_kl_stage(struct vae_loader *l, int i, const char *half, bool up)
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
        if (load_kl_res(l, &s->res[b], b ? width : in, width, at) < 0)
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
        if (load_kl_stage(l, i, half, up) < 0)
            return -1;
    if (load_middle(l, half, deep) < 0 ||
        vae_load_conv(l, &v->in, up ? window(c->latent, deep) : window(3, high), true, "%s.conv_in", half) < 0 ||
        vae_load_norm(l, &v->out_norm, up ? high : deep, "%s.conv_norm_out", half) < 0 ||
        vae_load_conv(l, &v->out, up ? window(high, 3) : window(deep, 2 * c->latent), true, "%s.conv_out", half) < 0)
        return -1;
    return up ? vae_load_conv(l, &v->quant, point(c->latent, c->latent), true, "post_quant_conv")
              : vae_load_conv(l, &v->quant, point(2 * c->latent, 2 * c->latent), true, "quant_conv");
}
