/* SPDX-License-Identifier: Apache-2.0 */
/* weights_summary.h - describes a source of weights: family, size, types, and what a model would not use */
#ifndef ENGINE_WEIGHTS_WEIGHTS_SUMMARY_H
#define ENGINE_WEIGHTS_WEIGHTS_SUMMARY_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/files/safetensors.h"
#include "engine/weights/weights_names.h"

struct model_config;
struct weights_source;

struct weights_summary {
    enum weights_naming naming;
    int                 depth, hidden;       /* blocks, channels; 0: cannot be seen */
    bool                qk_norm, cross_norm; /* Sana: norms of queries and keys */
    int64_t             numbers;             /* of all tensors that the model uses */
    int                 taken, optional, dropped;
    int                 of_type[ST_DTYPES];  /* tensors */
    int                 inputs, captions;    /* channels of a token's input, and of a caption's; 0: cannot be seen */
    int                 kv;                  /* Lumina-Next: channels of all keys */
    const char         *model;               /* "Sana-1.5 1.6B", or NULL */
    const char         *preset;              /* with these sizes, or NULL */
};

enum { WEIGHTS_SUMMARY_TEXT = 160 };

void weights_summary_make(struct weights_summary *s, const struct weights_source *w);
/* Sizes and name of a model of a spec. */
void weights_summary_of_config(struct weights_summary *s, const struct model_config *cfg);
bool weights_summary_is_sana(const struct weights_summary *s);
/* Heads of softmax attention of a released model, which no tensor shows; 0: not a released model. */
int weights_summary_heads(const struct weights_summary *s);
/* "Sana 0.6B (sana-600m: depth 28, 1152 channels)" */
void weights_summary_text(char text[WEIGHTS_SUMMARY_TEXT], const struct weights_summary *s);

#endif
