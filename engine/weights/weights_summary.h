/* SPDX-License-Identifier: Apache-2.0 */
/* weights_summary.h - what a source of weights is: family, size, types, and what a model would not take */
#ifndef ENGINE_WEIGHTS_WEIGHTS_SUMMARY_H
#define ENGINE_WEIGHTS_WEIGHTS_SUMMARY_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/data/safetensors.h"
#include "engine/weights/weights_names.h"

struct weights_source;

struct weights_summary {
    enum weights_naming naming;
    int                 depth, hidden;       /* blocks, channels; 0: not to be seen */
    bool                qk_norm, cross_norm; /* Sana: norms of queries and keys */
    int64_t             numbers;             /* of all tensors that the model takes */
    int                 taken, optional, dropped;
    int                 of_type[ST_DTYPES];  /* tensors */
    const char         *model;               /* "Sana-1.5 1.6B", or NULL */
    const char         *preset;              /* with these sizes, or NULL */
};

void weights_summary_make(struct weights_summary *s, const struct weights_source *w);

#endif
