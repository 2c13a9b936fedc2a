/* SPDX-License-Identifier: Apache-2.0 */
/* snapshot_fixture.h - ranks with numbers that encode their position, and their memory files */
#ifndef TESTS_SNAPSHOT_FIXTURE_H
#define TESTS_SNAPSHOT_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/checkpoint/snapshot.h"
#include "engine/base/err.h"
#include "engine/dist/shard.h"
#include "engine/model/layout.h"
#include "engine/optim/optim.h"
#include "engine/optim/state.h"

enum { SAVERS = 8, LAYOUT = 77 };

static struct layout *tensors;

/* How a rank holds the state: all of it; all weights and a part of the rest; a part of everything. */
enum held { HELD_WHOLE, HELD_MOMENTS_APART, HELD_APART };

struct rank {
    struct shard *shard, *whole; /* whole: of one rank */
    struct optim *optim;
    float        *weights;
    struct state  state;
    int           fd;
    struct snapshot *writer;
};

static struct rank ranks[SAVERS];

static inline void make_rank(struct rank *r, int rank, int of, enum shard_cut cut, enum held held)
{
    const struct optim_config cfg = {
        .type = cut == SHARD_TENSORS ? OPTIM_CAME : OPTIM_ADAMW, .beta = {0.9, 0.99, 0.999},
        .eps = {1e-8, 1e-16}, .clip_threshold = 1, .ema = 0.5};
    struct err err = {0};
    *r = (struct rank){.fd = snapshot_make(&err)};
    shard_create(&r->shard, tensors, of, cut, &err);
    shard_create(&r->whole, tensors, 1, cut, &err);
    const struct shard_holder all = {r->whole, 0}, part = {r->shard, rank};
    const struct optim_share share = {held == HELD_WHOLE ? all : part, held == HELD_APART ? part : all};
    if (optim_create(&r->optim, &cfg, tensors, &share, &err) < 0)
        fail_msg("%s", err.text);
    r->weights = calloc(layout_floats(tensors) + shard_floats(r->shard, rank), sizeof(float));
    const struct state_source source = {tensors, r->weights, r->optim, share.held, part};
    assert_int_equal(state_make(&r->state, &source, &err), 0);
    const struct snapshot_run run = {LAYOUT, rank, of};
    assert_int_equal(snapshot_create(&r->writer, r->fd, &run, &r->state, &err), 0);
}

static inline void drop_rank(struct rank *r)
{
    snapshot_destroy(r->writer);
    if (r->fd >= 0)
        close(r->fd);
    state_free(&r->state);
    optim_destroy(r->optim);
    shard_destroy(r->shard);
    shard_destroy(r->whole);
    free(r->weights);
}

/* Number k of a tensor at a step, a function of both. */
static inline float value(const struct state_part *p, size_t k, int64_t step)
{
    return (float)(p->name[0] * 31 + p->name[7]) + (float)(1000 * step) + 0.25f * (float)k;
}

static inline void fill(const struct rank *r, int64_t step)
{
    for (int i = 0; i < r->state.len; i++) {
        const struct state_part *p = &r->state.part[i];
        for (size_t k = p->from; k < p->to; k++)
            p->data[k - p->from] = value(p, k, step);
    }
}

static inline void check(const struct rank *r, int64_t step)
{
    for (int i = 0; i < r->state.len; i++) {
        const struct state_part *p = &r->state.part[i];
        for (size_t k = p->from; k < p->to; k++)
            if (p->data[k - p->from] != value(p, k, step))
                fail_msg("%s[%zu] is %g, not that of step %lld", p->name, k,
                         (double)p->data[k - p->from], (long long)step);
    }
}

/* `rows`: of the first tensor, which has 301 numbers in each. */
static inline int make_tensors(int64_t rows)
{
    const int64_t shapes[][2] = {{rows, 301}, {5, 1}, {64, 16}, {1, 1}, {300, 70}};
    layout_create(&tensors, NULL);
    for (int i = 0; i < 5; i++) {
        char label[] = "tensor 0";
        label[7] = (char)('0' + i);
        if (i == 2)
            layout_next_unit(tensors);
        layout_add(tensors, label, TENSOR_PARAM, 2, shapes[i], NULL);
    }
    return layout_add(tensors, "buffer 9", TENSOR_BUFFER, 2, shapes[0], NULL) < 0;
}

/* As a device would copy. */
static inline int bring(void *arg, float *to, const float *from, size_t n)
{
    (void)arg;
    memcpy(to, from, n * sizeof(*to));
    return 0;
}

static inline void save_all(int n, int64_t step)
{
    for (int r = 0; r < n; r++) {
        fill(&ranks[r], step);
        assert_int_equal(snapshot_bring(ranks[r].writer, bring, NULL), 0);
        snapshot_seal(ranks[r].writer, step, "notes", 5);
    }
}

#endif
