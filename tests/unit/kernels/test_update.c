/* SPDX-License-Identifier: Apache-2.0 */
/* test_update.c - loss, norm, AdamW, CAME and EMA kernels against their formulas in double */
#include "tests/unit/kernels/kern_test.h"

static const size_t lengths[] = {1, 3, 16, 17, 100, 4097, 16385, 50001};

static void check_flow(const struct kern_ops *k, int B, size_t n)
{
    const size_t all = (size_t)B * n;
    float *x0 = array_new(all, 2), *noise = array_new(all, 2), *out = array_new(all, 2);
    float *x_t = array_new(all, 1), *dout = array_new(all, 1);
    float *alpha = array_new((size_t)B, 1), *sigma = array_new((size_t)B, 1);
    double *want = doubles_new(all), *per = doubles_new((size_t)B), *wper = doubles_new((size_t)B);
    for (size_t i = 0; i < all; i++)
        want[i] = (double)alpha[i / n] * (double)x0[i] + (double)sigma[i / n] * (double)noise[i];
    k->flow_noise(x_t, x0, noise, alpha, sigma, B, n);
    near("flow_noise", k->name, x_t, want, all, 3e-7);
    for (size_t i = 0; i < all; i++) {
        double e = (double)noise[i] - (double)x0[i] - (double)out[i];
        wper[i / n] += e * e / (double)n;
        want[i] = -2 * e * 0.75 / (double)all;
    }
    k->flow_loss(per, dout, out, x0, noise, 0.75, B, n);
    for (int b = 0; b < B; b++)
        if (fabs(per[b] - wper[b]) > 5e-7 * wper[b])
            fail_msg("flow_loss (%s): %.9g, not %.9g", k->name, per[b], wper[b]);
    for (size_t i = 0; i < all; i++) /* near() is relative to 1e-3 at least */
        want[i] *= (double)all, dout[i] *= (float)all;
    near("flow_loss dout", k->name, dout, want, all, 1e-6);
    free(want);
    free(per);
    free(wper);
    arrays_end("flow");
}

static void check_adamw(const struct kern_ops *k, size_t n)
{
    float *p = array_new(n, 1), *m = array_new(n, 0.1), *v = array_new(n, 0.1);
    float *g = array_new(n, 1), *avg = array_new(n, 1), *also = array_new(n, 1);
    double *wp = doubles_new(n), *wm = doubles_new(n), *wv = doubles_new(n), *wa = doubles_new(n);
    const double lr = 1e-2, b1 = 0.9, b2 = 0.999, clip = 0.25, wd = 0.1, eps = 1e-8;
    const int step = 7;
    for (size_t i = 0; i < n; i++) {
        v[i] = fabsf(v[i]);
        double grad = (double)g[i] * clip;
        wm[i] = b1 * (double)m[i] + (1 - b1) * grad;
        wv[i] = b2 * (double)v[i] + (1 - b2) * grad * grad;
        wp[i] = (double)p[i] * (1 - lr * wd) - lr / (1 - pow(b1, step)) * wm[i] /
                                                   (sqrt(wv[i]) / sqrt(1 - pow(b2, step)) + eps);
        wa[i] = (double)avg[i] * 0.9999 + (double)p[i] * 0.0001;
    }
    const struct kern_adamw c = {
        .beta1 = (float)b1, .rest1 = (float)(1 - b1), .beta2 = (float)b2,
        .rest2 = (float)(1 - b2), .eps = (float)eps, .decay = (float)(1 - lr * wd),
        .step = (float)(lr / (1 - pow(b1, step))), .root = (float)(1 / sqrt(1 - pow(b2, step))),
        .clip = (float)clip,
    };
    k->ema(avg, p, 0.9999f, 0.0001f, n);
    near("ema", k->name, avg, wa, n, 3e-7);
    k->adamw(p, also, m, v, g, c, n);
    near("adamw m", k->name, m, wm, n, 3e-7);
    near("adamw v", k->name, v, wv, n, 3e-7);
    near("adamw p", k->name, p, wp, n, 1e-6);
    assert_memory_equal(also, p, n * sizeof(*p));
    free(wp);
    free(wm);
    free(wv);
    free(wa);
    arrays_end("adamw");
}

static void check_sum(const struct kern_ops *k, size_t n)
{
    float *x = array_new(n, 3);
    double want = 0;
    for (size_t i = 0; i < n; i++)
        want += (double)x[i] * (double)x[i];
    double got = k->sum_squares(x, n);
    if (fabs(got - want) > 1e-13 * want)
        fail_msg("sum_squares (%s): %.17g, not %.17g", k->name, got, want);
    arrays_end("sum_squares");
}

