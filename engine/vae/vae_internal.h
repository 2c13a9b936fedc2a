/* SPDX-License-Identifier: Apache-2.0 */
/* vae_internal.h - internals of an autoencoder, shared only by this room's files */
#ifndef ENGINE_VAE_VAE_INTERNAL_H
#define ENGINE_VAE_VAE_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/vae/vae.h"
#include "engine/vae/vae_arrays.h"
#include "kernels/kernels.h"

/* A chain of layers over one picture, computed in strips of rows
 *
 * Each layer keeps a window of the rows that it has computed. When rows [from, to) are requested, a layer computes the
 * missing ones, requesting the rows that they need from its input: the halo of a convolution is in the input's window,
 * so nothing is computed twice, and the result is that of the whole picture. `from` must not decrease from call to
 * call; rows before it are dropped. Pictures are [height, width, channels].
 */
struct err;
struct row_layer;

/* Computes rows [from, to), which are in the picture, into `out`. */
typedef int row_layer_fn(struct row_layer *l, float *out, int from, int to, struct err *err);

struct row_layer {
    struct row_layer *input;          /* owned; NULL for a source */
    struct row_layer *inner, *beside; /* owned chains down to `input` or a source of their own; NULL: none */
    row_layer_fn     *compute;        /* NULL: all rows are there, in memory of the caller */
    const void       *weights;        /* the layer's rows, in the numbering of compute() */
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
/* Adds a layer on top. On failure the stream is unchanged. */
int row_stream_push(struct row_stream *s, row_layer_fn *compute, const void *weights, int height, int width,
                    int channels, struct err *err);
/* Creates a separate layer with the same input as `l`. */
void row_stream_end(struct row_stream *s);
/* Destroys the layers above `at`, which is then on top. */
void row_stream_cut(struct row_stream *s, struct row_layer *at);

/* The layer's rows [from, to), clipped to the picture, and possibly others. */
int row_layer_need(struct row_layer *l, int from, int to, struct kern_rows *out, struct err *err);
/* Where row `row` begins. */
const float *row_at(const struct kern_rows *r, int row);

/* Computes all rows of the result, `strip` at a time. Layers restart: a stream can run several times. */
typedef int row_sink_fn(void *arg, const float *rows, int from, int to, struct err *err);
int row_stream_run(struct row_stream *s, int strip, row_sink_fn *sink, void *arg, struct err *err);
/* The same into one picture. */
int row_stream_store(struct row_stream *s, int strip, float *picture, struct err *err);

enum { VAE_HEAD = 32 };

/* Packed weights. `work` is the scratch memory of all convolutions of the model. */
struct vae_conv {
    struct kern_conv c;
    const float     *w, *bias;
    float *const    *work;
};

struct vae_norm {
    const float *w, *b;
};

/* x + RMS(conv2(silu(conv1 x))) */
struct vae_res {
    struct vae_conv conv1, conv2;
    struct vae_norm norm;
};

/* Queries separate from keys and values: the sums over the picture need only the latter. `scale`: the second scale. */
struct vae_vit {
    struct vae_conv q, kv, scale_q, scale_kv, proj, invert, point;
    const float    *depth_q, *depth_kv; /* [25][channels] */
    const float    *depth, *depth_bias; /* [9][8 C] */
    struct vae_norm proj_norm, point_norm;
};

union vae_block {
    struct vae_res res;
    struct vae_vit vit;
};

/* GroupNorm, SiLU, convolution, twice; a parallel 1x1 convolution if the channels change (w NULL: none). */
struct vae_kl_res {
    struct vae_norm norm1, norm2;
    struct vae_conv conv1, conv2, shortcut;
};

struct vae_kl_middle {
    struct vae_kl_res res[2];
    struct vae_norm   norm;
    struct vae_conv   q, k, v, out;
};

struct vae_stage {
    union vae_block   *block;
    struct vae_kl_res *res;
    int                blocks;
    struct vae_conv    change; /* of resolution: behind the blocks of an encoder, before those of a decoder */
};

struct vae {
    struct vae_config      cfg;
    enum vae_half          half;
    const struct kern_ops *ops;
    struct vae_arrays     *arrays;
    struct vae_conv        in, out, quant;
    struct vae_norm        out_norm;
    struct vae_stage       stage[VAE_STAGES];
    struct vae_kl_middle   middle;
    int                    strip;
    size_t                 memory; /* budget for whole pictures that could be recomputed (KL) */
    vae_observer_fn       *observer;
    void                  *observer_arg;
    float                 *work;
    size_t                 work_size;
    void                 **owned;
    size_t                 owned_len;
};

/* vae_load.c: reads and packs weights */
struct vae_loader {
    struct vae               *v;
    const struct vae_weights *from;
    float                    *scratch;
    size_t                    room;
    struct err               *err;
};
int vae_load_dcae(struct vae_loader *l);
int vae_load_kl(struct vae_loader *l);

/* Layers of a stream; `weights` is the named struct */
int row_conv(struct row_layer *l, float *out, int from, int to, struct err *err);      /* vae_conv */
int row_res(struct row_layer *l, float *out, int from, int to, struct err *err);       /* vae_res */
int row_change(struct row_layer *l, float *out, int from, int to, struct err *err);    /* vae_conv, with a shortcut */
int row_spread(struct row_layer *l, float *out, int from, int to, struct err *err);    /* vae_conv, with spread_add() */
int row_rms_relu(struct row_layer *l, float *out, int from, int to, struct err *err);  /* vae_norm */
/* vae_conv, the second of the block; inner: what it reads, beside: the shortcut's convolution */
int row_kl_res(struct row_layer *l, float *out, int from, int to, struct err *err);
struct row_scale {
    float *scale, *shift;
};
int row_scale_silu(struct row_layer *l, float *out, int from, int to, struct err *err); /* row_scale */
/* weights: const float *, a picture [channels, height, width] where the kernels run */
int row_planes(struct row_layer *l, float *out, int from, int to, struct err *err);
/* A layer of this convolution on top. */
int row_push_conv(struct row_stream *s, row_layer_fn *fn, const struct vae_conv *c, struct err *err);

/* A picture [height, width, channels] in memory (vae_arrays); the owner of the struct owns x. */
struct vae_map {
    float *x;
    int    height, width, channels;
};
/* Stores the stream's result and ends the stream. map->x is replaced: the stream may read the old one until then. */
int vae_map_run(struct vae *v, struct vae_map *map, struct row_stream *s, struct err *err);
/* Rows per strip of a stream. */
int vae_stream_strip(const struct vae *v, const struct row_stream *s);
int vae_observe_map(const struct vae *v, const char *part, const struct vae_map *map, const char *format, int i,
                    struct err *err);
/* Copies a host picture [channels, height, width] to where the kernels run, for vae_arrays_drop_input(). */
int vae_planes_begin(struct vae *v, const float **out, const float *planes, int height, int width, int channels,
                     struct err *err);
/* Copies a stream's rows to host memory as z or picture [channels, height, width]; ends the stream. */
int vae_planes_run(struct vae *v, float *to, struct row_stream *s, struct err *err);

/* The sums of a picture, and the norm as scale and shift from them */
/* y = (x - mean) / sqrt(var + eps) * w + b as x * scale + shift, of the stream's result. The caller drops s->scale. */
int vae_norm_scale(struct vae *v, struct row_scale *s, struct row_stream *of, const struct vae_norm *n,
                   struct err *err);

/* x += attention(norm x) over the whole picture, in place */
int vae_middle_attend(struct vae *v, struct vae_map *map, const struct row_scale *norm, struct err *err);

/* vae_dcae.c, vae_kl.c */
int vae_dcae_encode(struct vae *v, float *z, const float *picture, int height, int width, struct err *err);
int vae_dcae_decode(struct vae *v, float *picture, const float *z, int height, int width, struct err *err);
int vae_kl_encode(struct vae *v, float *z, const float *picture, int height, int width, struct err *err);
int vae_kl_decode(struct vae *v, float *picture, const float *z, int height, int width, struct err *err);

#endif
