/* SPDX-License-Identifier: Apache-2.0 */
/* layout_builder.c - see layout_builder.h */
#include "engine/model/layout_builder.h"

#include <stdio.h>

#include "engine/model/layout.h"

static weight_at add(struct layout_builder *d, const char *name, enum tensor_kind kind, int64_t d0,
                     int64_t d1, int64_t d2, int64_t d3)
{
    char full[TENSOR_NAME];
    const int64_t dim[] = {d0, d1, d2, d3};
    int ndim = 0;
    while (ndim < 4 && dim[ndim] > 0)
        ndim++;
    snprintf(full, sizeof(full), "%s%s", d->prefix, name);
    int i = d->failed ? -1 : layout_add(d->layout, full, kind, ndim, dim, d->err);
    if (i < 0) {
        d->failed = true;
        return NO_WEIGHT;
    }
    return (weight_at)layout_at(d->layout, i)->offset;
}

void layout_builder_unit(struct layout_builder *d, const char *list, int index)
{
    layout_next_unit(d->layout);
    if (list)
        snprintf(d->prefix, sizeof(d->prefix), "%s.%d.", list, index);
    else
        d->prefix[0] = '\0';
}

weight_at layout_builder_param(struct layout_builder *d, const char *name, int64_t d0, int64_t d1)
{
    return add(d, name, TENSOR_PARAM, d0, d1, 0, 0);
}

weight_at layout_builder_conv(struct layout_builder *d, const char *name, int64_t d0, int64_t d1,
                              int64_t k)
{
    return add(d, name, TENSOR_PARAM, d0, d1, k, k);
}

weight_at layout_builder_buffer(struct layout_builder *d, const char *name, int64_t d0, int64_t d1)
{
    return add(d, name, TENSOR_BUFFER, d0, d1, 0, 0);
}
