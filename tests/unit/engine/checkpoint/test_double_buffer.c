/* SPDX-License-Identifier: Apache-2.0 */
/* test_double_buffer.c - double-buffered state: the bits of an update in place, complete after
 * every step, held while steps continue */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/checkpoint/double_buffer.h"
#include "engine/checkpoint/snapshot.h"
#include "engine/base/err.h"
#include "engine/model/layout.h"
#include "engine/optim/state.h"
#include "engine/optim/step.h"
#include "kernels/rng.h"

enum { RANKS = 3, LAYOUT = 77, STEPS = 6 };

static const struct model_config config = {
    .depth = 3, .hidden = 64, .heads = 2, .linear_head_dim = 32, .patch = 1, .mlp_hidden = 160,
    .qk_norm = true, .y_norm = true, .y_norm_scale = 0.3f, .y_norm_eps = 1e-5f, .latent_channels = 3,
    .caption_channels = 90, .caption_len = 70};
static const struct model_limits limits = {.batch = 1, .height = 2, .width = 2, .text = 5};
static const struct optim_config adamw = {
    .type = OPTIM_ADAMW, .beta = {0.9, 0.999}, .eps = {1e-8}, .weight_decay = 0.01, .clip = 1, .ema = 0.9};
static const struct optim_config came = {
    .type = OPTIM_CAME, .beta = {0.9, 0.999, 0.9999}, .eps = {1e-30, 1e-16}, .weight_decay = 0.01,
    .clip = 1, .clip_threshold = 1};

struct rank {
    struct step          *step;
    struct double_buffer *double_buffer; /* NULL: updates in place */
    int                   fd;
};

static struct state state_of(struct step *s)
{
    struct state out;
    assert_int_equal(params_state(step_params(s), &out, NULL), 0);
    return out;
}

/* Initial weights, and a buffer that no update changes. */
static void begin(struct step *s)
{
    struct state all = state_of(s);
    for (int i = 0; i < all.weights; i++)
        model_init_range(step_model(s), i, all.part[i].from, all.part[i].to, 7, all.part[i].data);
    const int null = layout_find(model_layout(step_model(s)), "y_embedder.y_embedding");
    for (size_t k = 0; k < all.part[null].to; k++)
        all.part[null].data[k] = (float)k;
    state_free(&all);
    optim_ema_reset(params_optim(step_params(s)), params_view(step_params(s)));
}

static struct rank make(const struct optim_config *opt, enum sharing how, int rank, int world, bool double_buffer)
{
    const struct params_share share = {how, rank, world};
    struct rank r = {.fd = -1};
    struct err err = {0};
    if (step_create(&r.step, &config, &limits, opt, 3, &share, &err) < 0)
        fail_msg("%s", err.text);
    if (double_buffer) {
        const struct snapshot_run run = {LAYOUT, rank, world};
        r.fd = snapshot_make(&err);
        if (double_buffer_create(&r.double_buffer, r.fd, &run, step_params(r.step), &err) < 0)
            fail_msg("%s", err.text);
        double_buffer_keep(r.double_buffer, true);
    }
    begin(r.step);
    return r;
}

static void drop(struct rank *r)
{
    double_buffer_destroy(r->double_buffer);
    step_destroy(r->step);
    if (r->fd >= 0)
        close(r->fd);
}

/* Number k of a tensor's gradient at a step, in the tensor's part of a block or of packed memory. */
static void fill_grads(struct step *s, int64_t step)
{
    const struct layout *l = model_layout(step_model(s));
    struct state all = state_of(s);
    float *whole = calloc(layout_floats(l), sizeof(float));
    for (int i = 0; i < layout_len(l); i++) {
        const struct state_part *p = &all.part[i];
        const struct rng r = rng_make(31, (uint64_t)i, (uint64_t)step, RNG_TEST);
        if (layout_at(l, i)->kind != TENSOR_PARAM)
            continue;
        rng_normal(&r, whole, 0, p->count);
        memcpy(params_grads(step_params(s)) + (p->data - params_view(step_params(s))), whole + p->from,
               (p->to - p->from) * sizeof(float));
    }
    free(whole);
    state_free(&all);
}

