/* SPDX-License-Identifier: Apache-2.0 */
/* layout_builder.h - tensors of a model, one after the other into a layout, until one fails */
#ifndef ENGINE_MODEL_LAYOUT_BUILDER_H
#define ENGINE_MODEL_LAYOUT_BUILDER_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/model/model_weight.h"

struct err;
struct layout;

/* Set layout and err. After a failure nothing more is done, and every weight is NO_WEIGHT. */
struct layout_builder {
    struct layout *layout;
    struct err    *err;
    bool           failed;
    char           prefix[32]; /* of the names that follow */
};

/* The next unit of the layout; its names begin with LIST.INDEX. or, where list is NULL, as they are. */
void layout_builder_unit(struct layout_builder *d, const char *list, int index);

/* [d0], or [d0, d1] where d1 is not 0; [d0, d1, k, k]; not trained. */
weight_at layout_builder_param(struct layout_builder *d, const char *name, int64_t d0, int64_t d1);
weight_at layout_builder_conv(struct layout_builder *d, const char *name, int64_t d0, int64_t d1,
                              int64_t k);
weight_at layout_builder_buffer(struct layout_builder *d, const char *name, int64_t d0, int64_t d1);

#endif
