/* SPDX-License-Identifier: Apache-2.0 */
/* encode_check.c - see encode_check.h */
#include "engine/encode/encode_check.h"

#include "engine/base/err.h"
#include "engine/contract/train_spec.h"
#include "engine/data/dataset.h"
#include "engine/encode/encode_place.h"
#include "engine/encode/encoder_pair.h"

static int check_cache(const struct train_spec *s, struct err *err)
{
    char cache[ENCODE_PLACE];
    encode_place_name(cache, s);
    return encode_place_check(cache, false, err);
}

int encode_check_found(const struct encoder_pair *e, const struct train_spec *s, struct err *err)
{
    const int edge = e->factor * s->model.patch;
    if (!s->multi_scale && s->resolution % edge != 0)
        return err_set(err, ERR_USAGE, "train.data.resolution: %d is not a multiple of %d, the pixels of a latent's "
                       "position times train.model.patch; take %d", s->resolution, edge,
                       s->resolution / edge > 0 ? s->resolution / edge * edge : edge);
    return check_cache(s, err);
}

int encode_check(const struct train_spec *s, struct err *err)
{
    struct encoder_pair e = {0};
    if (!train_spec_encodes(s))
        return s->encoders == ENCODERS_FEATURES ? dataset_check_features(s, err) : 0;
    if (check_cache(s, err) < 0 || encoder_pair_find(&e, s, err) < 0)
        return -1;
    const int rc = encode_check_found(&e, s, err);
    encoder_pair_free(&e);
    return rc;
}
