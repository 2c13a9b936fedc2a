/* SPDX-License-Identifier: Apache-2.0 */
/* collection_features.c - latents and text rows of samples, from .npy and .npz */
#include "engine/contract/err.h"
#include "engine/data/collection_internal.h"
int collection_latent(struct collection_latent *out, const struct collection *c, int64_t i, struct err *err)
{
    (void)out, (void)c, (void)i;
    return err_set(err, ERR_DATA, "not yet");
}
int collection_rows(struct collection_rows *out, const struct collection *c, int64_t i, int most, struct err *err)
{
    (void)out, (void)c, (void)i, (void)most;
    return err_set(err, ERR_DATA, "not yet");
}
