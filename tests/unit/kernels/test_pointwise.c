/* SPDX-License-Identifier: Apache-2.0 */
/* test_pointwise.c - activations, gates, modulation and patches against double */
#include "tests/unit/kernels/kern_test.h"

#include "kernels/simd.h"

static const size_t lengths[] = {1, 5, 15, 16, 17, 100, 8192, 8193, 20011, 40000};

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double silu(double x)
{
    return x * sigmoid(x);
}

static double silu_slope(double x)
{
    return sigmoid(x) * (1 + x * (1 - sigmoid(x)));
}

static double gelu(double x)
{
    return 0.5 * x * (1 + tanh(sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
}

static double gelu_slope(double x)
{
    const double h = 1e-5;
    return (gelu(x + h) - gelu(x - h)) / (2 * h);
}

struct activation {
    const char *name;
    void (*forward)(const struct kern_ops *, void *, const float *, size_t);
    void (*backward)(const struct kern_ops *, void *, const float *, const float *, size_t);
    double (*value)(double);
    double (*slope)(double);
};

static void check_activation(const struct kern_ops *k, const struct activation *a, size_t n)
{
    float *x = array_new(n, 12), *y = array_new(n, 1), *dy = array_new(n, 1);
    float *dx = array_new(n, 1);
    double *want = doubles_new(n);
    for (size_t i = 0; i < n; i++)
        want[i] = a->value((double)x[i]);
    a->forward(k, y, x, n);
    near(a->name, k->name, y, want, n, 5e-7);
    for (size_t i = 0; i < n; i++)
        want[i] = (double)dy[i] * a->slope((double)x[i]);
    a->backward(k, dx, dy, x, n);
    near(a->name, k->name, dx, want, n, 2e-6);
    a->backward(k, dy, dy, x, n);
    assert_memory_equal(dx, dy, n * sizeof(float));
    a->forward(k, x, x, n);
    assert_memory_equal(x, y, n * sizeof(float));
    free(want);
    arrays_end(a->name);
}

static void run_silu(const struct kern_ops *k, void *y, const float *x, size_t n)
{
    k->silu(y, x, n);
}

static void run_silu_back(const struct kern_ops *k, void *dx, const float *dy, const float *x, size_t n)
{
    k->silu_back(dx, dy, x, n);
}

static void run_gelu(const struct kern_ops *k, void *y, const float *x, size_t n)
{
    k->gelu(y, x, n);
}

static void run_gelu_back(const struct kern_ops *k, void *dx, const float *dy, const float *x, size_t n)
{
    k->gelu_back(dx, dy, x, n);
}

static void activations(const struct kern_ops *k)
{
    static const struct activation rows[] = {
        {"silu", run_silu, run_silu_back, silu, silu_slope},
        {"gelu", run_gelu, run_gelu_back, gelu, gelu_slope},
    };
    for (size_t r = 0; r < ARRAY_LEN(rows); r++)
        for (size_t i = 0; i < ARRAY_LEN(lengths); i++)
            check_activation(k, &rows[r], lengths[i]);
}

/* The whole range of exp and sigmoid, in units in the last place of the result. */
static void exp_and_sigmoid_are_accurate(void **state)
{
    (void)state;
    double worst_exp = 0, worst_sigmoid = 0;
    for (double at = -87; at < 88; at += 0.0173) {
        float in[LANES], out[LANES], sig[LANES];
        for (int i = 0; i < LANES; i++)
            in[i] = (float)(at + i * 0.00107);
        simd_store(out, simd_exp(simd_load(in)));
        simd_store(sig, simd_sigmoid(simd_load(in)));
        for (int i = 0; i < LANES; i++) {
            double e = exp((double)in[i]), s = sigmoid((double)in[i]);
            worst_exp = fmax(worst_exp, fabs((double)out[i] - e) / ldexp(1, ilogb(e) - 23));
            worst_sigmoid = fmax(worst_sigmoid, fabs((double)sig[i] - s) / ldexp(1, ilogb(s) - 23));
        }
    }
    print_message("exp %.2f ulp, sigmoid %.2f ulp\n", worst_exp, worst_sigmoid);
    assert_true(worst_exp <= 1);
    assert_true(worst_sigmoid <= 2.5);
    static const float edges[LANES] = {-INFINITY, -1e30f, -88, 0, 89, 1e30f, INFINITY, NAN};
    float out[LANES];
    simd_store(out, simd_exp(simd_load(edges)));
    assert_true(out[0] == 0 && out[1] == 0 && out[2] == 0 && out[3] == 1);
    assert_true(out[4] > 1e38f && out[5] > 1e38f && out[6] > 1e38f);
    assert_true(isnan(out[7]));
}

/* On both sides of 0.6, where tanh switches formulas, and far out. */
static void tanh_is_accurate(void **state)
{
    (void)state;
    double worst = 0;
    for (double at = 1e-6; at < 20; at *= 1.0007) {
        float in[LANES], out[LANES];
        for (int i = 0; i < LANES; i++)
            in[i] = (float)(at * (1 + i * 1e-5)) * (i % 2 ? 1 : -1);
        simd_store(out, simd_tanh(simd_load(in)));
        for (int i = 0; i < LANES; i++) {
            const double t = tanh((double)in[i]);
            worst = fmax(worst, fabs((double)out[i] - t) / ldexp(1, ilogb(t) - 23));
        }
    }
    print_message("tanh %.2f ulp\n", worst);
    assert_true(worst <= 3.5);
    static const float edges[LANES] = {-INFINITY, -1e30f, -40, 0, 40, 1e30f, INFINITY, NAN};
    float out[LANES];
    simd_store(out, simd_tanh(simd_load(edges)));
    assert_true(out[0] == -1 && out[1] == -1 && out[2] == -1 && out[3] == 0);
    assert_true(out[4] == 1 && out[5] == 1 && out[6] == 1);
    assert_true(isnan(out[7]));
}

/* Rows of `cols` numbers and as many from column `second` on; what is between them counts for nothing and gets 0. */
static void check_swiglu(const struct kern_ops *k, size_t rows, size_t cols, size_t second)
{
    const size_t ld = second + cols, n = rows * cols, all = rows * ld;
    float *u = array_new(all, 4), *dy = array_new(n, 1), *y = array_new(n, 1), *du = array_new(all, 1);
    double *want = doubles_new(n), *back = doubles_new(all);
    memset(back, 0, all * sizeof(*back));
    for (size_t i = 0; i < n; i++) {
        const size_t at = i / cols * ld + i % cols;
        const double x = (double)u[at], b = (double)u[at + second], d = (double)dy[i];
        want[i] = silu(x) * b;
        back[at] = d * b * silu_slope(x);
        back[at + second] = d * silu(x);
    }
    for (size_t i = 0; i < all; i++)
        u[i] = i % ld >= cols && i % ld < second ? NAN : u[i];
    k->swiglu(y, u, (int)rows, (int)cols, (int)second);
    near("swiglu", k->name, y, want, n, 5e-7);
    k->swiglu_back(du, dy, u, (int)rows, (int)cols, (int)second);
    near("swiglu_back", k->name, du, back, all, 1e-6);
    k->swiglu_back(u, dy, u, (int)rows, (int)cols, (int)second);
    assert_memory_equal(u, du, all * sizeof(float));
    free(want);
    free(back);
    arrays_end("swiglu");
}

static void check_glu(const struct kern_ops *k, int rows, int half)
{
    const size_t n = (size_t)(rows * half);
    float *x = array_new(2 * n, 6), *y = array_new(n, 1), *dy = array_new(n, 1);
    float *dx = array_new(2 * n, 1);
    double *want = doubles_new(2 * n);
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < half; c++)
            want[r * half + c] = (double)x[r * 2 * half + c] *
                                 silu((double)x[r * 2 * half + half + c]);
    k->glu(y, x, rows, half);
    near("glu", k->name, y, want, n, 5e-7);
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < half; c++) {
            const int at = r * 2 * half + c;
            const double d = (double)dy[r * half + c], a = (double)x[at], g = (double)x[at + half];
            want[at] = d * silu(g);
            want[at + half] = d * a * silu_slope(g);
        }
    k->glu_back(dx, dy, x, rows, half);
    near("glu_back", k->name, dx, want, 2 * n, 1e-6);
    free(want);
    arrays_end("glu");
}

