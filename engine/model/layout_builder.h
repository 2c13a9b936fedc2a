/* SPDX-License-Identifier: Apache-2.0 */
/* layout_builder.h - append a model's tensors to a layout, with one error check at the end */
#ifndef ENGINE_MODEL_LAYOUT_BUILDER_H
#define ENGINE_MODEL_LAYOUT_BUILDER_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/model/model_weight.h"

struct err;
struct layout;

/* Set layout and err. After a failure all calls do nothing, and every weight is NO_WEIGHT. */
struct layout_builder {
    struct layout *layout;
    struct err    *err;
    bool           failed;
    char           prefix[32]; /* prefix of later names */
};

/* Starts the next unit of the layout; its names begin with LIST.INDEX. or, if list is NULL, have no
 * prefix. */
void layout_builder_unit(struct layout_builder *d, const char *list, int index);

/* [d0], or [d0, d1] if d1 is not 0; [d0, d1, k, k]; not trained. */
weight_at layout_builder_param(struct layout_builder *d, const char *name, int64_t d0, int64_t d1);
weight_at layout_builder_conv(struct layout_builder *d, const char *name, int64_t d0, int64_t d1, int64_t k);
weight_at layout_builder_buffer(struct layout_builder *d, const char *name, int64_t d0, int64_t d1);
/* A pair of [d0, d1] (layout_add_first()). */
weight_at layout_builder_first(struct layout_builder *d, const char *name, int64_t d0, int64_t d1);
weight_at layout_builder_second(struct layout_builder *d, const char *name, weight_at first);

#endif
