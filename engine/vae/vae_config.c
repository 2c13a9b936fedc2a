/* SPDX-License-Identifier: Apache-2.0 */
/* vae_config.c - see vae_config.h */
#include "engine/vae/vae_config.h"

#include "engine/base/err.h"

static bool divide(int a, int b)
{
    return a % b == 0;
}

static int check_dcae(const struct vae_config *c, struct err *err)
{
    const int last = c->stages - 1;
    for (int i = 0; i < c->stages; i++)
        if (c->attention[i] && c->width[i] % 32)
            return err_set(err, ERR_DATA, "stage %d of the autoencoder has attention and %d channels: not a multiple "
                           "of 32", i, c->width[i]);
    for (int i = 0; i < last; i++)
        if (!divide(4 * c->width[i], c->width[i + 1]))
            return err_set(err, ERR_DATA, "no shortcut leads from %d channels of the autoencoder to %d: 4 times the "
                           "first must be a multiple of the second", c->width[i], c->width[i + 1]);
    return divide(c->width[last], c->latent)
               ? 0
               : err_set(err, ERR_DATA, "%d channels of the autoencoder are not a multiple of its %d latent ones",
                         c->width[last], c->latent);
}

static int check_kl(const struct vae_config *c, struct err *err)
{
    for (int i = 0; i < c->stages; i++)
        if (!divide(c->width[i], c->groups))
            return err_set(err, ERR_DATA, "%d channels of the autoencoder are not a multiple of its %d groups",
                           c->width[i], c->groups);
    return 0;
}

int vae_config_check(const struct vae_config *c, struct err *err)
{
    return c->family == VAE_DCAE ? check_dcae(c, err) : check_kl(c, err);
}

int vae_config_factor(const struct vae_config *c)
{
    return 1 << (c->stages - 1);
}
