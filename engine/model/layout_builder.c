/* SPDX-License-Identifier: Apache-2.0 */
/* layout_builder.c - see layout_builder.h */
#include "engine/model/layout_builder.h"

#include <stdio.h>

#include "engine/model/layout.h"

/* Where tensor i is; i < 0: it was not added. */
static weight_at placed(struct layout_builder *d, int i)
{
    d->failed = d->failed || i < 0;
    return i < 0 ? NO_WEIGHT : (weight_at)layout_at(d->layout, i)->offset;
}

typedef int (*add_fn)(struct layout *l, const char *name, enum tensor_kind kind, int ndim, const int64_t *dim,
                      struct err *err);

static weight_at add_by(struct layout_builder *d, add_fn fn, const char *name, enum tensor_kind kind,
                        const int64_t dim[4])
{
    char full[TENSOR_NAME];
    int ndim = 0;
    while (ndim < 4 && dim[ndim] > 0)
        ndim++;
    snprintf(full, sizeof(full), "%s%s", d->prefix, name);
    return placed(d, d->failed ? -1 : fn(d->layout, full, kind, ndim, dim, d->err));
}

static weight_at add(struct layout_builder *d, const char *name, enum tensor_kind kind, int64_t d0,
                     int64_t d1, int64_t d2, int64_t d3)
{
    return add_by(d, layout_add, name, kind, (const int64_t[]){d0, d1, d2, d3});
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

weight_at layout_builder_conv(struct layout_builder *d, const char *name, int64_t d0, int64_t d1, int64_t k)
{
    return add(d, name, TENSOR_PARAM, d0, d1, k, k);
}

weight_at layout_builder_buffer(struct layout_builder *d, const char *name, int64_t d0, int64_t d1)
{
    return add(d, name, TENSOR_BUFFER, d0, d1, 0, 0);
}

weight_at layout_builder_first(struct layout_builder *d, const char *name, int64_t d0, int64_t d1)
{
    return add_by(d, layout_add_first, name, TENSOR_PARAM, (const int64_t[]){d0, d1, 0, 0});
}

weight_at layout_builder_second(struct layout_builder *d, const char *name, weight_at first)
{
    char full[TENSOR_NAME];
    int i = layout_len(d->layout) - 1;
    while (i >= 0 && layout_at(d->layout, i)->offset != (size_t)first)
        i--;
    snprintf(full, sizeof(full), "%s%s", d->prefix, name);
    return placed(d, d->failed ? -1 : layout_add_second(d->layout, full, i, d->err));
}
