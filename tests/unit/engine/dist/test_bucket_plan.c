/* SPDX-License-Identifier: Apache-2.0 */
/* test_bucket_plan.c - buckets of gradients: each number once, in one order, none before it is complete */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/base/err.h"
#include "engine/dist/bucket_plan.h"
#include "engine/dist/shard.h"
#include "engine/model/layout.h"
#include "engine/optim/step.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

enum {
    WORLDS = 8,
    LIST = 256,
    MOST = BUCKET_BYTES / 4,
    FEW = 1000, /* numbers per bucket, for this size of a number: */
    LARGE = BUCKET_BYTES / FEW
};

/* All buckets of a plan, in the order of submission. */
static int list_all(struct bucket_plan plan, struct bucket *list)
{
    int n = 0;
    while (bucket_plan_next(&plan, 0, &list[n]))
        assert_true(++n < LIST);
    return n;
}

static void each_number_is_in_one_bucket(void **state)
{
    (void)state;
    static const struct {
        size_t numbers, bytes_each;
        int    buckets;
        size_t front; /* size of the remainder */
    } rows[] = {
        {0, 4, 0, 0},
        {1, 4, 1, 1},
        {MOST - 1, 4, 1, MOST - 1},
        {MOST, 4, 1, MOST},
        {MOST + 1, 4, 2, 1},
        {2 * MOST, 4, 2, MOST},
        {7 * MOST - 5, 4, 7, MOST - 5},
        {50 * (size_t)MOST + 16, 4, 51, 16},
        {MOST, 8, 2, MOST / 2},
        {MOST + 16, 8, 3, 16},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct bucket list[LIST];
        const size_t most = BUCKET_BYTES / rows[i].bytes_each;
        size_t end = rows[i].numbers;
        int n = list_all(bucket_plan_even(rows[i].numbers, rows[i].bytes_each), list);
        assert_int_equal(n, rows[i].buckets);
        for (int k = 0; k < n; k++) { /* from the end, without gaps */
            assert_int_equal(list[k].index, n - 1 - k);
            assert_int_equal(list[k].to, end);
            end = list[k].from;
            assert_int_equal(list[k].to - end, k < n - 1 ? most : rows[i].front);
        }
        assert_int_equal(end, 0);
    }
}

static void more_numbers_have_larger_buckets(void **state)
{
    (void)state;
    static const struct {
        size_t numbers, most;
        int    buckets;
    } rows[] = {
        {64 * (size_t)MOST, MOST, 64},
        {64 * (size_t)MOST + 1, 2 * (size_t)MOST, 33},
        {256 * (size_t)MOST, 4 * (size_t)MOST, 64},
        {512 * (size_t)MOST, 8 * (size_t)MOST, 64},
        {1600000000, 8 * (size_t)MOST, 191}, /* Sana-1600M */
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const struct bucket_plan p = bucket_plan_even(rows[i].numbers, 4);
        assert_int_equal(p.most, rows[i].most);
        assert_int_equal(p.left, rows[i].buckets);
    }
}

/* A unit of several tensors, one of a single number, one of a tensor larger than a bucket; a
 * buffer. */
static struct layout *make_layout(void)
{
    static const struct {
        int     unit;
        int64_t dim[2];
    } tensors[] = {{0, {37, 301}}, {0, {5, 1}}, {1, {1, 1}}, {2, {MOST / 64, 100}}, {3, {3, 7}}, {3, {1, 5}}};
    struct layout *l;
    layout_create(&l, NULL);
    for (int i = 0; i < (int)ARRAY_LEN(tensors); i++) {
        const char name[] = {'t', (char)('0' + i), 0};
        if (i > 0 && tensors[i].unit != tensors[i - 1].unit)
            layout_next_unit(l);
        assert_int_equal(layout_add(l, name, TENSOR_PARAM, 2, tensors[i].dim, NULL), i);
    }
    assert_true(layout_add(l, "buffer", TENSOR_BUFFER, 2, tensors[0].dim, NULL) > 0);
    return l;
}

