/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors.h - read and write safetensors files
 *
 * The file: u64 little-endian length of a JSON header; the header maps a name
 * to {"dtype","shape","data_offsets":[begin,end)} relative to the end of the
 * header; then the bytes.  "__metadata__" maps strings to strings.
 *
 * Reading maps the file and checks everything before use: header length against
 * file size (and 100 MB), JSON without duplicate names, dtype, shape product
 * without overflow against the offsets, offsets in range and not overlapping.
 * No value in the file is trusted.
 */
#ifndef ENGINE_FILES_SAFETENSORS_H
#define ENGINE_FILES_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

struct err;

enum st_dtype { ST_F32, ST_F64, ST_F16, ST_BF16, ST_I64, ST_I32, ST_U8, ST_I16, ST_I8, ST_BOOL, ST_DTYPES };
enum { ST_NAME = 128, ST_DIMS = 8 };

struct st_tensor {
    char          name[ST_NAME];
    enum st_dtype dtype;
    int           ndim;
    int64_t       dim[ST_DIMS];
    size_t        count;
    size_t        bytes;
    const void   *data;   /* into the mapping; possibly unaligned: use memcpy */
    size_t        at;     /* offset of `data` in the file */
};

struct st_file;

int st_open(struct st_file **out, const char *path, struct err *err);
/* The same checks on bytes in memory that outlive the st_file (fuzzer, tests). */
int st_parse(struct st_file **out, const void *bytes, size_t size, struct err *err);
void st_close(struct st_file *f);

int st_len(const struct st_file *f);
const struct st_tensor *st_at(const struct st_file *f, int i);
const struct st_tensor *st_find(const struct st_file *f, const char *name); /* or NULL */
const char *st_meta(const struct st_file *f, const char *key);              /* or NULL */

/* Copy with conversion to float or double; count must be t->count. */
int st_to_float(float *dst, const struct st_tensor *t, size_t count, struct err *err);
int st_to_double(double *dst, const struct st_tensor *t, size_t count, struct err *err);

/* Numbers [from, from + n) of a tensor. */
int st_range_to_float(float *dst, const struct st_tensor *t, size_t from, size_t n, struct err *err);

/* Writing: describe all tensors, then write them in that order, then finish.
 * Bytes go to `fd` from its current offset; the caller syncs and renames. */
struct st_writer;
int st_writer_create(struct st_writer **out, struct err *err);
void st_writer_destroy(struct st_writer *w);
int st_writer_meta(struct st_writer *w, const char *key, const char *value, struct err *err);
/* `data` must live until st_writer_write(). */
int st_writer_add(struct st_writer *w, const char *name, enum st_dtype dtype, int ndim,
                  const int64_t *dim, const void *data, struct err *err);
/* Writes everything; *bytes gets the size. A short write or full disk is ERR_SYSTEM. */
int st_writer_write(struct st_writer *w, int fd, int64_t *bytes, struct err *err);

/* Writes the header and reserves disk space for the rest: st_open() then gives the place of each
 * tensor. */
int st_writer_reserve(struct st_writer *w, int fd, int64_t *bytes, struct err *err);

size_t st_dtype_size(enum st_dtype d);
const char *st_dtype_name(enum st_dtype d);

#endif
