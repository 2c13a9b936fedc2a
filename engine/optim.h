/* SPDX-License-Identifier: Apache-2.0 */
/* optim.h - AdamW and CAME over the tensors of a layout, gradient clip, EMA
 *
 * AdamW (decoupled decay):  p *= 1 - lr wd;  m = b1 m + (1-b1) g;  v = b2 v + (1-b2) g^2;
 *   p -= lr/(1-b1^k) * m / (sqrt(v)/sqrt(1-b2^k) + eps),  k = 1, 2, ...
 * CAME (Luo et al. 2023, as NVlabs/Sana's CAMEWrapper): factored second moment and
 *   confidence for 2-D and 1x1 tensors, plain second moment otherwise, no bias
 *   correction.
 * Clip: g *= min(1, clip / (norm + 1e-6)), norm over all parameters.
 * EMA: ema = rate ema + (1 - rate) p over parameters, before the update.
 *
 * The state lives on the device of backend_ops() at creation, with a view in this
 * process's memory that optim_pull() and optim_push() bring up to date; on the
 * CPU they are the same (as in model.h).
 */
#ifndef ENGINE_OPTIM_H
#define ENGINE_OPTIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct kern_ops;
struct layout;
struct shard;

enum optim_type { OPTIM_ADAMW, OPTIM_CAME };

struct optim_config {
    enum optim_type type;
    double          beta[3];      /* CAME uses the third */
    double          eps[2];       /* CAME uses the second */
    double          weight_decay;
    double          clip;         /* 0 = no clip */
    double          clip_threshold; /* CAME's rms limit, 1 */
    double          ema;          /* 0 = none */
};

/* Which part of a layout an optimizer updates. */
struct optim_share {
    const struct shard *shard;    /* outlives the optimizer */
    int                 rank;
    bool                packed;   /* weights and gradients are this rank's packed memory (shard.h),
                                     not whole blocks */
};

/* One named piece of state, as a checkpoint saves it. */
struct optim_state {
    char    name[128];            /* "adamw.m.<tensor>", "came.r.<tensor>", "ema.<tensor>" */
    int     ndim;
    int64_t dim[4];
    int64_t count;                /* of the whole piece */
    int     tensor;               /* of the layout, that it belongs to */
    size_t  from, to;             /* the numbers that this optimizer has: all, or its share */
    float  *data;                 /* the view of number `from` */
};

struct optim;

/* `share` NULL: all of it. Then the state is as large as the share: ranks can divide it. */
int optim_create(struct optim **out, const struct optim_config *cfg, const struct layout *l,
                 const struct optim_share *share, struct err *err);
void optim_destroy(struct optim *o);

/* Norm of the gradients in a fixed order of summation (double): same bits for any thread count.
 * `grads` is an array of the table. Waits. */
double optim_grad_norm(const struct kern_ops *ops, const struct layout *l, const float *grads);

/* The same for the share of this optimizer, before the root is taken: to be added up over ranks. */
double optim_share_squares(const struct optim *o, const float *grads);

/* One update: clip by grad_norm, EMA, step. Counts k itself. Kernel arrays; `narrow` gets the new
 * weights too, narrow (kernels.h), and may be the weights where that is fp32. */
void optim_step(struct optim *o, float *weights, void *narrow, float *grads, double grad_norm,
                double lr);

int64_t optim_count(const struct optim *o);          /* updates done so far */
void optim_set_count(struct optim *o, int64_t k);    /* on resume */
/* View of a block of the layout; NULL where there is none, or only a share of it. */
const float *optim_ema(const struct optim *o);
void optim_ema_reset(struct optim *o, const float *weights); /* ema = weights (here): at step 0 */

int optim_pull(struct optim *o, struct err *err);    /* before the views are read */
int optim_push(struct optim *o, struct err *err);    /* after they were written */

/* Where kernels have the number that a view shows. */
float *optim_kernel(const struct optim *o, const float *view);

/* Every piece of state, to save or to fill. */
int optim_state_len(const struct optim *o);
struct optim_state *optim_state_at(struct optim *o, int i);

#endif
