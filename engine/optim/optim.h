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
 * The state is on the device of backend_ops() at creation.  A view in this
 * process's memory is brought up to date by optim_pull() and optim_push(); on the
 * CPU view and state are the same memory (as in model.h).
 */
#ifndef ENGINE_OPTIM_OPTIM_H
#define ENGINE_OPTIM_OPTIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/contract/train_config.h"
#include "engine/dist/shard.h"
#include "kernels/kernels.h"

struct err;
struct layout;

/* The part of a layout that an optimizer updates, and that the arrays of weights and gradients hold. */
struct optim_share {
    struct shard_holder updated, held; /* their shards outlive the optimizer */
};

/* One named array of state, as a checkpoint saves it. */
struct optim_state {
    char    name[128];            /* "adamw.m.<tensor>", "came.r.<tensor>", "ema.<tensor>" */
    int     ndim;
    int64_t dim[4];
    int64_t count;                /* numbers of the whole array */
    int     tensor;               /* index of its weight in the layout */
    size_t  from, to;             /* the numbers held here */
    float  *data;                 /* view of number `from` */
};

struct optim;

/* State is allocated only for the numbers that are updated. */
int optim_create(struct optim **out, const struct optim_config *cfg, const struct layout *l,
                 const struct optim_share *share, struct err *err);
void optim_destroy(struct optim *o);

/* The norm of a block of the layout in a fixed order of summation (double): same bits for any thread count. Gaps
 * and buffers have zero gradients. `grads` is a kernel array. Waits. */
double optim_grad_norm(const struct kern_ops *ops, const struct layout *l, const float *grads);

/* The sum of squares of the gradients of the updated numbers, to be added up over ranks. */
double optim_share_squares(const struct optim *o, const float *grads);

/* One update: clip by grad_norm, EMA, step. Counts k itself. Kernel arrays; `narrow` gets a narrow copy of the
 * new weights (kernels.h), and may be `weights` where narrow is fp32. */
void optim_step(struct optim *o, float *weights, void *narrow, float *grads, double grad_norm, double lr);

/* --- CPU only: images, each of which has all state in one block of the caller's memory */

/* Numbers of an image. */
size_t optim_image(const struct optim *o);
/* The state is in `image`, with the values there, until the next call. */
void optim_place(struct optim *o, float *image);
/* Copies to `image` the state that no update changes. */
void optim_carry(const struct optim *o, float *image);

/* The numbers of a tensor that are updated here: [*from, *to), possibly empty. */
void optim_range(const struct optim *o, int tensor, size_t *from, size_t *to);
/* Can any range of a tensor be updated separately, by any thread? If not, only whole tensors can. */
bool optim_is_elementwise(const struct optim *o);

/* One update, as optim_step() makes it, that writes to `to` and `image` and does not change the current state. */
struct optim_move {
    const float      *weights, *grads;
    float            *to, *image;
    struct kern_adamw adamw;
    struct kern_came  came;
};
/* Called with each updated range while it is in the processor's cache: first the weights (0), then the state in
 * the order of optim_state_at() (1, 2, ...). Elementwise updates only. */
struct optim_look {
    void (*fn)(void *arg, int which, const float *numbers);
    void  *arg;
};
/* The longest range of one call, where updates are elementwise. */
enum { OPTIM_PIECE = 8192 };

/* Counts the update and fills in all but the arrays. Then optim_move() for each range, then optim_place(). */
void optim_move_begin(struct optim *o, struct optim_move *m, double grad_norm, double lr);
void optim_move(const struct optim *o, const struct optim_move *m, int tensor, size_t from,
                size_t to, const struct optim_look *look);

int64_t optim_count(const struct optim *o);          /* updates done so far */
void optim_set_count(struct optim *o, int64_t k);    /* on resume */
/* The averages of the updated numbers, a view; NULL without EMA. */
const float *optim_ema(const struct optim *o);
void optim_ema_reset(struct optim *o, const float *weights); /* ema = weights (view): at step 0 */

int optim_pull(struct optim *o, struct err *err);    /* before the views are read */
int optim_push(struct optim *o, struct err *err);    /* after they have been written */

/* The kernel array's address of a number of a view. */
float *optim_kernel(const struct optim *o, const float *view);

/* All state, to save or to fill. */
int optim_state_len(const struct optim *o);
struct optim_state *optim_state_at(struct optim *o, int i);

#endif
