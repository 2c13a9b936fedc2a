/* SPDX-License-Identifier: Apache-2.0 */
/* test_rmsmod.c - RMS norm with scale and with gate, against double and central differences */
#include "tests/unit/kernels/kern_test.h"

#define EPS 1e-5

/* Rows shorter and longer than a slice of columns, samples shorter and longer than a block. */
static const struct shape {
    int batch, tokens, cols;
} shapes[] = {{1, 1, 2}, {2, 3, 5}, {1, 33, 16}, {3, 40, 130}, {2, 70, 47}, {2, 5, 521}};

/* Reference of both kernels, in double: out = base + x rstd w f(mod). */
struct sandwich {
    struct shape s;
    bool         gated;
    int          ld; /* of mod */
    const float *base, *x, *w, *mod, *dy;
};

static double factor(const struct sandwich *k, double mod)
{
    return k->gated ? tanh(mod) : 1 + mod;
}

static double rstd_of(const double *x, int C)
{
    double square = 0;
    for (int c = 0; c < C; c++)
        square += x[c] * x[c] / C;
    return 1 / sqrt(square + EPS);
}

/* sum of dy (x rstd w f) of one row */
static double row_value(const struct sandwich *k, int row, const double *x)
{
    const int C = k->s.cols;
    const float *mod = k->mod + row / k->s.tokens * k->ld;
    const double rstd = rstd_of(x, C);
    double sum = 0;
    for (int c = 0; c < C; c++)
        sum += (double)k->dy[row * C + c] * x[c] * rstd * (double)k->w[c] *
               factor(k, (double)mod[c]);
    return sum;
}

struct results {
    double *out, *dx, *dw, *dmod;
};

/* dx is overwritten, dw and dmod are added to. */
static void reference(struct results *to, const struct sandwich *k)
{
    const int C = k->s.cols;
    const double step = 1e-5;
    double *x = doubles_new((size_t)C);
    for (int r = 0; r < k->s.batch * k->s.tokens; r++) {
        const int mod = r / k->s.tokens * k->ld;
        for (int c = 0; c < C; c++)
            x[c] = (double)k->x[r * C + c];
        const double rstd = rstd_of(x, C);
        for (int c = 0; c < C; c++) {
            const int at = r * C + c;
            const double m = (double)k->mod[mod + c], f = factor(k, m), n = x[c] * rstd;
            const double slope = (factor(k, m + step) - factor(k, m - step)) / (2 * step);
            const double was = x[c], dy = (double)k->dy[at], w = (double)k->w[c];
            to->out[at] = n * w * f + (k->base ? (double)k->base[at] : 0);
            to->dw[c] += dy * n * f;
            to->dmod[mod + c] += dy * n * w * slope;
            x[c] = was + step;
            const double above = row_value(k, r, x);
            x[c] = was - step;
            to->dx[at] += (above - row_value(k, r, x)) / (2 * step);
            x[c] = was;
        }
    }
    free(x);
}

/* Adds to `dx` unless it is NULL. */
static struct results reference_of(const struct sandwich *k, const float *dx, const float *dw, const float *dmod)
{
    const size_t C = (size_t)k->s.cols, n = (size_t)(k->s.batch * k->s.tokens) * C;
    const size_t mods = (size_t)(k->s.batch * k->ld);
    struct results to = {doubles_new(n), doubles_new(n), doubles_new(C), doubles_new(mods)};
    for (size_t i = 0; i < n && dx; i++)
        to.dx[i] = (double)dx[i];
    for (size_t c = 0; c < C; c++)
        to.dw[c] = (double)dw[c];
    for (size_t i = 0; i < mods; i++) /* ours is the second of three rows; the others stay */
        to.dmod[i] = i % (size_t)k->ld / C == 1 ? 0 : (double)dmod[i];
    struct results ours = to;
    ours.dmod += C;
    reference(&ours, k);
    return to;
}

