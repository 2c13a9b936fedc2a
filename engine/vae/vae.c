/* SPDX-License-Identifier: Apache-2.0 */
/* vae.c - see vae.h */
#include "engine/vae/vae.h"

#include <stdio.h>
#include <stdlib.h>

#include "engine/base/err.h"
#include "engine/model/backend.h"
#include "engine/vae/vae_internal.h"

int vae_create(struct vae **out, const struct vae_config *cfg, enum vae_half half, const struct vae_weights *weights,
               struct err *err)
{
    if (vae_config_check(cfg, err) < 0)
        return -1;
    struct vae *v = calloc(1, sizeof(*v));
    if (!v)
        return err_set(err, ERR_MEMORY, "no memory for an autoencoder");
    v->cfg = *cfg;
    v->half = half;
    v->memory = VAE_MEMORY;
    v->ops = weights->ops ? weights->ops : backend_ops();
    if (!(v->arrays = vae_arrays_create(v->ops))) {
        free(v);
        return err_set(err, ERR_MEMORY, "no memory for an autoencoder");
    }
    struct vae_loader l = {.v = v, .from = weights, .err = err};
    int rc = cfg->family == VAE_DCAE ? vae_load_dcae(&l) : vae_load_kl(&l);
    free(l.scratch);
    vae_arrays_trim(v->arrays);
    rc = rc < 0 ? rc : backend_check(v->ops, err);
    if (rc < 0)
        vae_destroy(v);
    else
        *out = v;
    return rc;
}

void vae_destroy(struct vae *v)
{
    if (!v)
        return;
    for (size_t i = 0; i < v->owned_len; i++)
        free(v->owned[i]);
    free(v->owned);
    if (v->ops->host)
        free(v->work);
    vae_arrays_destroy(v->arrays);
    free(v);
}

void vae_set_strip(struct vae *v, int rows)
{
    v->strip = rows;
}

void vae_set_memory(struct vae *v, size_t bytes)
{
    v->memory = bytes ? bytes : VAE_MEMORY;
}

void vae_observe(struct vae *v, vae_observer_fn *fn, void *arg)
{
    v->observer = fn;
    v->observer_arg = arg;
}

int vae_encode(struct vae *v, float *z, const float *picture, int height, int width, struct err *err)
{
    const int factor = vae_config_factor(&v->cfg);
    if (height < factor || width < factor || height % factor || width % factor)
        return err_set(err, ERR_USAGE, "a picture of %d x %d pixels cannot be encoded: both must be multiples of %d",
                       width, height, factor);
    const int rc = v->cfg.family == VAE_DCAE ? vae_dcae_encode(v, z, picture, height, width, err)
                                             : vae_kl_encode(v, z, picture, height, width, err);
    return rc < 0 ? rc : backend_check(v->ops, err);
}

int vae_decode(struct vae *v, float *picture, const float *z, int height, int width, struct err *err)
{
    const int rc = v->cfg.family == VAE_DCAE ? vae_dcae_decode(v, picture, z, height, width, err)
                                             : vae_kl_decode(v, picture, z, height, width, err);
    return rc < 0 ? rc : backend_check(v->ops, err);
}