/* rows 0: not factored, cols numbers. */
static void check_came(const struct kern_ops *k, int rows, int cols)
{
    const int R = rows ? rows : 1;
    const size_t n = (size_t)(R * cols), nr = (size_t)R, nc = (size_t)cols;
    float *p = array_new(n, 1), *g = array_new(n, 1), *work = array_new(n, 1);
    float *also = array_new(n, 1);
    struct kern_came_state s = {
        rows, rows ? cols : 0, array_new(n, 0.1), array_new(n, 0.1), array_new(nr, 0.1),
        array_new(nc, 0.1), array_new(nr, 0.1), array_new(nc, 0.1), work,
    };
    float *all[] = {s.v, s.row, s.col, s.res_row, s.res_col};
    const size_t lens[] = {n, nr, nc, nr, nc};
    for (size_t a = 0; a < ARRAY_LEN(all); a++)
        for (size_t i = 0; i < lens[a]; i++)
            all[a][i] = fabsf(all[a][i]) + 0.01f;
    const double b1 = 0.9, b2 = 0.99, b3 = 0.999, e1 = 1e-30, e2 = 1e-16, lr = 0.01, wd = 0.1;
    const double clip = 0.5, threshold = 0.3;
    double *u = doubles_new(n), *wm = doubles_new(n), *wp = doubles_new(n);
    double *r = doubles_new(nr), *c = doubles_new(nc), mean = 0, square = 0;
    double *rr = doubles_new(nr), *rc = doubles_new(nc), rmean = 0;
    for (size_t i = 0; i < n; i++) {
        double a = (double)g[i] * clip, U = a * a + e1;
        r[i / nc] += (1 - b2) * U / cols;
        c[i % nc] += (1 - b2) * U / R;
    }
    for (size_t i = 0; i < nr; i++)
        mean += (r[i] += b2 * (double)s.row[i]) / R;
    for (size_t i = 0; i < nc; i++)
        c[i] += b2 * (double)s.col[i];
    for (size_t i = 0; i < n; i++) {
        double a = (double)g[i] * clip;
        u[i] = rows ? a / sqrt(r[i / nc] / mean) / sqrt(c[i % nc])
                    : a / sqrt(b2 * (double)s.v[i] + (1 - b2) * (a * a + e1));
        square += u[i] * u[i] / (double)n;
    }
    const double limit = fmax(1, sqrt(square) / threshold);
    for (size_t i = 0; i < n; i++) {
        u[i] /= limit;
        wm[i] = b1 * (double)s.m[i] + (1 - b1) * u[i];
        double res = (u[i] - wm[i]) * (u[i] - wm[i]) + e2;
        rr[i / nc] += (1 - b3) * res / cols;
        rc[i % nc] += (1 - b3) * res / R;
    }
    for (size_t i = 0; i < nr; i++)
        rmean += (rr[i] += b3 * (double)s.res_row[i]) / R;
    for (size_t i = 0; i < nc; i++)
        rc[i] += b3 * (double)s.res_col[i];
    for (size_t i = 0; i < n; i++) {
        double step = rows ? wm[i] / sqrt(rr[i / nc] / rmean) / sqrt(rc[i % nc]) : wm[i];
        wp[i] = (double)p[i] * (1 - lr * wd) - lr * step;
    }
    const struct kern_came args = {
        (float)b1, (float)(1 - b1), (float)b2, (float)(1 - b2), (float)b3, (float)(1 - b3),
        (float)e1, (float)e2, (float)lr, (float)(1 - lr * wd), (float)threshold, (float)clip,
    };
    k->came(p, also, s, g, args, n);
    near("came m", k->name, s.m, wm, n, 2e-6);
    near("came p", k->name, p, wp, n, 2e-6);
    assert_memory_equal(also, p, n * sizeof(*p));
    if (rows) {
        near("came row", k->name, s.row, r, nr, 1e-6);
        near("came col", k->name, s.col, c, nc, 1e-6);
        near("came res_row", k->name, s.res_row, rr, nr, 1e-6);
        near("came res_col", k->name, s.res_col, rc, nc, 1e-6);
    }
    free(u);
    free(wm);
    free(wp);
    free(r);
    free(c);
    free(rr);
    free(rc);
    arrays_end("came");
}

static void updates(const struct kern_ops *k)
{
    for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
        check_adamw(k, lengths[i]);
        check_sum(k, lengths[i]);
        check_flow(k, 1, lengths[i]);
        check_flow(k, 3, lengths[i] / 3 + 1);
        check_came(k, 0, (int)lengths[i]);
    }
    static const int matrices[][2] = {{1, 1}, {2, 3}, {17, 5}, {64, 33}, {300, 130}};
    for (size_t i = 0; i < ARRAY_LEN(matrices); i++)
        check_came(k, matrices[i][0], matrices[i][1]);
}

static void updates_test(void **state)
{
    (void)state;
    each_isa(updates);
}

/* A long sum: several chunks, and the same bits on repetition. */
static void long_sums_repeat(void **state)
{
    (void)state;
    const size_t n = 5000011;
    float *x = array_new(n, 1);
    const double first = kern_cpu()->sum_squares(x, n);
    double want = 0;
    for (size_t i = 0; i < n; i++)
        want += (double)x[i] * (double)x[i];
    assert_true(fabs(first - want) < 1e-11 * want);
    for (int i = 0; i < 3; i++)
        assert_true(kern_cpu()->sum_squares(x, n) == first);
    arrays_end("sum_squares");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(updates_test),
        cmocka_unit_test(long_sums_repeat),
    };
    return cmocka_run_group_tests_name("update", tests, NULL, NULL);
}
