/* SPDX-License-Identifier: Apache-2.0 */
/* gemma.h - the decoders Gemma 1 and Gemma 2 as text encoders: token ids to vectors
 *
 * For each layer, with x = RMS(h) * (1 + w):
 *
 *   s = scale q.k of grouped heads, after rotation of the pairs (i, i + d/2) by position * theta^(-2i/d)
 *   s = cap tanh(s / cap)                        Gemma 2
 *   a query sees itself and earlier positions whose mask is 1; in even layers of Gemma 2 only `window` of them. A query
 *   that sees nothing gives every key the same weight, because all scores are the type's minimum h += attention, h +=
 *   down(gelu(gate x) * up x); Gemma 2 normalises both branches before they are added
 *
 * The embedding is multiplied by sqrt(hidden).  Sources: modeling_gemma.py and modeling_gemma2.py of transformers.
 *
 * Weights are requested by name when a layer runs. On the CPU, bf16 matrices stay where they are, for example in a
 * mapped file, and matrices of another type are converted to floats one at a time; a device gets each matrix once
 * (gemma_place.h).
 *
 * A common prefix of texts is computed once: a run can keep keys and values of its positions, and later runs continue
 * after them (struct gemma_prefix).
 */
#ifndef ENGINE_TEXT_GEMMA_H
#define ENGINE_TEXT_GEMMA_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct gemma_place;

struct gemma_config {
    int    version;  /* 1 or 2 */
    int    vocab, hidden, intermediate, layers, heads, kv_heads, head_dim;
    int    window;   /* window of even layers; 0: none */
    double cap;      /* of attention scores; 0: none */
    double scale, eps, theta;
};

/* The keys of config.json; ERR_DATA names the value that is missing or impossible. */
int gemma_config_parse(struct gemma_config *out, int version, const json_t *config, struct err *err);

/* Exactly one of these is set. */
struct gemma_matrix {
    const float *floats;
    const void  *bf16;   /* at any address */
};

struct gemma_weights {
    /* Returns the `count` floats of a tensor: in `scratch`, which has space for them, or in memory of its own. NULL
     * with an error: missing, or another size. */
    const float *(*tensor)(void *arg, const char *name, size_t count, float *scratch, struct err *err);
    /* The same, or bf16. NULL: all matrices are given by tensor(). */
    int (*matrix)(void *arg, const char *name, size_t count, float *scratch, struct gemma_matrix *out, struct err *err);
    /* Row `row` of a table of rows x n numbers: the whole table takes 2.4 GB as floats, and a caption needs only a
     * few rows. */
    int (*row)(void *arg, const char *name, size_t rows, size_t n, size_t row, float *out, struct err *err);
    void *arg;
    bool  in_place; /* matrix() never uses `scratch` */
    struct gemma_place *place; /* memory kept from run to run; NULL: nothing is kept */
};

/* Keys and values of the first `length` positions, which are not padding: per layer length x kv_heads * head_dim, in
 * memory of the place (gemma_place_new()). */
struct gemma_prefix {
    float *k, *v;
    int    length;
};

/* Floats of its k, and of its v. */
size_t gemma_prefix_floats(const struct gemma_config *cfg, int length);

struct gemma_input {
    const int32_t *id;     /* batch x length */
    const float   *mask;   /* 1: a token, 0: padding */
    int            batch, length;
    const struct gemma_prefix *behind; /* prefix before the positions of id and mask; or NULL */
    struct gemma_prefix       *keep;   /* receives the first `keep->length` positions, for a batch of 1; or NULL */
};

/* The outputs of a run: batch x length x hidden each. */
struct gemma_output {
    float *last;            /* in host memory, like all outputs: after the final norm; NULL: not wanted */
    float *before_last;     /* the input of the last layer, as Lumina-Next uses it; NULL */
    /* Called with the input of layer `layer`; or NULL. */
    void (*hidden)(void *arg, int layer, const float *h);
    void *arg;
};

/* The last layer is skipped if only before_last is wanted. ERR_USAGE: an id outside the vocabulary. */
int gemma_run(const struct gemma_config *cfg, const struct gemma_weights *weights, const struct gemma_input *in,
              const struct gemma_output *out, struct err *err);

#endif
