/* SPDX-License-Identifier: Apache-2.0 */
/* test_fixed_point_sum.c - sums that do not depend on order or grouping, and when their scale must
 * change */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/base/err.h"
#include "engine/model/layout.h"
#include "engine/optim/fixed_point_sum.h"

enum { MICRO = 6 };

static struct layout *layout;
static float *grad[MICRO], *result, *other;

static float noise(size_t i, int k)
{
    uint32_t x = (uint32_t)i * 2654435761u + (uint32_t)k * 97u + 1u;
    x = (x ^ x >> 16) * 2246822519u;
    return (float)(int32_t)(x ^ x >> 13) * 0x1p-31f;
}

static int setup(void **state)
{
    (void)state;
    struct err err = {0};
    const int64_t big[] = {37, 301}, small[] = {5};
    layout_create(&layout, &err);
    layout_add(layout, "big", TENSOR_PARAM, 2, big, &err);
    layout_add(layout, "small", TENSOR_PARAM, 1, small, &err);
    layout_add(layout, "other", TENSOR_PARAM, 2, big, &err);
    for (int k = 0; k < MICRO; k++) {
        grad[k] = layout_alloc(layout);
        for (int t = 0; t < layout_len(layout); t++) { /* gaps stay 0 */
            const struct tensor *x = layout_at(layout, t);
            for (size_t i = x->offset; i < x->offset + x->count; i++)
                grad[k][i] = noise(i, k) * (i < 3000 ? 1e-3f : 7.0f);
        }
    }
    result = layout_alloc(layout);
    other = layout_alloc(layout);
    return err.code;
}

static int teardown(void **state)
{
    (void)state;
    layout_destroy(layout);
    for (int k = 0; k < MICRO; k++)
        free(grad[k]);
    free(result);
    free(other);
    return 0;
}

static struct fixed_point_sum *make(void)
{
    struct fixed_point_sum *e;
    struct err err = {0};
    assert_int_equal(fixed_point_sum_create(&e, layout, layout_floats(layout), &err), 0);
    return e;
}

/* One rank has all sums. */
static int settle(struct fixed_point_sum *e, float *to, double *loss)
{
    size_t n;
    if (!fixed_point_sum_settle(e, loss))
        return 0;
    const int64_t *sums = fixed_point_sum_sums(e, &n);
    fixed_point_sum_result(e, to, sums, 0, n);
    return 1;
}

/* A step of one rank; returns how often it had to begin. */
static int step(struct fixed_point_sum *e, const int *order, int n, float *to, double *loss)
{
    for (int tries = 1; tries < 5; tries++) {
        fixed_point_sum_begin(e);
        for (int k = 0; k < n; k++)
            fixed_point_sum_add(e, grad[order[k]], 0.25 * order[k]);
        if (settle(e, to, loss))
            return tries;
    }
    return 0;
}

static void order_and_grouping_do_not_matter(void **state)
{
    (void)state;
    static const int up[] = {0, 1, 2, 3, 4, 5}, mixed[] = {4, 0, 5, 3, 1, 2};
    struct fixed_point_sum *a = make(), *b = make(), *c = make();
    double x, y;
    size_t bytes = sizeof(float) * layout_floats(layout), n, m;
    assert_int_equal(step(a, up, MICRO, result, &x), 1); /* 40 bits of numbers near 1 */
    assert_int_equal(step(b, mixed, MICRO, other, &y), 1);
    assert_memory_equal(result, other, bytes);
    assert_true(x == y && x == 0.25 * 15);
    const int32_t *learned = fixed_point_sum_exponents(a, &n), *same = fixed_point_sum_exponents(b, &m);
    assert_true(n == 4 && m == 4);
    assert_memory_equal(learned, same, n * sizeof(int32_t));
    /* Two ranks: sums added, maxima compared. */
    struct fixed_point_sum *d = make();
    fixed_point_sum_begin(c);
    fixed_point_sum_begin(d);
    for (int k = 0; k < MICRO; k++)
        fixed_point_sum_add(k < 2 ? c : d, grad[mixed[k]], 0.25 * mixed[k]);
    int64_t *sums = fixed_point_sum_sums(c, &n), *more = fixed_point_sum_sums(d, &n);
    for (size_t i = 0; i < n; i++)
        sums[i] += more[i];
    *fixed_point_sum_loss(c) += *fixed_point_sum_loss(d);
    float *most = fixed_point_sum_maxima(c, &n), *also = fixed_point_sum_maxima(d, &n);
    for (size_t i = 0; i < n; i++)
        most[i] = most[i] > also[i] ? most[i] : also[i];
    assert_int_equal(settle(c, other, &y), 1);
    assert_memory_equal(result, other, bytes);
    assert_true(x == y);
    /* And it is the sum, as far as floats go. */
    for (size_t i = 0; i < layout_floats(layout); i++) {
        double sum = 0;
        for (int k = 0; k < MICRO; k++)
            sum += (double)grad[k][i];
        assert_true(fabs((double)result[i] - sum) <= 1e-7 * fabs(sum) + 1e-10);
    }
    fixed_point_sum_destroy(a);
    fixed_point_sum_destroy(b);
    fixed_point_sum_destroy(c);
    fixed_point_sum_destroy(d);
}