static const struct {
    int batch, tokens, cols;
} blocks[] = {{1, 1, 1}, {2, 3, 5}, {3, 33, 17}, {1, 100, 64}, {2, 65, 130}, {4, 200, 48}};

static void check_gate(const struct kern_ops *k, int B, int N, int C)
{
    const size_t n = (size_t)(B * N * C);
    const int ld = 3 * C; /* the gate is the middle one of three */
    float *x = array_new(n, 1), *a = array_new(n, 1), *g = array_new((size_t)(B * ld), 1);
    float *dy = array_new(n, 1), *y = array_new(n, 1), *da = array_new(n, 1);
    float *dg = array_new((size_t)(B * ld), 1), *dg_before = array_copy(dg, (size_t)(B * ld));
    float *also = array_new(n, 1);
    double *want = doubles_new(n), *wg = doubles_new((size_t)(B * ld)), *wa = doubles_new(n);
    for (int i = 0; i < B * ld; i++)
        wg[i] = i % ld / C == 1 ? 0 : (double)dg_before[i];
    for (int r = 0; r < B * N; r++)
        for (int c = 0; c < C; c++) {
            const int at = r * C + c, ga = r / N * ld + C + c;
            want[at] = (double)x[at] + (double)g[ga] * (double)a[at];
            wa[at] = (double)g[ga] * (double)dy[at];
            wg[ga] += (double)dy[at] * (double)a[at];
        }
    k->gate(y, also, x, g + C, ld, a, B, N, C);
    near("gate", k->name, y, want, n, 5e-7);
    assert_memory_equal(also, y, n * sizeof(*y));
    k->gate_back(da, dg + C, dy, g + C, ld, a, B, N, C);
    near("gate_back da", k->name, da, wa, n, 5e-7);
    near("gate_back dgate", k->name, dg, wg, (size_t)(B * ld), 2e-6);
    k->gate(x, x, x, g + C, ld, a, B, N, C);
    assert_memory_equal(x, y, n * sizeof(float));
    free(want);
    free(wg);
    free(wa);
    arrays_end("gate");
}

