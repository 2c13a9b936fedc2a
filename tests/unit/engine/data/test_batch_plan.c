/* SPDX-License-Identifier: Apache-2.0 */
/* test_batch_plan.c - every sample once per epoch, the same plan on all ranks, any step directly */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/data/batch_plan.h"

enum { BUCKETS = 40, BATCH_MOST = 64 };

static struct batch_plan *make(uint64_t seed, int batch, const int64_t *sizes, int buckets)
{
    struct batch_plan *p;
    struct err err = {0};
    assert_int_equal(batch_plan_create(&p, seed, batch, sizes, buckets, &err), 0);
    return p;
}

static int64_t sum(const int64_t *sizes, int n)
{
    int64_t all = 0;
    for (int i = 0; i < n; i++)
        all += sizes[i];
    return all;
}

static int bucket_of(const int64_t *sizes, int64_t sample)
{
    int b = 0;
    for (; sample >= sizes[b]; b++)
        sample -= sizes[b];
    return b;
}

/* The order of samples before buckets existed: it must not change. */
static void one_bucket_is_one_endless_queue(void **state)
{
    (void)state;
    static const int64_t line[3][11] = {{6, 9, 5, 8, 4, 10, 0, 7, 1, 2, 3},
                                        {8, 7, 5, 4, 10, 3, 6, 1, 2, 9, 0},
                                        {7, 6, 8, 1, 2, 9, 4, 3, 10, 0, 5}};
    int64_t size = 11;
    struct batch_plan *p = make(7, 4, &size, 1);
    struct batch_slot s[4];
    for (int64_t step = 7; step >= 0; step--) {
        batch_plan_slots(p, s, step, 0, 4);
        for (int i = 0; i < 4; i++) {
            int64_t place = step * 4 + i;
            assert_int_equal(s[i].epoch, place / 11);
            assert_int_equal(s[i].sample, line[place / 11][place % 11]);
        }
        assert_int_equal(batch_plan_at(p, step).turn, step);
        assert_int_equal(batch_plan_at(p, step).bucket, 0);
    }
    assert_int_equal(batch_plan_begin(p, 1), 2);
    assert_int_equal(batch_plan_begin(p, 4), 11);
    batch_plan_destroy(p);
}

/* `seen` counts per epoch and sample over the steps; each step has one bucket. */
static void take(struct batch_plan *p, const int64_t *sizes, int batch, int64_t from, int64_t to,
                 int ranks, uint8_t *seen, int64_t samples, int64_t epochs)
{
    struct batch_slot s[BATCH_MOST];
    for (int64_t step = from; step < to; step++) {
        struct batch b = batch_plan_at(p, step);
        for (int rank = 0; rank < ranks; rank++) {
            int first = batch * rank / ranks, end = batch * (rank + 1) / ranks;
            batch_plan_slots(p, s, step, first, end - first);
            for (int i = 0; i < end - first; i++) {
                assert_int_equal(bucket_of(sizes, s[i].sample), b.bucket);
                if (s[i].epoch < epochs)
                    seen[s[i].epoch * samples + s[i].sample]++;
            }
        }
    }
}

/* A case that breaks multi-scale loaders elsewhere: 40 buckets of uneven sizes, 2 to 8 ranks, many
 * epochs; here with a crash and another number of ranks after each epoch. */
static void every_sample_comes_once_an_epoch_on_any_number_of_ranks(void **state)
{
    (void)state;
    enum { EPOCHS = 5 };
    for (unsigned seed = 1; seed <= 12; seed++) {
        int64_t sizes[BUCKETS];
        srand(seed);
        int buckets = 1 + rand() % BUCKETS, batch = 1 + rand() % BATCH_MOST;
        for (int b = 0; b < buckets; b++)
            sizes[b] = 1 + rand() % (seed % 2 ? 300 : 30);
        int64_t samples = sum(sizes, buckets);
        uint8_t *seen = calloc((size_t)samples, EPOCHS);
        int64_t step = 0, waits = 0;
        for (int b = 0; b < buckets; b++) /* the epochs until each bucket has completed a batch */
            waits = (batch - 1) / sizes[b] + 1 > waits ? (batch - 1) / sizes[b] + 1 : waits;
        for (int e = 0; e < EPOCHS + waits; e++) {
            struct batch_plan *p = make(seed, batch, sizes, buckets); /* a new process */
            take(p, sizes, batch, step, batch_plan_begin(p, e + 1), 2 + (e + (int)seed) % 7, seen, samples, EPOCHS);
            step = batch_plan_begin(p, e + 1);
            batch_plan_destroy(p);
        }
        for (int64_t i = 0; i < samples * EPOCHS; i++)
            assert_int_equal(seen[i], 1);
        free(seen);
    }
}

