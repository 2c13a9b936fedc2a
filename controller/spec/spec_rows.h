/* SPDX-License-Identifier: Apache-2.0 */
/* spec_rows.h - every key of a job spec outside `train:`, as rows
 *
 * The rows of `train:` are defined by the engine (engine/contract/train_spec.h) in the
 * same form; spec_row_find() and spec_row_next() treat both as one table.
 */
#ifndef CONTROLLER_SPEC_SPEC_ROWS_H
#define CONTROLLER_SPEC_SPEC_ROWS_H

#include <stddef.h>

#include "engine/contract/train_spec.h"

enum { SPEC_PATH = 96 };

/* One row of the joined table; `path` is the full path: "train.optimizer.lr". */
struct spec_row {
    char                     path[SPEC_PATH];
    const struct spec_field *field;
};

/* Iterates over all rows in the order of the canonical JSON. *cursor starts at 0; returns 0 at
 * the end. */
int spec_row_next(struct spec_row *row, size_t *cursor);

/* The row of a full path, or NULL. */
const struct spec_field *spec_row_find(const char *path);

/* The canonical path of another accepted spelling ("num_nodes"), or NULL. */
const char *spec_row_alias(const char *path);

/* Name of the last part: "lr" of "optimizer.lr". */
const char *spec_row_leaf(const char *path);

#endif
