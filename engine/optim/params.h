/* SPDX-License-Identifier: Apache-2.0 */
/* params.h - the part of weights, gradients and optimizer state that one rank holds
 *
 * Three ways for ranks to share them (enum sharing):
 *
 *            weights and gradients       optimizer state, and what the rank updates
 *   ddp      a block of the layout       everything
 *   zero1    a block of the layout       this rank's parts (shard.h)
 *   fsdp     this rank's packed memory   this rank's parts
 *
 * A block belongs to the model; packed memory, gradients in it, and the optimizer belong to params.  On the CPU
 * weights and optimizer state can move into an image: memory of the caller that has all of them in one piece, so
 * that an update can read one image and write another (double_buffer.h).
 *
 * Kernels see arrays on the device; files and collectives between hosts see a copy in this process's memory, which
 * params_pull() and params_push() synchronize.  On the CPU both are the same memory.
 */
#ifndef ENGINE_OPTIM_PARAMS_H
#define ENGINE_OPTIM_PARAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/dist/shard.h"
#include "engine/optim/optim.h"

struct err;
struct model;
struct state;
struct tensor;

struct params_share {
    enum sharing sharing;
    int          rank, world;
};

struct params;

/* Does a rank hold only its part of the weights? Then the model is created with limits.by_unit, and model_on_units()
 * passes it the place of a unit's weights. */
bool params_by_unit(const struct params_share *share);
/* For `m`, which must outlive it; `share` NULL: one rank, which has everything. Errors: ERR_MEMORY,
 * ERR_DEVICE_MEMORY, and ERR_USAGE for impossible optimizer settings. */
int params_create(struct params **out, struct model *m, const struct optim_config *opt,
                  const struct params_share *share, struct err *err);
void params_destroy(struct params *p);

struct optim *params_optim(const struct params *p);
/* The parts of all ranks. */
const struct shard *params_shard(const struct params *p);
/* Does this rank have the weights of all tensors? And does it update all of them? */
bool params_has_all(const struct params *p);
bool params_updates_all(const struct params *p);
/* The range of a unit that this rank updates: numbers [from, to) of the layout, starting at index `at` in the arrays of
 * weights and gradients. */
struct shard_part params_part(const struct params *p, int unit);

/* Kernel arrays of params_floats() numbers. */
size_t params_floats(const struct params *p);
float *params_weights(const struct params *p);
float *params_grads(const struct params *p);
/* Refreshes the narrow copy (kernels.h) of weights that were not written by an update. */
void params_round(struct params *p);
/* The first number of a tensor that this rank holds completely. */
float *params_tensor(const struct params *p, const struct tensor *t);

/* The weights in this process's memory. Push after writing them or the optimizer's state, pull before reading. */
float *params_view(const struct params *p);
int params_push(struct params *p, struct err *err);
int params_pull(struct params *p, struct err *err);

/* The numbers that this rank holds and saves, in this process's memory, or as kernel arrays for a device to copy;
 * the caller frees the list. params_place() moves the numbers. */
int params_state(const struct params *p, struct state *out, struct err *err);
int params_kernel_state(const struct params *p, struct state *out, struct err *err);

/* The sum of squares of the gradients that this rank updates. */
int params_squares(const struct params *p, double *squares, struct err *err);
/* Clips by grad_norm, then EMA (before the update, as the authors do), then the optimizer at rate `lr`. A norm that
 * is not finite updates nothing: ERR_DATA. After an error of the device the weights are undefined. */
int params_update(struct params *p, double lr, double grad_norm, struct err *err);

/* --- images, on the CPU only */

/* The owner of images makes updates from now on; params_update_here() updates the current image. */
typedef int (*params_update_fn)(void *arg, double lr, double grad_norm, struct err *err);
void params_on_update(struct params *p, params_update_fn fn, void *arg);
int params_update_here(struct params *p, double lr, double grad_norm, struct err *err);

/* Size of an image in numbers. */
size_t params_image(const struct params *p);
/* Weights and optimizer state are in `image` from now on, with the values of `image`. */
void params_place(struct params *p, float *image);
/* Copies to `image` the numbers that no update changes. */
void params_carry(const struct params *p, float *image);
/* params_update() without changing the current image: optim_move() writes to `image`, params_place() finishes it. */
int params_move_begin(const struct params *p, struct optim_move *m, float *image, double lr, double grad_norm,
                      struct err *err);

#endif
