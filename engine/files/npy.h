/* SPDX-License-Identifier: Apache-2.0 */
/* npy.h - NumPy arrays in memory: .npy, and .npz, a zip archive of them
 *
 * Format: numpy/lib/format.py.  Six bytes "\x93NUMPY", the version, the length of a header (2 bytes, from version 2 on
 * 4), the header, a dict of Python with descr, fortran_order and shape, and the numbers.  Read: numbers and bools of
 * the little-endian types that st_dtype has; Python objects (pickles) and records are refused.  No value is trusted.
 */
#ifndef ENGINE_FILES_NPY_H
#define ENGINE_FILES_NPY_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/files/safetensors.h"

struct err;

struct npy {
    struct st_tensor tensor; /* its data are in the bytes given; its name is "" */
    bool             fortran; /* the first index runs fastest */
};

/* `name` is for the sentence. */
int npy_parse(struct npy *out, const void *bytes, size_t size, const char *name, struct err *err);
/* All numbers in C's order; `count` must be that of the tensor. */
int npy_to_float(float *dst, const struct npy *a, size_t count, struct err *err);

/* Array `key` of an archive. 1, and *owned (for the caller to free) has its bytes; 0: there is none; -1. */
int npy_from_archive(struct npy *out, void **owned, const void *bytes, size_t size, const char *key, const char *name,
                     struct err *err);

#endif
