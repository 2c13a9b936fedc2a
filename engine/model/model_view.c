/* SPDX-License-Identifier: Apache-2.0 */
/* model_view.c - host views of a model's weights, gradients and activations
 *
 * On the CPU a view is the kernels' array itself.  On
 * another device a view is a block of host memory, copied on demand.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/model/backend.h"
#include "engine/model/layout.h"
#include "engine/model/model_internal.h"

/* Numbers of what is trained. */
static size_t block_floats(const struct model *m)
{
    return layout_floats(m->lora ? lora_layout(m->lora) : m->layout);
}

static size_t block_bytes(const struct model *m)
{
    return block_floats(m) * sizeof(float);
}

static void *stage_alloc(const struct model *m, size_t numbers, struct err *err)
{
    return backend_alloc(m->ops, numbers * sizeof(float), USE_INPUTS, err);
}

int model_make_views(struct model *m, struct err *err)
{
    const struct model_config *c = &m->cfg;
    const struct model_limits *z = &m->max;
    const size_t B = (size_t)z->batch, text = B * (size_t)z->text;
    const size_t latent = (size_t)c->latent_channels * (size_t)model_limits_pixels(z);
    if (m->ops->host || z->by_unit) {
        m->host_weights = m->lora ? lora_weights(m->lora) : m->weights;
        m->host_grads = m->lora ? lora_grads(m->lora) : m->grads;
        return 0;
    }
    if (!(m->host_weights = backend_host(block_bytes(m), err)) ||
        !(m->stage.x = stage_alloc(m, latent, err)) || !(m->stage.out = stage_alloc(m, latent, err)) ||
        !(m->stage.timestep = stage_alloc(m, B, err)) || !(m->stage.mask = stage_alloc(m, text, err)) ||
        !(m->stage.first = stage_alloc(m, B + 1, err)) ||
        !(m->stage.y = stage_alloc(m, text * (size_t)c->caption_channels, err)))
        return -1;
    return 0;
}

void model_free_views(struct model *m)
{
    if (m->ops->host || m->max.by_unit)
        return;
    m->ops->release(m->stage.x);
    m->ops->release(m->stage.out);
    m->ops->release(m->stage.timestep);
    m->ops->release(m->stage.mask);
    m->ops->release(m->stage.first);
    m->ops->release(m->stage.y);
    backend_host_free(m->host_weights);
    backend_host_free(m->host_grads);
    free(m->host_act);
}

float *model_weights(struct model *m)
{
    return m->host_weights;
}

float *model_grads(struct model *m)
{
    return m->host_grads;
}

float *model_kernel_weights(struct model *m)
{
    return m->lora ? lora_weights(m->lora) : m->weights;
}

float *model_kernel_grads(struct model *m)
{
    return m->lora ? lora_grads(m->lora) : m->grads;
}

const struct kern_ops *model_ops(const struct model *m)
{
    return m->ops;
}

int model_push(struct model *m, struct err *err)
{
    if (m->ops->host)
        return 0;
    m->ops->upload(model_kernel_weights(m), m->host_weights, block_bytes(m));
    m->ops->round(model_kernel_narrow(m), model_kernel_weights(m), block_floats(m));
    return backend_check(m->ops, err);
}

void model_place(struct model *m, float *weights)
{
    if (m->lora) {
        lora_place(m->lora, weights);
        m->host_weights = weights;
        return;
    }
    if (!m->borrowed)
        m->ops->release(m->weights);
    m->borrowed = true;
    m->weights = m->host_weights = weights;
    m->narrow = weights;
}

void *model_kernel_narrow(struct model *m)
{
    return m->lora ? lora_narrow(m->lora) : m->narrow;
}

int model_pull(struct model *m, struct err *err)
{
    if (m->ops->host)
        return 0;
    m->ops->download(m->host_weights, model_kernel_weights(m), block_bytes(m));
    return backend_check(m->ops, err);
}

int model_pull_grads(struct model *m, struct err *err)
{
    if (m->ops->host)
        return 0;
    if (!model_kernel_grads(m))
        return err_set(err, ERR_BUG, "a model created for inference has no gradients");
    if (!m->host_grads && !(m->host_grads = backend_host(block_bytes(m), err)))
        return -1;
    m->ops->download(m->host_grads, model_kernel_grads(m), block_bytes(m));
    return backend_check(m->ops, err);
}

const float *model_see(struct model *m, const float *from, int64_t count, struct err *err)
{
    if (m->ops->host)
        return from;
    free(m->host_act);
    m->host_act = malloc((size_t)count * sizeof(float));
    if (!m->host_act) {
        err_set(err, ERR_MEMORY, "no memory for a copy of an activation");
        return NULL;
    }
    m->ops->download(m->host_act, from, (size_t)count * sizeof(float));
    return backend_check(m->ops, err) < 0 ? NULL : m->host_act;
}

/* Narrow numbers that are not fp32 are the upper halves of floats. */
const float *model_see_narrow(struct model *m, const void *from, int64_t count, struct err *err)
{
    const size_t n = (size_t)count;
    if (m->ops->narrow == sizeof(float))
        return model_see(m, from, count, err);
    uint16_t *half = malloc(n * sizeof(*half));
    free(m->host_act);
    m->host_act = malloc(n * sizeof(*m->host_act));
    if (half && m->host_act)
        m->ops->download(half, from, n * sizeof(*half));
    for (size_t i = 0; half && m->host_act && i < n; i++) {
        const uint32_t bits = (uint32_t)half[i] << 16;
        memcpy(&m->host_act[i], &bits, sizeof(bits));
    }
    free(half);
    return m->host_act && backend_check(m->ops, err) == 0 ? m->host_act : NULL;
}
