/* SPDX-License-Identifier: Apache-2.0 */
/* model_init.c - initial weights; any range can be drawn separately; see model.h */
#include "engine/model/layout.h"
#include "engine/model/model_internal.h"
#include "kernels/rng.h"
#include "kernels/thread_pool.h"

enum { PIECE = 2048, /* numbers that stay in the cache between drawing and scaling */ WORK = 4 };

static uint64_t name_id(const char *name)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
    return h;
}

/* Numbers first, first + 1, ... of a tensor, into p. */
struct draw {
    struct model_start start;
    struct rng         stream;
    uint64_t           first;
    float             *p;
};

static void draw_piece(const struct draw *d, size_t from, size_t to)
{
    const double value = d->start.value;
    float *p = d->p;
    switch (d->start.draw) {
    case DRAW_CONSTANT:
        for (size_t i = from; i < to; i++)
            p[i] = (float)value;
        break;
    case DRAW_UNIFORM:
        rng_uniform(&d->stream, p + from, d->first + from, to - from);
        for (size_t i = from; i < to; i++)
            p[i] = (float)(value * (2 * (double)p[i] - 1));
        break;
    case DRAW_NORMAL:
        rng_normal(&d->stream, p + from, d->first + from, to - from);
        for (size_t i = from; i < to; i++)
            p[i] = (float)(value * (double)p[i]);
        break;
    }
}

static void draw_range(const void *arg, size_t from, size_t to)
{
    for (; from < to; from += PIECE)
        draw_piece(arg, from, from + PIECE < to ? from + PIECE : to);
}

/* As peft draws them with init_lora_weights: gaussian: B = 0, so that training begins with the base. */
static struct model_start adapter_start(const struct lora *l, int tensor)
{
    const struct lora_adapter *a = lora_of_tensor(l, tensor);
    return tensor == a->a ? (struct model_start){DRAW_NORMAL, 1.0 / a->rank} : (struct model_start){DRAW_CONSTANT, 0};
}

void model_init_range(const struct model *m, int tensor, size_t from, size_t to, uint64_t seed, float *out)
{
    const struct tensor *t = layout_at(model_layout(m), tensor);
    const struct draw d = {
        .start = m->lora ? adapter_start(m->lora, tensor) : m->net->start(&m->cfg, t),
        .stream = rng_make(seed, 0, name_id(t->name), RNG_WEIGHTS),
        .first = from,
        .p = out,
    };
    thread_pool_range(to - from, PIECE, WORK, draw_range, &d);
}

void model_init_weights(struct model *m, uint64_t seed)
{
    for (int i = 0; i < layout_len(model_layout(m)); i++) {
        const struct tensor *t = layout_at(model_layout(m), i);
        model_init_range(m, i, 0, t->count, seed, m->host_weights + t->offset);
    }
}