static void results_free(struct results *r)
{
    free(r->out);
    free(r->dx);
    free(r->dw);
    free(r->dmod);
}

static void check_rms_mod(const struct kern_ops *k, struct shape s)
{
    const int B = s.batch, N = s.tokens, C = s.cols, ld = 3 * C;
    const size_t n = (size_t)(B * N * C), mods = (size_t)(B * ld);
    float *x = array_new(n, 2), *w = array_new((size_t)C, 1), *mod = array_new(mods, 0.7);
    float *h = array_new(n, 1), *rstd = array_new((size_t)(B * N), 1), *dh = array_new(n, 1);
    float *dx = array_new(n, 1), *dw = array_new((size_t)C, 1), *dmod = array_new(mods, 1);
    const struct sandwich plain = {s, false, ld, NULL, x, w, mod + C, dh};
    struct results want = reference_of(&plain, dx, dw, dmod);
    k->rms_mod(h, rstd, x, w, mod + C, ld, B, N, C, (float)EPS);
    near("rms_mod", k->name, h, want.out, n, 1e-6);
    k->rms_mod_back(dx, dw, dmod + C, dh, x, rstd, w, mod + C, ld, B, N, C);
    near("rms_mod_back dx", k->name, dx, want.dx, n, 2e-5);
    near("rms_mod_back dw", k->name, dw, want.dw, (size_t)C, 3e-6);
    near("rms_mod_back dscale", k->name, dmod, want.dmod, mods, 3e-6);
    results_free(&want);
    arrays_end("rms_mod");
}

static void check_rms_gate(const struct kern_ops *k, struct shape s, double gates)
{
    const int B = s.batch, N = s.tokens, C = s.cols, ld = 3 * C;
    const size_t n = (size_t)(B * N * C), mods = (size_t)(B * ld);
    float *x = array_new(n, 1), *a = array_new(n, 2), *w = array_new((size_t)C, 1);
    float *mod = array_new(mods, gates), *y = array_new(n, 1);
    float *rstd = array_new((size_t)(B * N), 1), *dy = array_new(n, 1), *da = array_new(n, 1);
    float *dw = array_new((size_t)C, 1), *dmod = array_new(mods, 1);
    const struct sandwich plain = {s, true, ld, x, a, w, mod + C, dy};
    struct results want = reference_of(&plain, NULL, dw, dmod);
    k->rms_gate(y, rstd, x, a, w, mod + C, ld, B, N, C, (float)EPS);
    near("rms_gate", k->name, y, want.out, n, 1e-6);
    k->rms_gate_back(da, dw, dmod + C, dy, a, rstd, w, mod + C, ld, B, N, C);
    near("rms_gate_back da", k->name, da, want.dx, n, 2e-5);
    near("rms_gate_back dw", k->name, dw, want.dw, (size_t)C, 3e-6);
    near("rms_gate_back dgate", k->name, dmod, want.dmod, mods, 3e-6);
    /* in place */
    k->rms_gate_back(dy, dw, dmod + C, dy, a, rstd, w, mod + C, ld, B, N, C);
    assert_memory_equal(dy, da, n * sizeof(float));
    k->rms_gate(x, rstd, x, a, w, mod + C, ld, B, N, C, (float)EPS);
    assert_memory_equal(x, y, n * sizeof(float));
    results_free(&want);
    arrays_end("rms_gate");
}

static void sandwiches(const struct kern_ops *k)
{
    for (size_t i = 0; i < ARRAY_LEN(shapes); i++) {
        check_rms_mod(k, shapes[i]);
        check_rms_gate(k, shapes[i], 2);
        check_rms_gate(k, shapes[i], 0); /* as at the start of training */
    }
}

static void rms_mod_and_gate_test(void **state)
{
    (void)state;
    each_isa(sandwiches);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rms_mod_and_gate_test)};
    return cmocka_run_group_tests_name("rmsmod", tests, NULL, NULL);
}
