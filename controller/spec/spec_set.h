/* SPDX-License-Identifier: Apache-2.0 */
/* spec_set.h - `--set a.b=c`: a value from the command line put into the tree of the file */
#ifndef CONTROLLER_SPEC_SPEC_SET_H
#define CONTROLLER_SPEC_SPEC_SET_H

struct err;
struct yaml_doc;
struct yaml_node;

/* `root` is a map of `doc`. The value is YAML. The nodes remember that they came from --set.
 * A wrong one leaves the tree as it is. */
int spec_set(struct yaml_doc *doc, struct yaml_node *root, const char *assignment,
             struct err *err);

#endif
