/* SPDX-License-Identifier: Apache-2.0 */
/* test_rng.c - known answers, disjoint streams, and the distribution of the numbers */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/kernels.h"
#include "kernels/rng.h"
#include "kernels/rng_formula.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

static void philox_gives_the_published_answers(void **state)
{
    (void)state;
    static const struct {
        uint32_t key[2], block, counter[3], out[4];
    } rows[] = {
        {{0, 0}, 0, {0, 0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff}, 0xffffffff, {0xffffffff, 0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0xa4093822, 0x299f31d0}, 0x243f6a88, {0x85a308d3, 0x13198a2e, 0x03707344},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct rng r;
        uint32_t out[4];
        memcpy(r.key, rows[i].key, sizeof(r.key));
        memcpy(r.counter, rows[i].counter, sizeof(r.counter));
        rng_bits(&r, out, (uint64_t)rows[i].block * 4, 4);
        assert_memory_equal(out, rows[i].out, sizeof(out));
    }
}

static void any_window_of_a_stream_agrees(void **state)
{
    (void)state;
    struct rng r = rng_make(1, 2, 3, RNG_NOISE);
    float all[103], part[103], normal[103];
    uint32_t bits[103], some[103];
    rng_uniform(&r, all, 0, 103);
    rng_normal(&r, normal, 0, 103);
    rng_bits(&r, bits, 0, 103);
    for (size_t first = 0; first < 103; first += 5)
        for (size_t n = 1; n <= 103 - first; n += 7) {
            rng_uniform(&r, part, first, n);
            assert_memory_equal(part, all + first, n * sizeof(float));
            rng_normal(&r, part, first, n);
            assert_memory_equal(part, normal + first, n * sizeof(float));
            rng_bits(&r, some, first, n);
            assert_memory_equal(some, bits + first, n * sizeof(uint32_t));
        }
    assert_true((float)rng_normal_at(&r, 17) == normal[17]);
}

/* Many are drawn at once, by several threads; each is that of the formula, alone. */
static void each_number_is_that_of_the_formula(void **state)
{
    enum { MOST = 70001 };
    static const uint64_t firsts[] = {0, 1, 2, 3, 5, 1021, (UINT64_C(1) << 33) - 35003};
    static const size_t sizes[] = {1, 2, 3, 63, 64, 65, 131, 4099, MOST};
    const struct rng r = rng_make(UINT64_C(0x123456789abcdef), 77, UINT64_C(0xfedcba987654321), RNG_WEIGHTS);
    uint32_t *bits = malloc(MOST * sizeof(*bits));
    float *uniform = malloc(MOST * sizeof(*uniform)), *normal = malloc(MOST * sizeof(*normal));
    (void)state;
    for (size_t f = 0; f < ARRAY_LEN(firsts); f++)
        for (size_t s = 0; s < ARRAY_LEN(sizes); s++) {
            const uint64_t first = firsts[f];
            rng_bits(&r, bits, first, sizes[s]);
            rng_uniform(&r, uniform, first, sizes[s]);
            rng_normal(&r, normal, first, sizes[s]);
            for (size_t i = 0; i < sizes[s]; i++) {
                uint32_t word[4], pair[4];
                rng_philox(&r, (uint32_t)((first + i) / 4), word);
                rng_philox(&r, (uint32_t)((first + i) / 2), pair);
                const uint32_t one = word[(first + i) % 4], *two = pair + 2 * ((first + i) % 2);
                assert_int_equal(bits[i], one);
                assert_true(uniform[i] == (float)(one >> 8) * 0x1p-24f);
                assert_true(normal[i] == (float)rng_box_muller(two[0], two[1]));
            }
        }
    free(bits);
    free(uniform);
    free(normal);
}

static void each_argument_changes_the_stream(void **state)
{
    (void)state;
    static const struct {
        uint64_t         seed;
        uint32_t         epoch;
        uint64_t         id;
        enum rng_purpose purpose;
    } rows[] = {
        {1, 0, 0, RNG_NOISE},          {2, 0, 0, RNG_NOISE}, {1, 1, 0, RNG_NOISE},
        {1, 0, 1, RNG_NOISE},          {1, 0, 0, RNG_TIMESTEP},
        {UINT64_C(1) << 32 | 1, 0, 0, RNG_NOISE}, {1, 0, UINT64_C(1) << 32, RNG_NOISE},
    };
    uint32_t bits[ARRAY_LEN(rows)][4];
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct rng r = rng_make(rows[i].seed, rows[i].epoch, rows[i].id, rows[i].purpose);
        rng_bits(&r, bits[i], 0, 4);
        for (size_t j = 0; j < i; j++)
            assert_memory_not_equal(bits[i], bits[j], sizeof(bits[i]));
    }
}

