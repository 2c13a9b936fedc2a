/* SPDX-License-Identifier: Apache-2.0 */
/* step.h - one training step: noise, forward, loss, backward, clip, optimizer
 *
 * Holds the model, the flow tables, the optimizer state and the scratch of one
 * step; used by the training loop, by `verify`, and by `bench`, so that what is
 * checked against the authors' numbers is what trains.
 */
#ifndef ENGINE_OPTIM_STEP_H
#define ENGINE_OPTIM_STEP_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/data/step_input.h"
#include "engine/dist/shard.h"
#include "engine/model/flow.h"
#include "engine/model/model.h"
#include "engine/optim/optim.h"

struct err;
struct state;

/* How several ranks share the state of a step. */
struct step_share {
    enum sharing sharing;
    int          rank, world;
};

struct step;

/* `share` NULL: one process has everything. With SHARING_ZERO1 and SHARING_FSDP the optimizer has the
 * rank's share; with SHARING_FSDP weights and gradients are the rank's packed memory (shard.h), and
 * model_on_units() must be told where those of a unit are. */
int step_create_shared(struct step **out, const struct model_config *cfg,
                       const struct model_limits *max, const struct optim_config *opt,
                       double flow_shift, const struct step_share *share, struct err *err);
int step_create(struct step **out, const struct model_config *cfg, const struct model_limits *max,
                const struct optim_config *opt, double flow_shift, struct err *err);
void step_destroy(struct step *s);

struct model *step_model(struct step *s);
/* The null embedding [caption_len, D] where the model has no weight for it: whoever drops captions fills it.
 * NULL: it is a weight. */
float *step_null(struct step *s);
struct optim *step_optim(struct step *s);
const struct shard *step_shard(const struct step *s);
enum sharing step_sharing(const struct step *s);
/* In this process's memory: a block of the layout, or packed. step_push() after writing weights,
 * step_pull() before reading. */
float *step_weights(struct step *s);
float *step_grads(struct step *s); /* packed ones: on the CPU only */
int step_push(struct step *s, struct err *err);
int step_pull(struct step *s, struct err *err);
/* Kernel arrays. */
float *step_kernel_weights(struct step *s);
float *step_kernel_grads(struct step *s);
/* The list of what this rank has and saves; its owner frees it. */
int step_state(struct step *s, struct state *out, struct err *err);
/* The same with kernel arrays as data, for a device to copy. */
int step_kernel_state(struct step *s, struct state *out, struct err *err);
/* Bytes of weights, gradients and optimizer state that this rank holds. */
int64_t step_bytes(struct step *s);

/* --- on the CPU: weights and optimizer state as one image, and updates from one image to another
 * (double_buffer.h) */

/* Numbers of an image. */
size_t step_image(const struct step *s);
/* They are what this memory of the caller holds, until the next call. */
void step_place(struct step *s, float *image);
/* To `image`, of what no update changes. */
void step_carry(const struct step *s, float *image);
/* An update as step_update() makes it, to be made by optim_move() and ended by step_place(). */
int step_move_begin(struct step *s, struct optim_move *m, float *image, double lr, double grad_norm,
                    struct err *err);

/* Zero the gradients: once before the micro-batches of a step. */
void step_begin(struct step *s);

/* Forward, loss and backward of one micro-batch. The gradient of its mean loss
 * is added with weight `weight` (its share of the global batch; 1 when alone).
 * per_sample [B] may be NULL. *loss gets the micro-batch's mean loss. */
int step_micro(struct step *s, const struct step_input *in, double weight, double *loss,
               float *per_sample, struct err *err);

/* Called in each step_micro() between loss and backward: for whoever shows what a run is at. */
typedef void (*step_backward_fn)(void *arg);
void step_on_backward(struct step *s, step_backward_fn fn, void *arg);

/* The last micro-batch's model output [B, channels, H, W] in this process's memory, for `verify`.
 * Valid until the next call here. */
const float *step_output(struct step *s);

/* Clip by global norm, EMA (before the update, as the authors do), optimizer at
 * learning rate `lr`. *grad_norm gets the norm before clipping. A norm that is
 * not finite updates nothing and returns -1 (ERR_DATA). When the device has failed, in the update
 * too, the weights mean nothing and the error says so. */
int step_end(struct step *s, double lr, double *grad_norm, struct err *err);

/* The same in two parts, for ranks that find the norm together: the squares of the gradients that
 * this rank updates, and the update of them. */
int step_squares(struct step *s, double *squares, struct err *err);
int step_update(struct step *s, double lr, double grad_norm, struct err *err);

#endif
