/* SPDX-License-Identifier: Apache-2.0 */
/* layout.h - table of a model's tensors: name, shape, offset in one allocation
 *
 * A model declares its tensors once, in order; all code that iterates over them
 * (optimizer, checkpoint, verify, clip, EMA) uses this table.  All tensors of
 * one class (weights, gradients, first moments, ...) live in one block of
 * layout_floats() floats, each starting at its offset, 64-byte aligned; the
 * gaps are zero and stay zero.
 *
 * Files and digests use the table's order. The order in memory differs only for the second tensor of a pair: two
 * tensors of the same shape, one directly after the other, so that a product takes them as one matrix. Units are in
 * order in memory.
 */
#ifndef ENGINE_MODEL_LAYOUT_H
#define ENGINE_MODEL_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

struct err;

enum { TENSOR_NAME = 96, TENSOR_DIMS = 4 };

enum tensor_kind {
    TENSOR_PARAM,   /* trained */
    TENSOR_BUFFER   /* saved with the weights, never trained (y_embedder.y_embedding) */
};

struct tensor {
    char             name[TENSOR_NAME]; /* the authors' state_dict name */
    enum tensor_kind kind;
    int              ndim;
    int64_t          dim[TENSOR_DIMS];
    size_t           count;             /* product of dim */
    size_t           offset;            /* in floats; with pairs, not monotonic in the index */
    size_t           room;              /* offset of an empty place for the second tensor of a pair, or 0 */
    int              unit;              /* group of tensors used together: 0, 1, ... in order */
};

struct layout; /* opaque: grows while it is built, then constant */

int layout_create(struct layout **out, struct err *err);
void layout_destroy(struct layout *l);

/* Append one tensor; returns its index, or -1 (name taken or too long, sizes overflow). */
int layout_add(struct layout *l, const char *name, enum tensor_kind kind, int ndim,
               const int64_t *dim, struct err *err);

/* Adds the first tensor of a pair: as layout_add(), with space after it for the second. */
int layout_add_first(struct layout *l, const char *name, enum tensor_kind kind, int ndim,
                     const int64_t *dim, struct err *err);

/* Adds the second tensor of a pair: same kind and shape as tensor `first`, layout_pair_rows() rows after it. Other
 * tensors may be added between the two, but no unit. -1 also if `first` has no space left for it. */
int layout_add_second(struct layout *l, const char *name, int first, struct err *err);

/* Rows from the first number of a pair to the first of its second tensor: at least `rows`, the fewest that keep the
 * second aligned. The gap is zero like any other: code that computes gradients of the pair as one matrix must
 * compute zeros there. */
int64_t layout_pair_rows(int64_t rows, int64_t cols);

/* Start the next unit: later tensors belong to it. A unit is one block of a model. */
void layout_next_unit(struct layout *l);

int layout_len(const struct layout *l);
const struct tensor *layout_at(const struct layout *l, int i);
int layout_find(const struct layout *l, const char *name); /* index or -1 */
size_t layout_floats(const struct layout *l);              /* floats of one block, gaps included */
int64_t layout_params(const struct layout *l);             /* trained numbers, gaps excluded */
/* 64-bit digest of all names, kinds and shapes in order. */
uint64_t layout_digest(const struct layout *l);

/* One zeroed, 64-byte aligned block; free with free(). NULL when out of memory. */
float *layout_alloc(const struct layout *l);

#endif
