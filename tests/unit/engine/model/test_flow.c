/* SPDX-License-Identifier: Apache-2.0 */
/* test_flow.c - the flow tables, bit for bit those of the authors' code */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "engine/base/err.h"
#include "engine/files/safetensors.h"
#include "engine/model/flow.h"
#include "engine/model/timestep_freqs.h"

static struct st_file *tables;

static int open_tables(void **state)
{
    (void)state;
    struct err err = {0};
    if (st_open(&tables, "tests/golden/sana/tables.safetensors", &err) == 0)
        return 0;
    print_error("%s\n", err.text);
    return -1;
}

static int close_tables(void **state)
{
    (void)state;
    st_close(tables);
    return 0;
}

static void same_bits(const char *name, const float *ours, size_t n)
{
    const struct st_tensor *t = st_find(tables, name);
    assert_non_null(t);
    assert_int_equal(t->count, n);
    for (size_t i = 0; i < n; i++) {
        float want;
        memcpy(&want, (const float *)t->data + i, sizeof(want));
        if (ours[i] != want)
            fail_msg("%s[%zu] is %a, not %a", name, i, (double)ours[i], (double)want);
    }
}

static void tables_have_the_authors_bits(void **state)
{
    (void)state;
    static const int shifts[] = {1, 3, 4, 6};
    for (int i = 0; i < 4; i++) {
        struct flow f;
        char name[32];
        flow_init(&f, shifts[i]);
        snprintf(name, sizeof(name), "shift%d.sigma", shifts[i]);
        same_bits(name, f.sigma, FLOW_STEPS);
        snprintf(name, sizeof(name), "shift%d.alpha", shifts[i]);
        same_bits(name, f.alpha, FLOW_STEPS);
        snprintf(name, sizeof(name), "shift%d.t_model", shifts[i]);
        same_bits(name, f.t_model, FLOW_STEPS);
    }
    same_bits("t_embed.freqs", timestep_freqs, TIMESTEP_FREQS);
}

static void index_follows_the_logit_normal(void **state)
{
    (void)state;
    const struct st_tensor *z = st_find(tables, "logit_normal.z");
    const struct st_tensor *want = st_find(tables, "logit_normal.t_index");
    for (size_t i = 0; i < z->count; i++) {
        float zi, wi;
        memcpy(&zi, (const float *)z->data + i, sizeof(zi));
        memcpy(&wi, (const float *)want->data + i, sizeof(wi));
        assert_int_equal(flow_index((double)zi, 0.0, 1.0), (int)wi);
    }
    assert_int_equal(flow_index(0, 0, 1), 500);
    assert_int_equal(flow_index(1e9, 0, 1), 999);
    assert_int_equal(flow_index(-1e9, 0, 1), 0);
    assert_int_equal(flow_index(1, -1, 1), 500);
}

static void noise_and_target(void **state)
{
    (void)state;
    float x0[3] = {1, 2, 3}, noise[3] = {0.5f, -1, 4}, x_t[3], target[3];
    flow_noise(x_t, target, x0, noise, 3, 0.25f, 0.75f);
    for (int i = 0; i < 3; i++) {
        assert_true(x_t[i] == 0.25f * x0[i] + 0.75f * noise[i]);
        assert_true(target[i] == noise[i] - x0[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_have_the_authors_bits),
        cmocka_unit_test(index_follows_the_logit_normal),
        cmocka_unit_test(noise_and_target),
    };
    return cmocka_run_group_tests_name("flow", tests, open_tables, close_tables);
}
