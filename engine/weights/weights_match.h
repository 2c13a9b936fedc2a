/* SPDX-License-Identifier: Apache-2.0 */
/* weights_match.h - which tensors of a source feed each tensor of a model, and which match none
 *
 * A tensor of the model is filled from one tensor of the source, or from several that have its rows (weights_names.h).
 * Shapes match if they differ only by dimensions of 1.  Nothing is copied before weights_match_read().
 */
#ifndef ENGINE_WEIGHTS_WEIGHTS_MATCH_H
#define ENGINE_WEIGHTS_WEIGHTS_MATCH_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/weights/weights_names.h"

struct err;
struct layout;
struct weights_source;

enum { WEIGHTS_PARTS = 3 };

struct weights_feed {
    int part[WEIGHTS_PARTS]; /* tensors of the source, in row order; -1: missing */
    int parts;               /* 0: none exists */
};

/* Start with zeros; the first name of each kind, "" if there is none. */
struct weights_match {
    enum weights_naming  naming;
    struct weights_feed *feed;    /* one per tensor of the layout */
    int                  matched; /* complete tensors of the model */
    int                  missing, shapes; /* the model's tensors that are missing, or have another shape */
    int                  dropped;         /* the source's tensors that the model does not have */
    int                  ignored;         /* the same, but never used (weights_names_optional()) */
    char                 first_missing[WEIGHTS_NAME], first_dropped[WEIGHTS_NAME];
    char                 first_shape[2 * WEIGHTS_NAME]; /* "NAME, [2, 3] instead of [2, 4]" */
};

/* ERR_DATA: two copies of a tensor differ; ERR_MEMORY. */
int weights_match_make(struct weights_match *m, const struct layout *l, const struct weights_source *w,
                       struct err *err);
void weights_match_free(struct weights_match *m); /* accepts a zeroed struct */

/* Numbers [from, to) of tensor `i` of the layout as floats; false: the source does not have them. */
bool weights_match_read(const struct weights_match *m, const struct layout *l, const struct weights_source *w, int i,
                        size_t from, size_t to, float *out);

#endif
