/* SPDX-License-Identifier: Apache-2.0 */
/* spec_check.h - checks a YAML tree against the rows, key by key; builds canonical JSON
 *
 * Checks what single rows define: keys, types, units, limits, choices, features
 * not supported yet.  spec_rules.h checks constraints between keys.  Paths are
 * left as in the file.
 */
#ifndef CONTROLLER_SPEC_SPEC_CHECK_H
#define CONTROLLER_SPEC_SPEC_CHECK_H

#include <jansson.h>

struct err;
struct spec_diagnostics;
struct spec_field;
struct yaml_node;

/* *out is a new reference: every key of the table, with the default if a value is wrong. Mistakes
 * are added to the diagnostics, each a sentence that begins with the key's path, and suppressed.
 * -1 with *err: a bug in the rows, or out of memory. */
int spec_check(json_t **out, const struct yaml_node *root, struct spec_diagnostics *diagnostics, struct err *err);

/* The canonical spec of values by their full path, {"train.steps": 5}, a map that is given as true; all else as by
 * default. */
json_t *spec_unfold(const json_t *flat, struct err *err);

/* An item of a list of maps, of values by the paths of their rows ("watch[].name"), with defaults. NULL: the key
 * *missing is not there and has none. */
enum { SPEC_ITEMS_MOST = 32 };
json_t *spec_item_complete(const json_t *flat, const char *list, const char **missing);

/* Checks one value against one row; `path` is for messages. NULL: wrong and reported. */
json_t *spec_check_value(const struct spec_field *row, const char *path,
                         const struct yaml_node *node, struct spec_diagnostics *diagnostics);

#endif