static void moments_are_those_of_the_distribution(void **state)
{
    (void)state;
    enum { N = 200000 };
    float *x = malloc(N * sizeof(*x));
    struct rng r = rng_make(7, 0, 0, RNG_TEST);
    rng_normal(&r, x, 0, N);
    double m[5] = {0}, tail = 0;
    for (int i = 0; i < N; i++) {
        double p = 1;
        for (int k = 1; k <= 4; k++)
            m[k] += (p *= (double)x[i]) / N;
        tail += fabs((double)x[i]) > 1.959964 ? 1.0 / N : 0;
    }
    /* Five standard errors: 1, sqrt(2), sqrt(15), sqrt(96) over sqrt(N). */
    assert_true(fabs(m[1]) < 0.0112);
    assert_true(fabs(m[2] - 1) < 0.0159);
    assert_true(fabs(m[3]) < 0.0434);
    assert_true(fabs(m[4] - 3) < 0.1096);
    assert_true(fabs(tail - 0.05) < 0.0025);
    rng_uniform(&r, x, 0, N);
    double mean = 0, square = 0;
    for (int i = 0; i < N; i++) {
        assert_true(x[i] >= 0 && x[i] < 1);
        mean += (double)x[i] / N;
        square += (double)x[i] * (double)x[i] / N;
    }
    assert_true(fabs(mean - 0.5) < 0.0033);
    assert_true(fabs(square - 1.0 / 3) < 0.0034);
    free(x);
}

/* The same formula with the C library: our series are as accurate. */
static void normals_agree_with_libm(void **state)
{
    (void)state;
    for (uint64_t id = 0; id < 4; id++) {
        struct rng r = rng_make(3, 1, id, RNG_TEST);
        for (uint64_t i = 0; i < 5000; i++) {
            uint32_t bits[2];
            rng_bits(&r, bits, 2 * i, 2);
            double u = ((double)bits[0] + 1) * 0x1p-32, v = (double)bits[1] * 0x1p-32;
            double z = sqrt(-2 * log(u)) * cos(2 * 3.14159265358979323846 * v);
            if (fabs(rng_normal_at(&r, i) - z) > 2e-14)
                fail_msg("%g is not %g", rng_normal_at(&r, i), z);
        }
    }
}

static void below_covers_exactly_its_range(void **state)
{
    (void)state;
    struct rng r = rng_make(5, 0, 0, RNG_SHUFFLE);
    static const uint64_t bounds[] = {1, 2, 7, 1000, UINT64_MAX};
    int seen[7] = {0};
    for (size_t b = 0; b < ARRAY_LEN(bounds); b++)
        for (uint64_t i = 0; i < 500; i++) {
            uint64_t x = rng_below(&r, i, bounds[b]);
            assert_true(x < bounds[b]);
            if (bounds[b] == 7)
                seen[x]++;
        }
    for (int i = 0; i < 7; i++)
        assert_in_range(seen[i], 40, 110);
    for (uint64_t i = 0; i < 500; i++)
        assert_true(rng_uniform_at(&r, i) >= 0 && rng_uniform_at(&r, i) < 1);
}

/* Row b of a batch has the numbers of stream b, in every table of this processor. */
static void rows_are_drawn_from_their_streams(void **state)
{
    (void)state;
    enum { B = 3, N = 37 };
    const struct rng stream[B] = {rng_make(9, 0, 1, RNG_NOISE), rng_make(9, 5, 1, RNG_NOISE),
                                  rng_make(9, 0, UINT64_C(1) << 40, RNG_NOISE)};
    for (int isa = 0; isa < KERN_ISAS; isa++) {
        const struct kern_ops *k = kern_cpu_isa((enum kern_isa)isa);
        for (uint64_t first = 0; k && first < UINT64_C(1) << 33; first = 6 * first + 1) {
            float y[B * N + 1] = {[B * N] = 42}, want[N];
            k->draw_normal(y, stream, first, B, N);
            for (int b = 0; b < B; b++) {
                rng_normal(&stream[b], want, first, N);
                assert_memory_equal(y + b * N, want, sizeof(want));
            }
            assert_true(y[B * N] == 42);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_gives_the_published_answers),
        cmocka_unit_test(any_window_of_a_stream_agrees),
        cmocka_unit_test(each_number_is_that_of_the_formula),
        cmocka_unit_test(each_argument_changes_the_stream),
        cmocka_unit_test(moments_are_those_of_the_distribution),
        cmocka_unit_test(normals_agree_with_libm),
        cmocka_unit_test(below_covers_exactly_its_range),
        cmocka_unit_test(rows_are_drawn_from_their_streams),
    };
    setenv("OMP_NUM_THREADS", "3", 1);
    return cmocka_run_group_tests_name("rng", tests, NULL, NULL);
}
