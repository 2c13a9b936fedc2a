/* SPDX-License-Identifier: Apache-2.0 */
/* spec_check.h - a YAML tree against the rows, key by key, into canonical JSON
 *
 * Only what a single row can tell: keys, types, units, limits, choices, what is
 * not supported yet.  What holds between keys is spec_rules.h's.  Paths are left as
 * they stand in the file.
 */
#ifndef CONTROLLER_SPEC_SPEC_CHECK_H
#define CONTROLLER_SPEC_SPEC_CHECK_H

#include <jansson.h>

struct err;
struct spec_diagnostics;
struct spec_field;
struct yaml_node;

/* *out is a new reference: every key of the table, with defaults also where a value is wrong. What
 * is wrong is told to `faults`, each in a sentence that begins with the key's path, and distrusted.
 * -1 with *err: our own rows are wrong, or out of memory. */
int spec_check(json_t **out, const struct yaml_node *root, struct spec_diagnostics *diagnostics,
               struct err *err);

/* One value against one row; `path` is for the sentence. NULL: wrong, and told. */
json_t *spec_check_value(const struct spec_field *row, const char *path,
                         const struct yaml_node *node, struct spec_diagnostics *diagnostics);

#endif
