/* SPDX-License-Identifier: Apache-2.0 */
/* test_rope.c - rotary embedding of heads and their gates, against double */
#include "tests/unit/kernels/kern_test.h"

static void check_rope(const struct kern_ops *k, struct kern_heads s)
{
    const int pairs = s.dim / 2, C = s.heads * s.dim, ld = C + 7, rows = s.batch * s.tokens;
    const size_t n = (size_t)(rows * ld), angles = (size_t)(s.tokens * pairs);
    float *x = array_new(n, 1), *real = array_new(angles, 3), *imag = array_new(angles, 0);
    const float *before = array_copy(x, n);
    double *want = doubles_new(n), *back = doubles_new(n);
    for (size_t i = 0; i < angles; i++) {
        const double angle = (double)real[i];
        real[i] = (float)cos(angle);
        imag[i] = (float)sin(angle);
    }
    for (size_t i = 0; i < n; i++)
        want[i] = back[i] = (double)x[i]; /* the gaps between rows stay unchanged */
    for (int r = 0; r < rows; r++)
        for (int i = 0; i < C; i += 2) {
            const int at = r * ld + i, m = r % s.tokens * pairs + i % s.dim / 2;
            const double c = (double)real[m], sine = (double)imag[m];
            want[at] = (double)x[at] * c - (double)x[at + 1] * sine;
            want[at + 1] = (double)x[at] * sine + (double)x[at + 1] * c;
        }
    k->rope(x, ld, real, imag, false, s);
    near("rope", k->name, x, want, n, 2e-7);
    k->rope(x, ld, real, imag, true, s);
    near("rope back", k->name, x, back, n, 5e-7);
    assert_memory_equal(x + C, before + C, 7 * sizeof(float));
    free(want);
    free(back);
    arrays_end("rope");
}

static void check_head_gate(const struct kern_ops *k, int rows, int H, int D)
{
    const size_t n = (size_t)(rows * H * D);
    float *a = array_new(n, 1), *c = array_new(n, 1), *g = array_new((size_t)H, 1.5);
    float *y = array_new(n, 1), *dy = array_new(n, 1), *dc = array_new(n, 1);
    float *dg = array_new((size_t)H, 1);
    double *want = doubles_new(n), *wc = doubles_new(n), *wg = doubles_new((size_t)H);
    for (int h = 0; h < H; h++)
        wg[h] = (double)dg[h];
    for (size_t i = 0; i < n; i++) {
        const size_t h = i / (size_t)D % (size_t)H;
        const double t = tanh((double)g[h]);
        want[i] = (double)a[i] + t * (double)c[i];
        wc[i] = t * (double)dy[i];
        wg[h] += (double)dy[i] * (double)c[i] * (1 - t * t);
    }
    k->head_gate(y, a, c, g, rows, H, D);
    near("head_gate", k->name, y, want, n, 3e-7);
    k->head_gate_back(dc, dg, dy, c, g, rows, H, D);
    near("head_gate_back dc", k->name, dc, wc, n, 3e-7);
    near("head_gate_back dgate", k->name, dg, wg, (size_t)H, 2e-6);
    /* in place */
    k->head_gate(a, a, c, g, rows, H, D);
    assert_memory_equal(a, y, n * sizeof(float));
    k->head_gate_back(c, dg, dy, c, g, rows, H, D);
    assert_memory_equal(c, dc, n * sizeof(float));
    free(want);
    free(wc);
    free(wg);
    arrays_end("head_gate");
}

static void heads(const struct kern_ops *k)
{
    static const struct kern_heads shapes[] = {
        {1, 1, 1, 2}, {2, 5, 3, 4}, {1, 33, 2, 18}, {3, 7, 1, 34}, {2, 100, 4, 72},
    };
    for (size_t i = 0; i < ARRAY_LEN(shapes); i++) {
        check_rope(k, shapes[i]);
        check_head_gate(k, shapes[i].batch * shapes[i].tokens, shapes[i].heads, shapes[i].dim - 1);
    }
}

static void heads_test(void **state)
{
    (void)state;
    each_isa(heads);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(heads_test)};
    return cmocka_run_group_tests_name("heads", tests, NULL, NULL);
}
