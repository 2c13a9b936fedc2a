/* SPDX-License-Identifier: Apache-2.0 */
/* adapter_internal.h - struct adapter, for adapter*.c only */
#ifndef ENGINE_WEIGHTS_ADAPTER_INTERNAL_H
#define ENGINE_WEIGHTS_ADAPTER_INTERNAL_H

#include <jansson.h>

#include "engine/weights/adapter.h"

struct st_file;
struct st_tensor;

/* The tensors of one layer. */
struct adapter_layer {
    const struct st_tensor *a, *b, *alpha;
    int                     rank; /* 0: no adapter */
    double                  scale_alpha;
};

struct adapter {
    char                  path[ADAPTER_PATH];
    struct st_file       *file;
    json_t               *notes;      /* of the header or of adapter_config.json, or NULL */
    const char           *prefix;     /* of its keys */
    int                   depth;
    struct adapter_layer *layer;      /* [depth][LORA_MODULES] */
    bool                  has_alpha;
    struct lora_config    config;
};

/* adapter_config.c: the ranks and alphas of all layers, as one config. ERR_DATA: too many exceptions; DoRA. */
int adapter_configure(struct adapter *a, struct err *err);
/* The JSON text of the header; the caller frees it. */
char *adapter_notes(const struct lora_config *c, int depth, struct err *err);

#endif