/* Whether the number is in exactly one bucket. */
static void assert_in_one(const struct bucket *list, int n, size_t number)
{
    int times = 0;
    for (int k = 0; k < n; k++)
        times += number >= list[k].from && number < list[k].to;
    assert_int_equal(times, 1);
}

static void a_unit_is_a_bucket(void **state)
{
    (void)state;
    struct layout *l = make_layout();
    for (int world = 1; world <= WORLDS; world++)
        for (int cut = SHARD_EVEN; cut <= SHARD_TENSORS; cut++) {
            struct bucket list[LIST];
            struct shard *s;
            assert_int_equal(shard_create(&s, l, world, (enum shard_cut)cut, NULL), 0);
            const int n = list_all(bucket_plan_units(s), list);
            assert_int_equal(n, shard_units(s));
            for (int k = 0; k < n; k++) { /* as many as its owners hold together */
                size_t parts = 0;
                assert_int_equal(list[k].index, n - 1 - k);
                for (int r = 0; r < world; r++)
                    parts += shard_part(s, list[k].index, r).to - shard_part(s, list[k].index, r).from;
                assert_true(parts > 0 && parts <= list[k].to - list[k].from);
            }
            for (int i = 0; i < layout_len(l); i++) {
                const struct tensor *t = layout_at(l, i);
                for (size_t at = 0; t->kind == TENSOR_PARAM && at < t->count; at += 1 + t->count / 99)
                    assert_in_one(list, n, t->offset + at);
            }
            shard_destroy(s);
        }
    layout_destroy(l);
}

/* A rank whose pass completes `step` numbers at a time: when it submits which bucket. */
static int hand_over(struct bucket_plan plan, size_t numbers, size_t step, struct bucket *list)
{
    struct bucket b;
    int n = 0;
    for (size_t complete = numbers;; complete = complete > step ? complete - step : 0) {
        while (bucket_plan_next(&plan, complete, &b)) {
            assert_true(b.from >= complete); /* not too early */
            assert_true(n + 1 < LIST);
            list[n++] = b;
        }
        struct bucket_plan rest = plan;
        if (bucket_plan_next(&rest, 0, &b))
            assert_true(b.from < complete); /* nor later than possible */
        if (complete == 0)
            return n;
    }
}

/* All ranks submit in the same order, however their passes run, also a rank without samples:
 * another order would be a desync. */
static void all_ranks_submit_the_same(void **state)
{
    (void)state;
    struct layout *l = make_layout();
    struct shard *s;
    const size_t numbers = layout_floats(l);
    assert_int_equal(shard_create(&s, l, WORLDS, SHARD_EVEN, NULL), 0);
    const struct bucket_plan plans[] = {bucket_plan_even(numbers, 4), bucket_plan_even(numbers, 8),
                                        bucket_plan_even(numbers, 256), bucket_plan_units(s)};
    for (size_t p = 0; p < ARRAY_LEN(plans); p++) {
        struct bucket first[LIST], list[LIST];
        const int n = hand_over(plans[p], numbers, numbers, first); /* all at the end */
        assert_true(n > 1);
        for (size_t rank = 1; rank < WORLDS; rank++) {
            assert_int_equal(hand_over(plans[p], numbers, numbers / (3 * rank) - rank, list), n);
            for (int k = 0; k < n; k++) {
                assert_int_equal(list[k].index, first[k].index);
                assert_true(list[k].from == first[k].from && list[k].to == first[k].to);
            }
        }
    }
    shard_destroy(s);
    layout_destroy(l);
}

/* --- a model's own backward pass ----------------------------------------------------------- */

enum { DEPTH = 4, CH = 3, SIDE = 4, TEXT = 5, CAPTION = 6 };

/* Copies of gradients when they were submitted during the pass. */
struct pass {
    struct bucket_plan plan;
    const float       *grads;
    float             *sent;
    size_t             from;    /* submitted from here on */
    size_t             told;    /* complete from here on, according to the model */
};

