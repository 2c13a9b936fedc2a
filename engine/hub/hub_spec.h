/* SPDX-License-Identifier: Apache-2.0 */
/* hub_spec.h - the keys of a job spec that may name a model on a hub
 *
 * Pure: no clock, no I/O.
 */
#ifndef ENGINE_HUB_HUB_SPEC_H
#define ENGINE_HUB_HUB_SPEC_H

#include <jansson.h>

enum { HUB_SPEC_NAMES = 8 };

struct hub_spec_name {
    const char *key;   /* "train.model.weights" */
    const char *text;  /* "hf://...", borrowed from the spec */
    const char *parts; /* the pipeline's parts that are needed (hub_select.h) */
    json_t     *map;   /* another name that has the part; borrowed from the spec ... */
    const char *last;  /* ... under this key */
};

/* Finds the keys that name a model; returns their number. */
int hub_spec_names(struct hub_spec_name list[HUB_SPEC_NAMES], const json_t *spec);

#endif
