/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_figures.c - see gpu_figures.h */
#include "controller/nodes/gpu_figures.h"

#include <stdlib.h>

#include "agent/probe/gpu_sampler.h"
#include "controller/base/daemon.h"
#include "controller/nodes/fleet.h"
#include "engine/base/clock.h"
#include "engine/base/field.h"

enum { LATER_MS = 1000 };   /* agents are asked again when the end has moved by at least this much */

struct gpu_figures {
    struct gpu_sampler *here;
    json_t           *elsewhere;    /* by node: the newest array */
    json_t           *told;         /* by node: when it came, on the monotonic clock */
    int64_t           until_ms;     /* of the monotonic clock */
};

static void destroy(struct gpu_figures *g)
{
    gpu_sampler_close(g->here);
    json_decref(g->elsewhere);
    json_decref(g->told);
    free(g);
}

static struct gpu_figures *create(struct daemon *d)
{
    struct gpu_figures *g = calloc(1, sizeof(*g));
    if (!g)
        return NULL;
    g->here = gpu_sampler_create(&d->loop);
    g->elsewhere = json_object();
    g->told = json_object();
    if (g->here && g->elsewhere && g->told)
        return g;
    destroy(g);
    return NULL;
}

static void forget_old(struct gpu_figures *g)
{
    const char *node;
    json_t *at;
    void *next;
    json_object_foreach_safe (g->told, next, node, at)
        if (clock_ms() - json_integer_value(at) > GPU_SAMPLER_OLD_MS) {
            json_object_del(g->elsewhere, node);
            json_object_del(g->told, node);
        }
}

void gpu_figures_want(struct daemon *d, int64_t ms)
{
    if (!d->gpu_figures && !(d->gpu_figures = create(d)))
        return;
    struct gpu_figures *g = d->gpu_figures;
    const int64_t until = clock_ms() + ms;
    if (until > g->until_ms)
        g->until_ms = until;
    if (json_array_size(json_object_get(d->fleet->facts, "gpus")))
        gpu_sampler_want(g->here, ms);
    forget_old(g);
}

const json_t *gpu_figures_of(const struct daemon *d, const char *uuid)
{
    return d->gpu_figures ? gpu_sampler_of(d->gpu_figures->here, uuid) : NULL;
}

int64_t gpu_figures_ask(const struct daemon *d, int64_t *asked_ms)
{
    const int64_t until = d->gpu_figures ? d->gpu_figures->until_ms : 0, left = until - clock_ms();
    if (left <= 0 || until - *asked_ms < LATER_MS)
        return 0;
    *asked_ms = until;
    return left;
}

void gpu_figures_take(struct daemon *d, const char *node, const json_t *gpus)
{
    if (!d->gpu_figures || !node[0])
        return;
    json_object_set(d->gpu_figures->elsewhere, node, (json_t *)(uintptr_t)gpus);
    json_object_set_new(d->gpu_figures->told, node, json_integer(clock_ms()));
}

const json_t *gpu_figures_elsewhere(const struct daemon *d)
{
    return d->gpu_figures ? d->gpu_figures->elsewhere : NULL;
}

void gpu_figures_close(struct daemon *d)
{
    if (d->gpu_figures)
        destroy(d->gpu_figures);
    d->gpu_figures = NULL;
}
