/* SPDX-License-Identifier: Apache-2.0 */
/* spec_check.h - a YAML tree against the rows, key by key, into canonical JSON
 *
 * Only what a single row can tell: keys, types, units, limits, choices, what is
 * not supported yet.  What holds between keys is jobspec.c's.  Paths are left as
 * they stand in the file.
 */
#ifndef CONTROLLER_SPEC_CHECK_H
#define CONTROLLER_SPEC_CHECK_H

#include <jansson.h>

struct err;
struct yaml_node;

/* Where and in what a spec is wrong. */
struct spec_place {
    const struct yaml_node *node; /* the value, or NULL */
    int                     is_key; /* its key rather than its value */
};

/* *out is a new reference: every key of the table, with defaults. On failure *out is NULL,
 * *place tells where and *err is a sentence that begins with the key's path. */
int spec_check(json_t **out, const struct yaml_node *root, struct spec_place *place,
               struct err *err);

/* One value against one row; `path` is for the sentence. NULL on failure. */
struct spec_field;
json_t *spec_check_value(const struct spec_field *row, const char *path,
                         const struct yaml_node *node, struct spec_place *place, struct err *err);

#endif