static void a_jump_gives_the_same_step_as_walking(void **state)
{
    (void)state;
    static const int64_t sizes[] = {5, 31, 2, 70, 16};
    struct batch_plan *near = make(3, 16, sizes, 5), *far = make(3, 16, sizes, 5);
    struct batch_slot a[16], b[16];
    int64_t count[5] = {0};
    for (int64_t step = 0; step < 2000; step++) {
        struct batch x = batch_plan_at(near, step);
        assert_int_equal(x.turn, count[x.bucket]);
        count[x.bucket]++;
        assert_true(step >= batch_plan_begin(near, x.epoch));
        assert_true(step < batch_plan_begin(near, x.epoch + 1));
        if (step % 37 != 0)
            continue;
        for (int i = 0; i < 5; i++)
            assert_int_equal(batch_plan_batches(far, i, step + 1), count[i]);
        batch_plan_at(far, (1999 - step) * 1000000); /* any other step before */
        batch_plan_slots(near, a, step, 0, 16);
        batch_plan_slots(far, b, step, 0, 7);
        batch_plan_slots(far, b + 7, step, 7, 9);
        for (int i = 0; i < 16; i++)
            assert_true(a[i].sample == b[i].sample && a[i].epoch == b[i].epoch);
    }
    batch_plan_at(far, 1000000000000); /* the most steps that a spec allows */
    batch_plan_destroy(near);
    batch_plan_destroy(far);
}

static void epochs_and_seeds_differ_in_order(void **state)
{
    (void)state;
    static const int64_t sizes[] = {64, 64, 64};
    struct batch_plan *p = make(1, 8, sizes, 3), *q = make(2, 8, sizes, 3);
    int same_epoch = 0, same_seed = 0, n = (int)batch_plan_begin(p, 1);
    assert_int_equal(n, 24);
    for (int i = 0; i < n; i++) {
        same_epoch += batch_plan_at(p, i).bucket == batch_plan_at(p, n + i).bucket;
        same_seed += batch_plan_at(p, i).bucket == batch_plan_at(q, i).bucket;
    }
    /* buckets of equal size have different orders too */
    int64_t order[3][64];
    for (int i = 0; i < n; i++) {
        struct batch b = batch_plan_at(p, i);
        struct batch_slot s[8];
        batch_plan_slots(p, s, i, 0, 8);
        for (int k = 0; k < 8; k++)
            order[b.bucket][b.turn * 8 + k] = s[k].sample - 64 * b.bucket;
    }
    assert_memory_not_equal(order[0], order[1], sizeof(order[0]));
    assert_memory_not_equal(order[1], order[2], sizeof(order[0]));
    assert_in_range(same_epoch, 1, 16);
    assert_in_range(same_seed, 1, 16);
    batch_plan_destroy(p);
    batch_plan_destroy(q);
}

static void an_empty_bucket_is_refused(void **state)
{
    (void)state;
    static const int64_t sizes[] = {3, 0};
    struct batch_plan *p;
    struct err err = {0};
    assert_int_equal(batch_plan_create(&p, 1, 2, sizes, 2, &err), -1);
    assert_int_equal(err.code, ERR_BUG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_bucket_is_one_endless_queue),
        cmocka_unit_test(every_sample_comes_once_an_epoch_on_any_number_of_ranks),
        cmocka_unit_test(a_jump_gives_the_same_step_as_walking),
        cmocka_unit_test(epochs_and_seeds_differ_in_order),
        cmocka_unit_test(an_empty_bucket_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