static void update(struct rank *r, int64_t step)
{
    struct err err = {0};
    fill_grads(r->step, step);
    if (params_update(step_params(r->step), 1e-2, 3.5, &err) < 0)
        fail_msg("%s", err.text);
    if (r->double_buffer)
        double_buffer_seal(r->double_buffer, step, &step, sizeof(step));
}

/* The state of a rank, or its `saved` part, laid out as in a rank that has everything. */
static void compare(const struct state *part, struct step *whole, bool saved)
{
    struct state all = state_of(whole);
    for (int i = 0; i < part->len; i++) {
        const struct state_part *p = &part->part[i], *w = NULL;
        const size_t from = saved ? p->save_from : p->from, to = saved ? p->save_to : p->to;
        for (int k = 0; k < all.len; k++)
            w = strcmp(all.part[k].name, p->name) == 0 ? &all.part[k] : w;
        assert_non_null(w);
        if (to > from && memcmp(p->data + (from - p->from), w->data + from, (to - from) * sizeof(float)) != 0)
            fail_msg("%s differs", p->name);
    }
    state_free(&all);
}

/* The snapshots of all ranks, read by one that holds everything. */
static void read_back(struct rank *ranks, int world, int64_t step, struct step *want)
{
    int fds[RANKS];
    size_t size;
    struct snapshot_set *set;
    struct err err = {0};
    for (int r = 0; r < world; r++)
        fds[r] = ranks[r].fd;
    assert_int_equal(snapshot_claims(fds, world, world), step);
    assert_int_equal(snapshot_set_open(&set, fds, world, &err), 0);
    assert_non_null(set);
    assert_int_equal(snapshot_set_step(set, LAYOUT, INT64_MAX), step);
    assert_memory_equal(snapshot_set_notes(set, step, &size), &step, sizeof(step));
    struct step *reader;
    const struct optim_config *opt = optim_is_elementwise(params_optim(step_params(want))) ? &adamw : &came;
    assert_int_equal(step_create(&reader, &config, &limits, opt, 3, NULL, &err), 0);
    struct state into = state_of(reader);
    size_t *missing = calloc((size_t)into.len, sizeof(*missing));
    assert_non_null(missing);
    snapshot_set_load(set, step, &into, missing);
    for (int i = 0; i < into.len; i++)
        assert_int_equal(missing[i], 0);
    free(missing);
    compare(&into, want, false);
    state_free(&into);
    step_destroy(reader);
    snapshot_set_close(set);
}

/* zero1: the updates of a rank go to all, as in exchange.c. */
static void gather(struct rank *ranks, int world)
{
    for (int from = 0; from < world; from++) {
        struct state has = state_of(ranks[from].step);
        for (int r = 0; r < world; r++)
            for (int i = 0; r != from && i < has.weights; i++) {
                const struct state_part *p = &has.part[i];
                memcpy(params_view(step_params(ranks[r].step)) + (p->data - params_view(step_params(ranks[from].step))) + p->save_from,
                       p->data + p->save_from, (p->save_to - p->save_from) * sizeof(float));
            }
        state_free(&has);
    }
}

static void the_update_is_the_snapshot(void **state)
{
    (void)state;
    static const struct {
        const struct optim_config *opt;
        enum sharing               how;
        int                        world;
    } rows[] = {{&adamw, SHARING_DDP, 1},   {&came, SHARING_DDP, 1},   {&adamw, SHARING_DDP, 3},
                {&came, SHARING_DDP, 3},    {&adamw, SHARING_ZERO1, 3}, {&came, SHARING_ZERO1, 3},
                {&adamw, SHARING_FSDP, 2}, {&came, SHARING_FSDP, 3}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const int world = rows[i].world;
        struct rank ranks[RANKS], alone = make(rows[i].opt, SHARING_DDP, 0, 1, false);
        for (int r = 0; r < world; r++)
            ranks[r] = make(rows[i].opt, rows[i].how, r, world, true);
        for (int64_t step = 1; step <= STEPS; step++) {
            update(&alone, step);
            for (int r = 0; r < world; r++)
                update(&ranks[r], step);
            if (rows[i].how == SHARING_ZERO1)
                gather(ranks, world);
            for (int r = 0; r < world; r++) {
                struct state has = state_of(ranks[r].step);
                compare(&has, alone.step, false);
                state_free(&has);
            }
            read_back(ranks, world, step, alone.step);
            for (int r = 0; r < world; r++) /* a checkpoint is written from step 2 to step 5 */
                if (step == 2)
                    double_buffer_hold(ranks[r].double_buffer);
                else if (step == 5)
                    double_buffer_release(ranks[r].double_buffer);
        }
        for (int r = 0; r < world; r++)
            drop(&ranks[r]);
        drop(&alone);
    }
}

