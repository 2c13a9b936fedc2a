/* SPDX-License-Identifier: Apache-2.0 */
/* model_init.c - initial weights; any range can be drawn separately; see model.h */
#include "engine/model/layout.h"
#include "engine/model/model_internal.h"
#include "kernels/rng.h"

static uint64_t name_id(const char *name)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
    return h;
}

static void fill(float *p, size_t n, float value)
{
    for (size_t i = 0; i < n; i++)
        p[i] = value;
}

static void fill_uniform(float *p, uint64_t first, size_t n, const struct rng *r, double limit)
{
    rng_uniform(r, p, first, n);
    for (size_t i = 0; i < n; i++)
        p[i] = (float)(limit * (2 * (double)p[i] - 1));
}

static void fill_normal(float *p, uint64_t first, size_t n, const struct rng *r, double std)
{
    rng_normal(r, p, first, n);
    for (size_t i = 0; i < n; i++)
        p[i] = (float)(std * (double)p[i]);
}

/* As peft draws them with init_lora_weights: gaussian: B = 0, so that training begins with the base. */
static struct model_start adapter_start(const struct lora *l, int tensor)
{
    const struct lora_adapter *a = lora_of_tensor(l, tensor);
    return tensor == a->a ? (struct model_start){DRAW_NORMAL, 1.0 / a->rank} : (struct model_start){DRAW_CONSTANT, 0};
}

/* Numbers first, first + 1, ... of a tensor. */
static void init_range(const struct model *m, int tensor, uint64_t first, size_t n, uint64_t seed, float *p)
{
    const struct tensor *t = layout_at(model_layout(m), tensor);
    const struct rng r = rng_make(seed, 0, name_id(t->name), RNG_WEIGHTS);
    const struct model_start start = m->lora ? adapter_start(m->lora, tensor) : m->net->start(&m->cfg, t);
    switch (start.draw) {
    case DRAW_CONSTANT:
        fill(p, n, (float)start.value);
        break;
    case DRAW_UNIFORM:
        fill_uniform(p, first, n, &r, start.value);
        break;
    case DRAW_NORMAL:
        fill_normal(p, first, n, &r, start.value);
        break;
    }
}

void model_init_range(const struct model *m, int tensor, size_t from, size_t to, uint64_t seed, float *out)
{
    init_range(m, tensor, from, to - from, seed, out);
}

void model_init_weights(struct model *m, uint64_t seed)
{
    for (int i = 0; i < layout_len(model_layout(m)); i++) {
        const struct tensor *t = layout_at(model_layout(m), i);
        init_range(m, i, 0, t->count, seed, m->host_weights + t->offset);
    }
}
