/* SPDX-License-Identifier: Apache-2.0 */
/* row_stream.h - a chain of layers over one picture, computed in strips of rows
 *
 * Each layer keeps a window of the rows that it has computed. A request for rows [from, to) of a layer makes it compute
 * the missing ones, and the layer requests the rows that these need from its input: the halo of a convolution is in the
 * input's window, so nothing is computed twice, and the result is that of the whole picture. `from` must not decrease
 * from call to call; rows before it are dropped. Pictures are [height, width, channels].
 */
#ifndef ENGINE_VAE_ROW_STREAM_H
#define ENGINE_VAE_ROW_STREAM_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/vae/vae_arrays.h"
#include "kernels/kernels.h"

struct err;
struct row_layer;

/* Computes rows [from, to), which are in the picture, into `out`. */
typedef int row_layer_fn(struct row_layer *l, float *out, int from, int to, struct err *err);

struct row_layer {
    struct row_layer *input;          /* owned; NULL for a source */
    struct row_layer *inner, *beside; /* owned chains down to `input` or a source of their own; NULL: none */
    row_layer_fn     *compute;        /* NULL: all rows are there, in memory of the caller */
    const void       *weights;        /* of the layer, in the numbering of compute() */
    const struct kern_ops *ops;       /* those of the stream, ... */
    struct vae_arrays *arrays;        /* ... and where its rows are */
    int               height, width, channels;
    float            *rows;           /* the window: [first, last) */
    int               first, last, capacity;
    int               hold;           /* this row and later ones are kept, for all readers */
};

struct row_stream {
    struct row_layer      *top; /* NULL: empty */
    const struct kern_ops *ops; /* of all its layers ... */
    struct vae_arrays *arrays;  /* ... where they have their rows */
};

/* The whole picture in memory, which outlives the stream. */
int row_stream_begin(struct row_stream *s, const float *picture, int height, int width, int channels, struct err *err);
/* One more layer on top. On failure the stream is as before. */
int row_stream_push(struct row_stream *s, row_layer_fn *compute, const void *weights, int height, int width,
                    int channels, struct err *err);
/* A layer of its own with the same input as `l`. */
void row_stream_end(struct row_stream *s);
/* Destroys the layers above `at`, which is then on top. */
void row_stream_cut(struct row_stream *s, struct row_layer *at);

/* The layer's rows [from, to), clipped to the picture, and possibly others. */
int row_layer_need(struct row_layer *l, int from, int to, struct kern_rows *out, struct err *err);
/* Where row `row` begins. */
const float *row_at(const struct kern_rows *r, int row);

/* All rows of the result, `strip` at a time. Layers start again: a stream can run several times. */
typedef int row_sink_fn(void *arg, const float *rows, int from, int to, struct err *err);
int row_stream_run(struct row_stream *s, int strip, row_sink_fn *sink, void *arg, struct err *err);
/* Into one picture. */
int row_stream_store(struct row_stream *s, int strip, float *picture, struct err *err);

#endif