static void take_complete(void *arg, size_t from)
{
    struct pass *p = arg;
    struct bucket b;
    assert_true(from < p->told);
    p->told = from;
    while (bucket_plan_next(&p->plan, from, &b)) {
        memcpy(p->sent + b.from, p->grads + b.from, (b.to - b.from) * sizeof(float));
        p->from = b.from;
    }
}

static struct step *make_step(void)
{
    static const struct model_config config = {.depth = DEPTH, .hidden = 16, .heads = 2,
        .linear_head_dim = 8, .patch = 1, .mlp_hidden = 20, .y_norm = true, .y_norm_scale = 0.3f,
        .y_norm_eps = 1e-5f, .latent_channels = CH, .caption_channels = CAPTION, .caption_len = TEXT};
    static const struct model_limits limits = {.batch = 1, .height = SIDE, .width = SIDE, .text = TEXT};
    static const struct optim_config optim = {.type = OPTIM_ADAMW, .beta = {0.9, 0.999}, .eps = {1e-8}};
    struct step *s;
    struct err err = {0};
    if (step_create(&s, &config, &limits, &optim, 3.0, NULL, &err) < 0)
        fail_msg("%s", err.text);
    model_init_weights(step_model(s), 7);
    return s;
}

static void run_pass(struct step *s)
{
    float image[CH * SIDE * SIDE], noise[CH * SIDE * SIDE], y[TEXT * CAPTION], mask[TEXT];
    const int t_index = 500;
    const uint8_t drop = 0;
    double loss;
    for (int i = 0; i < CH * SIDE * SIDE; i++) {
        image[i] = (float)(i % 7) - 3;
        noise[i] = (float)(i % 5) - 2;
    }
    for (int i = 0; i < TEXT * CAPTION; i++)
        y[i] = (float)(i % 3) - 1;
    for (int i = 0; i < TEXT; i++)
        mask[i] = 1;
    const struct step_input in = {.batch = 1, .height = SIDE, .width = SIDE, .text = TEXT, .x0 = image, .noise = noise,
                                  .t_index = &t_index, .y = y, .mask = mask, .drop = &drop};
    struct err err = {0};
    step_begin(s);
    if (step_micro(s, &in, 1, &loss, NULL, &err) < 0)
        fail_msg("%s", err.text);
}

/* Gradients reported as complete no longer change; and when the pass ends, all of the model except
 * the part before its first block has been submitted, up to one bucket. */
static void buckets_are_submitted_during_the_pass(void **state)
{
    (void)state;
    struct step *s = make_step();
    const struct layout *l = model_layout(step_model(s));
    const size_t numbers = layout_floats(l);
    struct shard *units;
    size_t front = 0;
    assert_int_equal(shard_create(&units, l, 2, SHARD_EVEN, NULL), 0);
    front = shard_unit(units, 1).from;
    const struct {
        struct bucket_plan plan;
        size_t             left; /* the most, when the pass ends */
    } rows[] = {{bucket_plan_units(units), front}, {bucket_plan_even(numbers, LARGE), front + FEW}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct pass p = {.plan = rows[i].plan, .grads = model_grads(step_model(s)), .from = numbers,
                         .told = numbers, .sent = calloc(numbers, sizeof(float))};
        assert_non_null(p.sent);
        model_on_ready(step_model(s), take_complete, &p);
        run_pass(s);
        assert_true(p.from <= rows[i].left);
        size_t alive = 0;
        for (size_t k = p.from; k < shard_unit(units, shard_units(units) - 1).to; k++) {
            assert_true(p.sent[k] == p.grads[k]);
            alive += p.grads[k] != 0;
        }
        assert_true(alive > (numbers - front) / 2);
        free(p.sent);
    }
    shard_destroy(units);
    step_destroy(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_number_is_in_one_bucket),
        cmocka_unit_test(more_numbers_have_larger_buckets),
        cmocka_unit_test(a_unit_is_a_bucket),
        cmocka_unit_test(all_ranks_submit_the_same),
        cmocka_unit_test(buckets_are_submitted_during_the_pass),
    };
    return cmocka_run_group_tests_name("bucket_plan", tests, NULL, NULL);
}