/* A rank that dies during its update leaves the previous step. */
static void a_torn_update_is_not_a_step(void **state)
{
    (void)state;
    struct rank alone = make(&adamw, SHARING_DDP, 0, 1, false), r = make(&adamw, SHARING_DDP, 0, 1, true);
    struct err err = {0};
    for (int64_t step = 1; step <= 3; step++) {
        update(&alone, step);
        update(&r, step);
    }
    fill_grads(r.step, 4);
    assert_int_equal(params_update(step_params(r.step), 1e-2, 3.5, &err), 0); /* not sealed */
    read_back(&r, 1, 3, alone.step);
    drop(&r);
    drop(&alone);
}

static int64_t memory_of(const struct rank *r)
{
    struct stat st;
    assert_int_equal(fstat(r->fd, &st), 0);
    return (int64_t)st.st_blocks * 512;
}

/* A held image does not change; a third image has memory only meanwhile; without snapshots there is
 * one. */
static void a_held_image_does_not_change(void **state)
{
    (void)state;
    for (int keep = 0; keep < 2; keep++) {
        struct rank r = make(&adamw, SHARING_DDP, 0, 1, true), then = make(&adamw, SHARING_DDP, 0, 1, false);
        int64_t step = 0, rest;
        double_buffer_keep(r.double_buffer, keep);
        while (step < 3) {
            update(&r, ++step);
            update(&then, step);
        }
        rest = memory_of(&r);
        const int64_t image = double_buffer_image_bytes(r.double_buffer);
        assert_true(rest > (keep + 1) * image && rest < (keep + 1) * image + image / 2);
        struct state held = state_of(r.step);
        double_buffer_hold(r.double_buffer);
        while (step < 7) {
            update(&r, ++step);
            compare(&held, then.step, true);
            if (step > 4)
                assert_true(memory_of(&r) > (keep + 2) * image);
        }
        double_buffer_release(r.double_buffer);
        state_free(&held);
        assert_true(memory_of(&r) <= rest);
        for (int64_t k = 4; k <= step; k++)
            update(&then, k);
        for (int i = 0; i < 3; i++) {
            update(&r, ++step);
            update(&then, step);
        }
        held = state_of(r.step);
        compare(&held, then.step, true);
        state_free(&held);
        assert_true(memory_of(&r) <= rest);
        double_buffer_hold(r.double_buffer); /* released before the next step: no memory to free */
        double_buffer_release(r.double_buffer);
        update(&r, ++step);
        update(&then, step);
        held = state_of(r.step);
        compare(&held, then.step, true);
        state_free(&held);
        drop(&r);
        drop(&then);
    }
}

/* If every rank has the whole state, memory holds the common part once per rank. */
static void unsaved_state_exists_once(void **state)
{
    (void)state;
    struct rank one = make(&adamw, SHARING_DDP, 0, 1, true), r = make(&adamw, SHARING_DDP, 1, 3, true);
    for (int64_t step = 1; step <= 3; step++) {
        update(&one, step);
        update(&r, step);
    }
    const int64_t all =
        double_buffer_image_bytes(one.double_buffer), third = double_buffer_image_bytes(r.double_buffer);
    assert_true(third > all / 4 && third < all / 2);
    assert_true(memory_of(&one) > 2 * all);
    assert_true(memory_of(&r) > all + third && memory_of(&r) < all + third + all / 3);
    drop(&one);
    drop(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_update_is_the_snapshot),
        cmocka_unit_test(a_torn_update_is_not_a_step),
        cmocka_unit_test(a_held_image_does_not_change),
        cmocka_unit_test(unsaved_state_exists_once),
    };
    return cmocka_run_group_tests_name("turns", tests, NULL, NULL);
}
