/* SPDX-License-Identifier: Apache-2.0 */
/* sweep_tree.h - `sweep` of a spec file: puts each of its points into the tree of the file, to be checked there
 *
 * A value keeps its line and column, so that a check that refuses it names its place in the sweep.
 */
#ifndef CONTROLLER_SPEC_SWEEP_TREE_H
#define CONTROLLER_SPEC_SWEEP_TREE_H

#include <jansson.h>
#include <stdbool.h>

#include "controller/base/yaml.h"
#include "controller/spec/spec_rows.h"
#include "controller/spec/sweep_points.h"

struct err;
struct spec_diagnostics;

struct sweep_axis {
    char                     path[SPEC_PATH];   /* canonical */
    const struct yaml_node **nodes;
    json_t                 **values;            /* as sweep_tree_note() found them; NULL: not yet */
    int                      count;
    struct yaml_mark         key_at;            /* of a grid; the nodes of a list have their own */
};

struct sweep_tree {
    struct yaml_doc *doc;
    bool             list;      /* of points: the i-th values of all axes belong together */
    int              naxes, points;
    struct sweep_axis axes[SWEEP_KEYS_MAX];
};

/* Reads the value of `sweep`; the nodes are borrowed. -1: mistakes were added to *found, or no memory (*err). */
int sweep_tree_read(struct sweep_tree *t, struct yaml_doc *doc, struct yaml_node *root, struct spec_diagnostics *found,
                    struct err *err);
void sweep_tree_fini(struct sweep_tree *t);

/* Puts the values of a point into the tree of the file, over those of the point before. */
int sweep_tree_put(const struct sweep_tree *t, struct yaml_node *root, int point, struct spec_diagnostics *found,
                   struct err *err);

/* Remembers the values that the checked spec of a point has. */
void sweep_tree_note(struct sweep_tree *t, int point, const json_t *spec);

/* Canonical, a new value; all points were noted. NULL: no memory. */
json_t *sweep_tree_canonical(const struct sweep_tree *t);

#endif
