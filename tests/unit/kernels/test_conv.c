/* SPDX-License-Identifier: Apache-2.0 */
/* test_conv.c - depthwise 3x3 at odd sizes, forward and backward, against double */
#include "tests/unit/kernels/kern_test.h"

static const struct kern_image sizes[] = {
    {1, 1, 1, 1}, {1, 1, 5, 3}, {1, 4, 1, 17}, {2, 2, 2, 16}, {2, 3, 7, 65}, {3, 8, 6, 33},
    {1, 16, 16, 130}, {4, 5, 5, 320},
};

static size_t pixel(struct kern_image s, int b, int h, int w, int c)
{
    return (size_t)(((b * s.height + h) * s.width + w) * s.channels + c);
}

static void check_depthwise(const struct kern_ops *k, struct kern_image s)
{
    const size_t n = (size_t)(s.batch * s.height * s.width * s.channels), C = (size_t)s.channels;
    float *x = array_new(n, 1), *w = array_new(9 * C, 1), *b = array_new(C, 1);
    float *y = array_new(n, 1), *dy = array_new(n, 1), *dx = array_new(n, 1);
    float *dw = array_new(9 * C, 1), *db = array_new(C, 1);
    double *wy = doubles_new(n), *wx = doubles_new(n), *ww = doubles_new(9 * C);
    double *wb = doubles_new(C);
    for (size_t i = 0; i < 9 * C; i++)
        ww[i] = (double)dw[i];
    for (size_t i = 0; i < C; i++)
        wb[i] = (double)db[i];
    for (size_t i = 0; i < n; i++) {
        const int c = (int)(i % C), at = (int)(i / C), col = at % s.width;
        const int row = at / s.width % s.height, sample = at / s.width / s.height;
        wy[i] += (double)b[c];
        wb[c] += (double)dy[i];
        for (int t = 0; t < 9; t++) {
            const int h = row + t / 3 - 1, v = col + t % 3 - 1;
            if (h < 0 || h >= s.height || v < 0 || v >= s.width)
                continue;
            const size_t from = pixel(s, sample, h, v, c);
            wy[i] += (double)x[from] * (double)w[c * 9 + t];
            wx[from] += (double)dy[i] * (double)w[c * 9 + t];
            ww[c * 9 + t] += (double)dy[i] * (double)x[from];
        }
    }
    k->depthwise(y, x, w, b, s);
    near("depthwise", k->name, y, wy, n, 1e-6);
    k->depthwise_back(dx, dw, db, dy, x, w, s);
    near("depthwise_back dx", k->name, dx, wx, n, 1e-6);
    near("depthwise_back dw", k->name, dw, ww, 9 * C, 2e-6);
    near("depthwise_back db", k->name, db, wb, C, 2e-6);
    free(wy);
    free(wx);
    free(ww);
    free(wb);
    arrays_end("depthwise");
}

static void convolutions(const struct kern_ops *k)
{
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++)
        check_depthwise(k, sizes[i]);
}

static void depthwise_test(void **state)
{
    (void)state;
    each_isa(convolutions);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(depthwise_test)};
    return cmocka_run_group_tests_name("conv", tests, NULL, NULL);
}