static void gates(const struct kern_ops *k)
{
    for (size_t i = 0; i < ARRAY_LEN(lengths); i++)
        check_swiglu(k, 3, lengths[i], lengths[i] + 5 * (i % 2));
    for (size_t i = 0; i < ARRAY_LEN(blocks); i++) {
        check_gate(k, blocks[i].batch, blocks[i].tokens, blocks[i].cols);
        check_glu(k, blocks[i].batch * blocks[i].tokens, blocks[i].cols);
    }
}

/* `row` cols: each modulation row has its own t; 0: all rows share one. */
static void check_mod(const struct kern_ops *k, int B, int R, int C, int shared)
{
    const int row = shared ? 0 : C, ldt = shared ? C : R * C;
    const size_t n = (size_t)(B * R * C), tn = (size_t)(B * ldt);
    float *table = array_new((size_t)(R * C), 1), *t = array_new(tn, 1), *mod = array_new(n, 1);
    float *dmod = array_new(n, 1), *dt = array_new(tn, 1), *dtable = array_new((size_t)(R * C), 1);
    double *want = doubles_new(n), *wt = doubles_new(tn), *wtable = doubles_new((size_t)(R * C));
    for (size_t i = 0; i < tn; i++)
        wt[i] = (double)dt[i];
    for (int i = 0; i < R * C; i++)
        wtable[i] = (double)dtable[i];
    for (int b = 0; b < B; b++)
        for (int r = 0; r < R; r++)
            for (int c = 0; c < C; c++) {
                const int at = (b * R + r) * C + c, from = b * ldt + r * row + c;
                want[at] = (double)table[r * C + c] + (double)t[from];
                wt[from] += (double)dmod[at];
                wtable[r * C + c] += (double)dmod[at];
            }
    k->mod_add(mod, table, t, ldt, row, B, R, C);
    near("mod_add", k->name, mod, want, n, 2e-7);
    k->mod_add_back(dtable, dt, ldt, row, dmod, B, R, C);
    near("mod_add_back dt", k->name, dt, wt, tn, 1e-6);
    near("mod_add_back dtable", k->name, dtable, wtable, (size_t)(R * C), 1e-6);
    free(want);
    free(wt);
    free(wtable);
    arrays_end("mod_add");
}

static void modulation(const struct kern_ops *k)
{
    for (int shared = 0; shared < 2; shared++) {
        check_mod(k, 1, 1, 1, shared);
        check_mod(k, 3, 6, 17, shared);
        check_mod(k, 2, 2, 64, shared);
    }
}

