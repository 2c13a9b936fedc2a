/* SPDX-License-Identifier: Apache-2.0 */
/* vae_load.c - weights of an autoencoder, read by name and packed for the kernels */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/contract/err.h"
#include "engine/vae/vae_internal.h"

enum { NAME = 128 };

void *vae_keep(struct vae_loader *l, size_t bytes)
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

const float *vae_keep_floats(struct vae_loader *l, const float *from, size_t n)
{
    float *p = keep_array(l, n);
    if (p)
        l->v->ops->upload(p, from, n * sizeof(float));
    return p;
}

const float *vae_load_tensor(struct vae_loader *l, const char *name, size_t rows, size_t each)
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

int vae_load_packed(struct vae_loader *l, struct vae_conv *to, struct kern_conv c, const float *w)
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

int vae_load_conv(struct vae_loader *l, struct vae_conv *to, struct kern_conv c, bool bias, const char *format, ...)
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

int vae_load_norm(struct vae_loader *l, struct vae_norm *to, int channels, const char *format, ...)
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
