/* SPDX-License-Identifier: Apache-2.0 */
/* hub_spec.c - see hub_spec.h
 *
 * Pure: no clock, no I/O.
 */
#include "engine/hub/hub_spec.h"

#include <stddef.h>
#include <stdint.h>

#include "engine/hub/hub_name.h"

static const struct {
    const char *key, *map[2], *last, *parts;
} rows[] = {
    {"train.model.weights", {"train", "model"}, "weights", "transformer"},
    {"load_from", {NULL, NULL}, "load_from", "transformer"},
};

_Static_assert(sizeof(rows) / sizeof(*rows) <= HUB_SPEC_NAMES, "too many keys");

int hub_spec_names(struct hub_spec_name list[HUB_SPEC_NAMES], const json_t *spec)
{
    int n = 0;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        const json_t *map = spec;
        for (int k = 0; k < 2 && rows[i].map[k]; k++)
            map = json_object_get(map, rows[i].map[k]);
        const char *text = json_string_value(json_object_get(map, rows[i].last));
        if (text && hub_name_is(text))
            list[n++] = (struct hub_spec_name){.key = rows[i].key, .text = text, .parts = rows[i].parts,
                                               .map = (json_t *)(uintptr_t)map, .last = rows[i].last};
    }
    return n;
}