static void small_ones(const struct kern_ops *k)
{
    for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
        const size_t n = lengths[i];
        float *a = array_new(n, 1), *b = array_new(n, 1), *y = array_new(n, 1);
        k->add(y, a, b, n);
        for (size_t j = 0; j < n; j++)
            assert_true(y[j] == a[j] + b[j]);
        k->copy(y, a, n);
        assert_memory_equal(y, a, n * sizeof(float));
        k->round(y, b, n);
        assert_memory_equal(y, b, n * sizeof(float));
        k->zero(y, n);
        for (size_t j = 0; j < n; j++)
            assert_true(y[j] == 0);
        arrays_end("add");
    }
    float t[2] = {999, 3.9f}, f[3] = {1, 0.5f, 0.001f}, emb[12];
    k->time_embed(emb, t, f, 2, 3);
    for (int b = 0; b < 2; b++)
        for (int i = 0; i < 3; i++) {
            double angle = (double)((float)(int)t[b] * f[i]);
            assert_true(fabs((double)emb[b * 6 + i] - cos(angle)) < 1e-7);
            assert_true(fabs((double)emb[b * 6 + 3 + i] - sin(angle)) < 1e-7);
        }
    t[0] = 0.73f;
    k->time_embed_exact(emb, t, f, 2, 3);
    for (int b = 0; b < 2; b++)
        for (int i = 0; i < 3; i++) {
            const double angle = (double)(t[b] * f[i]);
            assert_true(fabs((double)emb[b * 6 + i] - cos(angle)) < 1e-7);
            assert_true(fabs((double)emb[b * 6 + 3 + i] - sin(angle)) < 1e-7);
        }
    arrays_end("relu");
}

/* Rows of samples one after another: 4, 1 and 7 of them, or 4 of each. */
static void check_pool(const struct kern_ops *k, const int *first, int most, int C)
{
    enum { B = 3, ROWS = 12 };
    float *x = array_new((size_t)(ROWS * C), 1), *y = array_new((size_t)(B * C), 1);
    double *want = doubles_new((size_t)(B * C));
    for (int b = 0; b < B; b++) {
        const int from = first ? first[b] : b * most, to = first ? first[b + 1] : from + most;
        for (int r = from; r < to; r++)
            for (int c = 0; c < C; c++)
                want[b * C + c] += (double)x[r * C + c] / (to - from);
    }
    k->pool(y, x, first, most, B, C);
    near("pool", k->name, y, want, (size_t)(B * C), 3e-7);
    free(want);
    arrays_end("pool");
}

static void pools(const struct kern_ops *k)
{
    static const int first[] = {0, 4, 5, 12}, widths[] = {1, 16, 33, 2048};
    for (size_t i = 0; i < ARRAY_LEN(widths); i++) {
        check_pool(k, first, 7, widths[i]);
        check_pool(k, NULL, 4, widths[i]);
    }
}

static void check_patch(const struct kern_ops *k, struct kern_image s, int p)
{
    const int tokens = s.height / p * (s.width / p), width = s.channels * p * p;
    const size_t n = (size_t)(s.batch * s.channels * s.height * s.width);
    float *img = array_new(n, 1), *tok = array_new(n, 1), *out = array_new(n, 1);
    float *back = array_new(n, 1);
    k->patch_embed(tok, img, s, p);
    k->patchify(out, img, s, p);
    k->unpatchify(back, out, s, p);
    assert_memory_equal(back, img, n * sizeof(float));
    for (int b = 0; b < s.batch; b++)
        for (int c = 0; c < s.channels; c++)
            for (int h = 0; h < s.height; h++)
                for (int w = 0; w < s.width; w++) {
                    float v = img[((b * s.channels + c) * s.height + h) * s.width + w];
                    int row = b * tokens + h / p * (s.width / p) + w / p, i = h % p, j = w % p;
                    assert_true(tok[row * width + c * p * p + i * p + j] == v);
                    assert_true(out[row * width + (i * p + j) * s.channels + c] == v);
                }
    arrays_end("patch");
}

static void patches(const struct kern_ops *k)
{
    check_patch(k, (struct kern_image){1, 1, 1, 1}, 1);
    check_patch(k, (struct kern_image){2, 3, 5, 7}, 1);
    check_patch(k, (struct kern_image){3, 4, 6, 5}, 2);
    check_patch(k, (struct kern_image){2, 9, 3, 4}, 3);
}

#define ON_EACH_ISA(fn)             \
    static void fn##_test(void **s) \
    {                               \
        (void)s;                    \
        each_isa(fn);               \
    }
ON_EACH_ISA(activations)
ON_EACH_ISA(gates)
ON_EACH_ISA(modulation)
ON_EACH_ISA(small_ones)
ON_EACH_ISA(patches)
ON_EACH_ISA(pools)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(activations_test), cmocka_unit_test(exp_and_sigmoid_are_accurate),
        cmocka_unit_test(gates_test),       cmocka_unit_test(modulation_test),
        cmocka_unit_test(small_ones_test),  cmocka_unit_test(patches_test),
        cmocka_unit_test(pools_test),       cmocka_unit_test(tanh_is_accurate),
    };
    return cmocka_run_group_tests_name("pointwise", tests, NULL, NULL);
}
