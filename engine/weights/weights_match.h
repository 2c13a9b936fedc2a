/* SPDX-License-Identifier: Apache-2.0 */
/* weights_match.h - which tensors of a source feed each tensor of a model, and which match none
 *
 * A tensor of the model is fed by one tensor of the source, or by several that have its rows (weights_names.h).
 * Shapes match if they differ in dimensions of 1 only.  Nothing is copied before weights_match_read().
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
    int part[WEIGHTS_PARTS]; /* tensors of the source, in the order of their rows; -1: not there */
    int parts;               /* 0: none of them is there */
};

/* Begin with zeros; the first name of each kind, "" if there is none. */
struct weights_match {
    enum weights_naming  naming;
    struct weights_feed *feed;    /* of each tensor of the layout */
    int                  matched; /* tensors of the model that are there as a whole */
    int                  missing, shapes; /* of the model: not there, or of another shape */
    int                  dropped;         /* of the source: the model has none for it */
    int                  ignored;         /* the same, but such as are never used (weights_names_optional()) */
    char                 first_missing[WEIGHTS_NAME], first_dropped[WEIGHTS_NAME];
    char                 first_shape[2 * WEIGHTS_NAME]; /* "NAME, [2, 3] instead of [2, 4]" */
};

/* ERR_DATA: two copies of a tensor differ; ERR_MEMORY. */
int weights_match_make(struct weights_match *m, const struct layout *l, const struct weights_source *w,
                       struct err *err);
void weights_match_free(struct weights_match *m); /* also of zeros */

/* Numbers [from, to) of tensor `i` of the layout as floats; false: the source has them not. */
bool weights_match_read(const struct weights_match *m, const struct layout *l, const struct weights_source *w, int i,
                        size_t from, size_t to, float *out);

#endif
