/* SPDX-License-Identifier: Apache-2.0 */
/* spec_set.h - `--set a.b=c`: puts a value from the command line into the tree of the file */
#ifndef CONTROLLER_SPEC_SPEC_SET_H
#define CONTROLLER_SPEC_SPEC_SET_H

struct err;
struct yaml_doc;
struct yaml_node;

/* `root` is a map of `doc`. The value is YAML. The new nodes are marked as coming from --set.
 * On failure the tree is unchanged. */
int spec_set(struct yaml_doc *doc, struct yaml_node *root, const char *assignment, struct err *err);

/* The same for a value that does not come from --set: `origin` is its source. */
int spec_set_as(struct yaml_doc *doc, struct yaml_node *root, const char *assignment, const char *origin,
                struct err *err);

#endif
