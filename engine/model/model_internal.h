/* SPDX-License-Identifier: Apache-2.0 */
/* model_internal.h - inside of a model, shared by model*.c and by the model families
 *
 * Activations are pointers into one block of memory, carved once (arena.h).
 *
 * Narrow arrays (kernels.h) are `void *`.  An array needed in both types has a narrow
 * copy ending in `n`; if narrow is fp32 the copy is the array itself, or NULL if it
 * is only accessed through model_narrow().
 */
#ifndef ENGINE_MODEL_MODEL_INTERNAL_H
#define ENGINE_MODEL_MODEL_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/model/lora.h"
#include "engine/model/model.h"
#include "engine/model/model_weight.h"
#include "engine/model/nextdit_internal.h"
#include "engine/model/sana_internal.h"
#include "kernels/kernels.h"

struct arena;
struct tensor;

/* Kernel arrays for inputs copied from host memory; NULL on the CPU. */
struct model_stage {
    float *x, *timestep, *y, *mask, *out;
    int   *first;
};

struct model;

/* A family of models. Units of the layout: all before the blocks, each block, all after. */
struct model_net {
    /* Reads the authors' keys; checks the values. */
    int  (*config_parse)(struct model_config *c, const json_t *config, struct err *err);
    int  (*config_check)(const struct model_config *c, struct err *err);
    /* Checks what this device supports; allocates its own arrays; declares the tensors
     * (layout_builder.h). */
    int  (*check)(const struct model_config *c, const struct model_limits *max,
                  const struct kern_ops *ops, struct err *err);
    int  (*open)(struct model *m, struct err *err);
    void (*close)(struct model *m);
    int  (*declare)(struct model *m, struct err *err);
    /* Activations, and buffers of the backward pass. */
    void (*carve)(struct model *m, struct arena *k);
    void (*carve_back)(struct model *m, struct arena *k);
    /* After the sizes of the batch have changed, outside of recordings (graph.h); or NULL. */
    void (*resize)(struct model *m);
    /* The first weight of a unit. */
    weight_at (*unit_from)(const struct model *m, int unit);
    /* The passes, unit by unit, for the current sizes; with max.recompute, block_again() before block_backward() of
     * all blocks but the last. */
    void (*first_forward)(struct model *m, const struct model_input *in);
    void (*block_forward)(struct model *m, int i);
    void (*last_forward)(struct model *m, float *out);
    void (*last_backward)(struct model *m, const float *dout);
    void (*block_again)(struct model *m, int i);
    void (*block_backward)(struct model *m, int i);
    void (*first_backward)(struct model *m, const struct model_input *in, float *dy);
    /* See model_activation(). */
    const float *(*activation)(struct model *m, const char *name, int64_t *count, struct err *err);
    double (*flops)(const struct model_config *c, int batch, int height, int width, int text);
    /* Initialization of a tensor. */
    struct model_start (*start)(const struct model_config *c, const struct tensor *t);
};

enum model_draw { DRAW_CONSTANT, DRAW_UNIFORM, DRAW_NORMAL };

/* A constant; uniform from -value to value; normal with this standard deviation. */
struct model_start {
    enum model_draw draw;
    double          value;
};

struct model {
    struct model_config    cfg;
    struct model_limits    max;
    bool                   train;
    const struct kern_ops *ops;
    const struct model_net *net;
    struct layout         *layout;
    float                 *weights, *grads, *acts; /* kernel arrays */
    void                  *narrow;                 /* the weights, narrow; may be the weights */
    float                 *freqs;                  /* likewise: timestep_freqs */
    float                 *host_weights, *host_grads; /* views; the same on the CPU */
    bool                   borrowed;               /* the weights are in the caller's memory */
    float                 *host_act;               /* the activation that was read last */
    struct model_stage     stage;
    float                 *back_acts;              /* kernel array */
    size_t                 acts_floats, back_floats;
    model_ready_fn         on_ready;
    void                  *on_ready_arg;
    struct model_units     units;
    size_t                 unit_from;      /* layout offset of weights[0] and grads[0] */
    struct lora           *lora;           /* the trained adapters, or NULL: all weights are trained */
    /* sizes of the current batch */
    int batch, height, width, text, tokens, rows;
    const int *first; /* first rows of the captions, a kernel array, or NULL */
    const float *mask; /* of the captions, a kernel array */
    struct sana sana; /* state of its family */
    struct nextdit next;
};

