/* SPDX-License-Identifier: Apache-2.0 */
/* verify_rule.c - weights that a golden case tells a rule for, as they would be too large to keep
 *
 * Number i of a tensor is offset + scale * r, r from -1 to below 1: the upper 24 bits of
 * SplitMix64's i-th output, begun from the tensor's name (FNV-1a) and the case's seed.
 * "first_values" are what the authors' side drew; the rule must give the same.  Of
 * gradients such a case has at most 64 numbers a tensor, evenly spread.
 */
#include <string.h>

#include "engine/contract/err.h"
#include "engine/model/layout.h"
#include "engine/verify/verify_internal.h"

#define GOLDEN_GAMMA UINT64_C(0x9E3779B97F4A7C15)

struct draw {
    uint64_t state;
    double   offset, scale;
};

static struct draw draw_begin(const char *name, uint64_t seed, double offset, double scale)
{
    uint64_t h = UINT64_C(0xCBF29CE484222325);
    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * UINT64_C(0x100000001B3);
    return (struct draw){h + seed * GOLDEN_GAMMA, offset, scale};
}

static float draw_at(const struct draw *d, size_t i)
{
    uint64_t z = d->state + ((uint64_t)i + 1) * GOLDEN_GAMMA;
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    z ^= z >> 31;
    return (float)(d->offset + d->scale * ((double)(z >> 40) * 0x1p-23 - 1));
}

static bool same_shape(const struct tensor *t, const json_t *shape)
{
    if (json_array_size(shape) != (size_t)t->ndim)
        return false;
    for (int i = 0; i < t->ndim; i++)
        if (json_integer_value(json_array_get(shape, (size_t)i)) != t->dim[i])
            return false;
    return true;
}

static int draw_tensor(float *to, const struct tensor *t, const json_t *rule, struct err *err)
{
    const json_t *own = json_object_get(json_object_get(rule, "tensors"), t->name);
    const json_t *first = json_object_get(json_object_get(rule, "first_values"), t->name);
    const json_t *offset = json_object_get(own, "offset"), *scale = json_object_get(own, "scale");
    if (!json_is_number(offset) || !json_is_number(scale))
        return err_set(err, ERR_DATA, "procedural.tensors does not tell offset and scale of %s",
                       t->name);
    if (!same_shape(t, json_object_get(own, "shape")))
        return err_set(err, ERR_DATA, "procedural.tensors.%s has another shape than its "
                       "configuration asks for", t->name);
    const json_int_t seed = json_integer_value(json_object_get(rule, "seed"));
    const struct draw d = draw_begin(t->name, (uint64_t)seed, json_number_value(offset),
                                     json_number_value(scale));
    for (size_t i = 0; i < t->count; i++)
        to[i] = draw_at(&d, i);
    for (size_t i = 0; i < json_array_size(first) && i < t->count; i++)
        if (to[i] != (float)json_number_value(json_array_get(first, i)))
            return err_set(err, ERR_DATA, "number %zu of %s is %.9g by the rule; "
                           "procedural.first_values says %.9g", i, t->name, (double)to[i],
                           json_number_value(json_array_get(first, i)));
    return 0;
}

int verify_rule_weights(float *weights, const struct layout *l, const json_t *rule,
                        struct err *err)
{
    const char *name;
    json_t *own;
    if (!json_is_integer(json_object_get(rule, "seed")))
        return err_set(err, ERR_DATA, "procedural.seed is missing");
    for (int i = 0; i < layout_len(l); i++)
        if (draw_tensor(weights + layout_at(l, i)->offset, layout_at(l, i), rule, err) < 0)
            return -1;
    json_object_foreach(json_object_get(rule, "tensors"), name, own)
        if (layout_find(l, name) < 0)
            return err_set(err, ERR_DATA, "procedural.tensors.%s has no place in this "
                           "configuration", name);
    return 0;
}

size_t verify_rule_samples(size_t count)
{
    return count < VERIFY_SAMPLES ? count : VERIFY_SAMPLES;
}

size_t verify_rule_sample(size_t count, size_t j)
{
    const size_t k = verify_rule_samples(count);
    return k < 2 ? 0 : j * (count - 1) / (k - 1);
}
