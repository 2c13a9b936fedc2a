/* SPDX-License-Identifier: Apache-2.0 */
/* test_matmul.c - linear layers at odd sizes, forward and backward, against double */
#include "tests/unit/kernels/kern_test.h"

static const struct {
    int m, k, n;
} sizes[] = {
    {1, 1, 1},  {1, 7, 3},   {3, 1, 5},    {5, 17, 31},  {16, 16, 16}, {33, 64, 47},
    {7, 96, 200}, {130, 31, 65}, {257, 63, 129}, {4, 256, 770},
};

static void check_linear(const struct kern_ops *k, int m, int K, int n, int with_bias)
{
    const size_t mk = (size_t)(m * K), nk = (size_t)(n * K), mn = (size_t)(m * n);
    float *x = array_new(mk, 1), *w = array_new(nk, 1), *b = array_new((size_t)n, 1);
    float *y = array_new(mn, 9);
    double *want = doubles_new(mn);
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            double s = with_bias ? (double)b[j] : 0;
            for (int l = 0; l < K; l++)
                s += (double)x[i * K + l] * (double)w[j * K + l];
            want[i * n + j] = s;
        }
    k->linear(y, x, w, with_bias ? b : NULL, m, K, n);
    near("linear", k->name, y, want, mn, 1e-6);
    free(want);
    arrays_end("linear");
}

static void check_linear_back(const struct kern_ops *k, int m, int K, int n, int keep)
{
    const size_t mk = (size_t)(m * K), nk = (size_t)(n * K), mn = (size_t)(m * n);
    float *x = array_new(mk, 1), *w = array_new(nk, 1), *dy = array_new(mn, 1);
    float *dx = array_new(mk, 1), *dw = array_new(nk, 1), *db = array_new((size_t)n, 1);
    const float *before = array_copy(dw, nk);
    double *wx = doubles_new(mk), *ww = doubles_new(nk), *wb = doubles_new((size_t)n);
    for (int i = 0; i < m; i++)
        for (int l = 0; l < K; l++) {
            double s = keep ? (double)dx[i * K + l] : 0;
            for (int j = 0; j < n; j++)
                s += (double)dy[i * n + j] * (double)w[j * K + l];
            wx[i * K + l] = s;
        }
    for (int j = 0; j < n; j++) {
        wb[j] = (double)db[j];
        for (int i = 0; i < m; i++)
            wb[j] += (double)dy[i * n + j];
        for (int l = 0; l < K; l++) {
            double s = (double)dw[j * K + l];
            for (int i = 0; i < m; i++)
                s += (double)dy[i * n + j] * (double)x[i * K + l];
            ww[j * K + l] = s;
        }
    }
    k->linear_back_wide(dx, keep, dw, db, dy, x, w, m, K, n);
    near("linear_back dx", k->name, dx, wx, mk, 1e-6);
    near("linear_back dw", k->name, dw, ww, nk, 1e-6);
    near("linear_back db", k->name, db, wb, (size_t)n, 1e-6);
    /* Without dx and db: dw is added to again. */
    for (size_t i = 0; i < nk; i++)
        ww[i] = 2 * ww[i] - (double)before[i];
    k->linear_back(NULL, dw, NULL, dy, x, w, m, K, n);
    near("linear_back dw alone", k->name, dw, ww, nk, 1e-6);
    free(wx);
    free(ww);
    free(wb);
    arrays_end("linear_back");
}

static void linear_at_odd_sizes(const struct kern_ops *k)
{
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++)
        for (int flag = 0; flag < 2; flag++) {
            check_linear(k, sizes[i].m, sizes[i].k, sizes[i].n, flag);
            check_linear_back(k, sizes[i].m, sizes[i].k, sizes[i].n, flag);
        }
}

static void linear_is_right(void **state)
{
    (void)state;
    each_isa(linear_at_odd_sizes);
}

/* The same call gives the same bits, whatever the threads ran before. */
static void bits_repeat(void **state)
{
    (void)state;
    const struct kern_ops *k = kern_cpu();
    enum { M = 300, K = 96, N = 130 };
    float *x = array_new(M * K, 1), *w = array_new(N * K, 1), *b = array_new(N, 1);
    float *y = array_new(M * N, 0), *again = array_new(M * N, 0);
    float *dw = array_new(N * K, 0), *dw2 = array_new(N * K, 0), *dx = array_new(M * K, 0);
    k->linear(y, x, w, b, M, K, N);
    k->linear_back(dx, dw, NULL, y, x, w, M, K, N);
    for (int i = 0; i < 5; i++) {
        k->linear(again, x, w, b, M, K, N);
        assert_memory_equal(y, again, sizeof(float) * M * N);
        k->zero(dw2, N * K);
        k->linear_back(dx, dw2, NULL, y, x, w, M, K, N);
        assert_memory_equal(dw, dw2, sizeof(float) * N * K);
    }
    arrays_end("bits_repeat");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(linear_is_right),
        cmocka_unit_test(bits_repeat),
    };
    return cmocka_run_group_tests_name("matmul", tests, NULL, NULL);
}
