/* SPDX-License-Identifier: Apache-2.0 */
/* hub_spec.c - see hub_spec.h
 *
 * Pure: no clock, no I/O.
 */
#include "engine/hub/hub_spec.h"

#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "engine/hub/hub_name.h"

static const struct {
    const char *key, *map[2], *last, *parts;
} rows[] = {
    {"train.model.weights", {"train", "model"}, "weights", "transformer"},
    {"train.data.vae", {"train", "data"}, "vae", "vae"},
    {"train.data.text_encoder", {"train", "data"}, "text_encoder", "text_encoder,tokenizer"},
    {"train.data.tokenizer", {"train", "data"}, "tokenizer", "tokenizer"},
};

_Static_assert(sizeof(rows) / sizeof(*rows) <= HUB_SPEC_NAMES, "too many keys");

/* Weights are also those of the encoders, where the spec names no others. */
static const char *parts_of(size_t row, const json_t *spec)
{
    const json_t *data = json_object_get(json_object_get(spec, "train"), "data");
    const char *encoders = json_string_value(json_object_get(data, "encoders"));
    const bool encodes = encoders && (strcmp(encoders, "sana") == 0 || strcmp(encoders, "lumina") == 0);
    const bool vae = encodes && !json_is_string(json_object_get(data, "vae"));
    const bool text = encodes && !json_is_string(json_object_get(data, "text_encoder"));
    if (row > 0 || (!vae && !text))
        return rows[row].parts;
    return vae && text ? "transformer,vae,text_encoder,tokenizer"
           : vae       ? "transformer,vae"
                       : "transformer,text_encoder,tokenizer";
}

int hub_spec_names(struct hub_spec_name list[HUB_SPEC_NAMES], const json_t *spec)
{
    int n = 0;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        const json_t *map = spec;
        for (int k = 0; k < 2 && rows[i].map[k]; k++)
            map = json_object_get(map, rows[i].map[k]);
        const char *text = json_string_value(json_object_get(map, rows[i].last));
        if (text && hub_name_is(text))
            list[n++] = (struct hub_spec_name){.key = rows[i].key, .text = text, .parts = parts_of(i, spec),
                                               .map = (json_t *)(uintptr_t)map, .last = rows[i].last};
    }
    return n;
}
