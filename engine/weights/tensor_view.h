/* SPDX-License-Identifier: Apache-2.0 */
/* tensor_view.h - a tensor in another program's file: its name, type, shape, and where its numbers are
 *
 * A view owns nothing: it is valid as long as the file is open.  Its numbers may overlap with those of other views,
 * lie apart, or repeat (a step of 0).  The code that fills a view has checked that every number is inside the file.
 */
#ifndef ENGINE_WEIGHTS_TENSOR_VIEW_H
#define ENGINE_WEIGHTS_TENSOR_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/files/safetensors.h"

struct err;

enum { TENSOR_VIEW_NAME = 192 };

struct tensor_view {
    char                 name[TENSOR_VIEW_NAME];
    enum st_dtype        dtype;
    int                  ndim;
    int64_t              dim[ST_DIMS];
    int64_t              step[ST_DIMS]; /* distance from one number to the next in this dimension, in numbers */
    size_t               count;         /* of numbers */
    const unsigned char *data;          /* the first number; possibly unaligned */
    bool                 swapped;       /* big-endian */
};

/* Strides of an array in C order, without gaps. */
void tensor_view_dense(struct tensor_view *v);
/* Are the numbers in this order in the file, little-endian? */
bool tensor_view_is_dense(const struct tensor_view *v);
/* The same tensor of a safetensors file. */
void tensor_view_of(struct tensor_view *v, const struct st_tensor *t);

/* Numbers [from, from + n) in C order, little-endian, as in the file. `from + n` is at most v->count. */
void tensor_view_copy(void *dst, const struct tensor_view *v, size_t from, size_t n);
/* The same as floats. */
void tensor_view_floats(float *dst, const struct tensor_view *v, size_t from, size_t n);

/* Adds name, type and all numbers to a digest. */
struct digest;
void tensor_view_digest(struct digest *d, const struct tensor_view *v);

/* "[3, 5]" */
void tensor_view_shape(char *text, size_t room, const struct tensor_view *v);

#endif
