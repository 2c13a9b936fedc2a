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
#ifndef ENGINE_OPTIM_OPTIM_H
#define ENGINE_OPTIM_OPTIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/contract/train_config.h"
#include "kernels/kernels.h"

struct err;
struct layout;
struct shard;

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

/* --- on the CPU: the state in one piece of memory, and updates from there to another one */

/* Numbers that all of it takes. */
size_t optim_image(const struct optim *o);
/* It is what this memory of the caller holds, until the next call. */
void optim_place(struct optim *o, float *image);
/* To `image`, of what no update changes. */
void optim_carry(const struct optim *o, float *image);

/* The numbers of a tensor that it updates: [*from, *to), perhaps none. */
void optim_range(const struct optim *o, int tensor, size_t *from, size_t *to);
/* Whether a range of a tensor can be updated by itself, by any thread; else a tensor is, as a whole. */
bool optim_is_elementwise(const struct optim *o);

/* One update, as optim_step() makes it, with the results in `to` and `image`; what was is left. */
struct optim_move {
    const float      *weights, *grads;
    float            *to, *image;
    struct kern_adamw adamw;
    struct kern_came  came;
};
/* Is shown what has become of a range while it is in this processor's cache: its weights (0), then its state as
 * optim_state_at() lists it (1, 2, ...). Only where updates are elementwise. */
struct optim_look {
    void (*fn)(void *arg, int which, const float *numbers);
    void  *arg;
};
/* The longest range at once, where updates are elementwise. */
enum { OPTIM_PIECE = 8192 };

/* Counts it, and fills in all but the arrays. After its ranges comes optim_place(). */
void optim_move_begin(struct optim *o, struct optim_move *m, double grad_norm, double lr);
void optim_move(const struct optim *o, const struct optim_move *m, int tensor, size_t from,
                size_t to, const struct optim_look *look);

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