static void a_scale_that_does_not_fit_is_changed(void **state)
{
    (void)state;
    static const int up[] = {0, 1, 2};
    static const struct {
        float factor;
        int   tries;
    } rows[] = {{1, 1}, {100, 1}, {1e6f, 2}, {1e6f, 1}, {1e-3f, 2}, {0.03f, 1}, {1e30f, 2},
                {1e-38f, 2}, {0, 1}, {1e-38f, 1}, {1, 2}};
    struct fixed_point_sum *e = make();
    double loss;
    size_t n = layout_floats(layout);
    float *before[3];
    for (int k = 0; k < 3; k++) {
        before[k] = layout_alloc(layout);
        memcpy(before[k], grad[k], n * sizeof(float));
    }
    assert_int_equal(step(e, up, 3, result, &loss), 1);
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        for (int k = 0; k < 3; k++)
            for (size_t i = 0; i < n; i++)
                grad[k][i] = before[k][i] * rows[r].factor;
        int tries = step(e, up, 3, result, &loss);
        if (tries != rows[r].tries)
            fail_msg("row %zu: %d tries", r, tries);
        for (size_t i = 0; i < n; i++) {
            double sum = (double)grad[0][i] + (double)grad[1][i] + (double)grad[2][i];
            double scale = 7 * (double)rows[r].factor; /* of the largest number of a tensor */
            assert_true(fabs((double)result[i] - sum) <=
                        1e-7 * fabs(sum) + 2 * ldexp(scale, -FIXED_POINT_SUM_LEAST) + 1e-45);
        }
    }
    for (int k = 0; k < 3; k++) {
        memcpy(grad[k], before[k], n * sizeof(float));
        free(before[k]);
    }
    fixed_point_sum_destroy(e);
}

static void what_is_not_finite_stays_so(void **state)
{
    (void)state;
    static const int up[] = {0, 1};
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    double loss;
    size_t at = layout_at(layout, 1)->offset + 3;
    float was = grad[1][at];
    for (int i = 0; i < 3; i++) {
        struct fixed_point_sum *e = make();
        grad[1][at] = bad[i];
        assert_int_equal(step(e, up, 2, result, &loss), 1);
        assert_true(isnan(result[at]));
        assert_true(isfinite(result[0]) && isfinite(loss));
        fixed_point_sum_destroy(e);
    }
    grad[1][at] = was;
    struct fixed_point_sum *e = make();
    fixed_point_sum_begin(e);
    fixed_point_sum_add(e, grad[0], (double)NAN);
    fixed_point_sum_add(e, grad[0], 1);
    assert_int_equal(settle(e, result, &loss), 1);
    assert_true(isnan(loss));
    fixed_point_sum_destroy(e);
}

/* The norm, added up by one rank, and by five that cut it anywhere at a multiple of 16. */
static void the_norm_has_one_value(void **state)
{
    (void)state;
    static const int up[] = {0, 1, 2, 3, 4, 5};
    struct fixed_point_sum *a = make();
    double loss, plain = 0;
    size_t floats = layout_floats(layout), n;
    assert_true(step(a, up, MICRO, result, &loss) > 0);
    fixed_point_sum_add_squares(a, result, 0, floats, MICRO);
    double norm = fixed_point_sum_norm(a, MICRO);
    for (size_t i = 0; i < floats; i++)
        plain += (double)result[i] * (double)result[i];
    assert_true(fabs(norm - sqrt(plain)) < 1e-6 * norm);
    int64_t *squares = fixed_point_sum_squares(a, &n);
    memset(squares, 0, n * sizeof(*squares));
    const size_t cuts[] = {0, 16, 4112, 11152, 11168, floats};
    for (int k = 4; k >= 0; k--)
        fixed_point_sum_add_squares(a, result + cuts[k], cuts[k], cuts[k + 1], MICRO);
    assert_true(fixed_point_sum_norm(a, MICRO) == norm);
    fixed_point_sum_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_and_grouping_do_not_matter),
        cmocka_unit_test(a_scale_that_does_not_fit_is_changed),
        cmocka_unit_test(what_is_not_finite_stays_so),
        cmocka_unit_test(the_norm_has_one_value),
    };
    return cmocka_run_group_tests_name("exact", tests, setup, teardown);
}
