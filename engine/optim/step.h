/* SPDX-License-Identifier: Apache-2.0 */
/* step.h - one training step: noise, forward, loss, backward, clip, optimizer
 *
 * Holds the model, its parameters (params.h), the flow tables and the scratch of one step.  The training loop,
 * tests/verify and `bench` use it, so that the code checked against the authors' numbers is the code that trains.
 */
#ifndef ENGINE_OPTIM_STEP_H
#define ENGINE_OPTIM_STEP_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/data/step_input.h"
#include "engine/model/flow.h"
#include "engine/model/model.h"
#include "engine/optim/params.h"

struct err;
struct kern_ops;

struct step;

/* `share` NULL: this process has everything. With params_by_unit(), model_on_units() must be called before the first
 * step_micro(). */
int step_create(struct step **out, const struct model_config *cfg, const struct model_limits *max,
                const struct optim_config *opt, double flow_shift, const struct params_share *share, struct err *err);
void step_destroy(struct step *s);

struct model *step_model(struct step *s);
/* The null embedding [caption_len, D], to be filled by the caller; NULL if the model has a weight for it. */
float *step_null(struct step *s);
/* Do captions in bf16 give the same bits as in fp32 (step_input.h)? */
bool step_takes_bf16(const struct kern_ops *ops, const struct model_config *cfg);
/* Can noise be given as streams to draw it from (step_input.h)? Used on a device, with the same bits as on the CPU. */
bool step_draws_noise(const struct kern_ops *ops);
struct params *step_params(struct step *s);

/* Zero the gradients: once before the micro-batches of a step. */
void step_begin(struct step *s);

/* Forward, loss and backward of one micro-batch. The gradient of its mean loss
 * is added with weight `weight` (its share of the global batch; 1 for a single micro-batch).
 * per_sample [B] may be NULL. *loss gets the micro-batch's mean loss. */
int step_micro(struct step *s, const struct step_input *in, double weight, double *loss,
               float *per_sample, struct err *err);

/* Called in each step_micro() between loss and backward pass. */
typedef void (*step_backward_fn)(void *arg);
void step_on_backward(struct step *s, step_backward_fn fn, void *arg);

/* The last micro-batch's model output [B, channels, H, W] in this process's memory, for tests/verify.
 * Valid until the next call here. */
const float *step_output(struct step *s);

/* The norm of the gradients before clipping, and params_update() with it. */
int step_end(struct step *s, double lr, double *grad_norm, struct err *err);

#endif
