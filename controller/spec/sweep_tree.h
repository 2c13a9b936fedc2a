/* SPDX-License-Identifier: Apache-2.0 */
/* sweep_tree.h - puts each point of a spec file's `sweep` into the file's tree, to be checked there
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
    json_t                 **values;            /* as found by sweep_tree_note(); NULL: not yet */
    int                      count;
    struct yaml_mark         key_at;            /* of a grid; the nodes of a list have their own */
};

struct sweep_tree {
    struct yaml_doc *doc;
    bool             list;      /* for points: the i-th values of all axes belong together */
    int              naxes, points;
    struct sweep_axis axes[SWEEP_KEYS_MAX];
};

/* Reads the value of `sweep`; the nodes are borrowed. -1: mistakes were added to *found, or no memory (*err). */
int sweep_tree_read(struct sweep_tree *t, struct yaml_doc *doc, struct yaml_node *root, struct spec_diagnostics *found,
                    struct err *err);
void sweep_tree_fini(struct sweep_tree *t);

/* Puts a point's values into the file's tree, replacing those of the previous point. */
int sweep_tree_put(const struct sweep_tree *t, struct yaml_node *root, int point, struct spec_diagnostics *found,
                   struct err *err);

/* Records the values that a point's checked spec has. */
void sweep_tree_note(struct sweep_tree *t, int point, const json_t *spec);

/* The canonical form, a new value; all points must have been noted. NULL: no memory. */
json_t *sweep_tree_canonical(const struct sweep_tree *t);

#endif
