/* SPDX-License-Identifier: Apache-2.0 */
/* test_bench.c - a step of a small model is timed */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/bench/bench.h"
#include "engine/base/err.h"

static void a_bench_measures(void **state)
{
    (void)state;
    const struct bench_spec spec = {
        .model = {.depth = 1, .hidden = 16, .heads = 2, .linear_head_dim = 8, .patch = 1,
                  .mlp_hidden = 20, .y_norm = true, .y_norm_scale = 0.3f, .y_norm_eps = 1e-5f,
                  .latent_channels = 4, .caption_channels = 6, .caption_len = 5},
        .batch = {2, 4, 4, 5, false},
        .optim = {OPTIM_ADAMW, {0.9, 0.999, 0}, {1e-8, 0}, 0, 0.1, 1, 0},
        .lr = 1e-4, .flow_shift = 3, .micros = 2, .steps = 12, .warmup = 2,
    };
    struct bench_result r;
    struct err err = {0};
    if (bench_run(&r, &spec, &err) < 0)
        fail_msg("%s", err.text);
    assert_true(r.ms_min > 0 && r.ms_min <= r.ms_median && r.ms_median <= r.ms_max);
    assert_true(r.gflops > 0 && r.loss > 0 && r.loss < 100);
    assert_true(r.params > 0 && r.threads > 0);
    struct bench_spec none = spec;
    none.steps = 0;
    assert_int_equal(bench_run(&r, &none, &err), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bench_measures),
    };
    return cmocka_run_group_tests_name("bench", tests, NULL, NULL);
}