static inline __attribute__((unused)) float *model_w(const struct model *m, weight_at at)
{
    return at == NO_WEIGHT ? NULL : m->weights + ((size_t)at - m->unit_from);
}

/* A matrix in the type that matrix products need. */
static inline __attribute__((unused)) const void *model_wn(const struct model *m, weight_at at)
{
    return (const char *)m->narrow + ((size_t)at - m->unit_from) * m->ops->narrow;
}

/* The numbers from the i-th on of a narrow array. */
static inline __attribute__((unused)) void *model_skip(const struct model *m, void *p, int i)
{
    return (char *)p + (size_t)i * m->ops->narrow;
}

/* Floats that a narrow array of n numbers takes, for zero(). */
static inline __attribute__((unused)) size_t model_narrow_floats(const struct model *m, size_t n)
{
    return (n * m->ops->narrow + sizeof(float) - 1) / sizeof(float);
}

/* x as a narrow array: itself, or rounded into `to`. */
static inline __attribute__((unused)) const void *model_narrow(const struct model *m, void *to,
                                                               const float *x, size_t n)
{
    if (m->ops->narrow == sizeof(*x))
        return x;
    m->ops->round(to, x, n);
    return to;
}

static inline __attribute__((unused)) float *model_g(const struct model *m, weight_at at)
{
    return at == NO_WEIGHT || !m->grads ? NULL : m->grads + ((size_t)at - m->unit_from);
}

/* sana.c, nextdit.c; that of a family */
extern const struct model_net sana_net, nextdit_net;
const struct model_net *model_net(enum model_family family);

/* linear() of kernels.h for a layer whose weights may have adapters. */
static inline __attribute__((unused)) void model_linear(struct model *m, void *y, weight_at w, weight_at b,
                                                        const void *x, int rows, int k, int n)
{
    m->ops->linear(y, x, model_wn(m, w), b == NO_WEIGHT ? NULL : model_wn(m, b), rows, k, n);
    if (m->lora)
        lora_forward(m->lora, w, y, x, rows, n);
}

/* linear_back() of kernels.h for a layer whose weights may be frozen, and have adapters. */
static inline __attribute__((unused)) void model_linear_back(struct model *m, void *dx, weight_at w, weight_at b,
                                                             const void *dy, const void *x, int rows, int k, int n)
{
    m->ops->linear_back(dx, model_g(m, w), model_g(m, b), dy, x, model_wn(m, w), rows, k, n);
    if (m->lora)
        lora_back(m->lora, w, dx, NULL, dy, x, rows, n);
}

/* linear_back_wide(), likewise. */
static inline __attribute__((unused)) void model_linear_back_wide(struct model *m, float *dx, int keep, weight_at w,
                                                                  weight_at b, const void *dy, const void *x, int rows,
                                                                  int k, int n)
{
    m->ops->linear_back_wide(dx, keep, model_g(m, w), model_g(m, b), dy, x, model_wn(m, w), rows, k, n);
    if (m->lora)
        lora_back(m->lora, w, NULL, dx, dy, x, rows, n);
}

enum { MODEL_FIRST_UNIT };
static inline int model_last_unit(const struct model *m)
{
    return m->cfg.depth + 1;
}

int model_carve(struct model *m, struct err *err);

/* model_view.c: host views of kernel arrays */
int model_make_views(struct model *m, struct err *err);
void model_free_views(struct model *m);
/* A view of `count` numbers of a kernel array, valid until the next call. */
const float *model_see(struct model *m, const float *from, int64_t count, struct err *err);
const float *model_see_narrow(struct model *m, const void *from, int64_t count, struct err *err);

/* Registers an array, fp32 or narrow, under a name; looks an array up by name, or NULL. */
struct model_named {
    const char  *name;
    const float *wide;
    const void  *narrow;
    int64_t      count;
};
const float *model_see_named(struct model *m, const struct model_named *rows, int count,
                             const char *name, int64_t *n, struct err *err);

/* Latent size of the current batch; numbers per patch; the most tokens of a batch, and rows of its
 * captions. */
struct kern_image model_image(const struct model *m);
int model_patch_width(const struct model *m);
size_t model_most_tokens(const struct model *m);
size_t model_most_rows(const struct model *m);

#endif
