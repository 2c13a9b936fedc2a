/* SPDX-License-Identifier: Apache-2.0 */
/* test_norm.c - layer norm with modulation and with weights, and RMS norm, against double */
#include "tests/unit/kernels/kern_test.h"

static const struct {
    int batch, tokens, cols;
} sizes[] = {{1, 1, 2}, {1, 1, 17}, {2, 3, 5}, {3, 33, 16}, {1, 40, 130}, {4, 200, 47}};

#define EPS 1e-6

/* One row: h = LN(x) (1 + scale) + shift. */
static void norm_row(double *h, const double *x, const float *shift, const float *scale, int C, double eps)
{
    double mean = 0, var = 0;
    for (int c = 0; c < C; c++)
        mean += x[c] / C;
    for (int c = 0; c < C; c++)
        var += (x[c] - mean) * (x[c] - mean) / C;
    for (int c = 0; c < C; c++)
        h[c] = (x[c] - mean) / sqrt(var + eps) * (1 + (double)scale[c]) + (double)shift[c];
}

static void rms_row(double *y, const double *x, const float *w, int C, double eps)
{
    double square = 0;
    for (int c = 0; c < C; c++)
        square += x[c] * x[c] / C;
    for (int c = 0; c < C; c++)
        y[c] = x[c] / sqrt(square + eps) * (double)w[c];
}

/* d(sum of dy * f(x))/dx by central differences, f on one row. */
static double slope(double *x, int at, const float *dy, int C, const float *a, const float *b, double eps, double *tmp)
{
    const double h = 1e-5, was = x[at];
    double total = 0;
    for (int sign = -1; sign <= 1; sign += 2) {
        x[at] = was + sign * h;
        if (b)
            norm_row(tmp, x, a, b, C, eps);
        else
            rms_row(tmp, x, a, C, eps);
        for (int c = 0; c < C; c++)
            total += sign * tmp[c] * (double)dy[c] / (2 * h);
    }
    x[at] = was;
    return total;
}

static void check_norm_mod(const struct kern_ops *k, int B, int N, int C)
{
    const size_t n = (size_t)(B * N * C);
    const int ld = 2 * C; /* rows: shift, scale */
    float *x = array_new(n, 2), *mod = array_new((size_t)(B * ld), 0.5), *h = array_new(n, 1);
    float *stats = array_new((size_t)(2 * B * N), 1), *dh = array_new(n, 1);
    float *dx = array_new(n, 1), *dmod = array_new((size_t)(B * ld), 1);
    double *want = doubles_new(n), *wx = doubles_new(n), *wmod = doubles_new((size_t)(B * ld));
    double *row = doubles_new((size_t)C), *tmp = doubles_new((size_t)C);
    for (int r = 0; r < B * N; r++) {
        const float *shift = mod + r / N * ld, *scale = shift + C;
        for (int c = 0; c < C; c++)
            row[c] = (double)x[r * C + c];
        norm_row(want + r * C, row, shift, scale, C, EPS);
        for (int c = 0; c < C; c++) {
            wx[r * C + c] = (double)dx[r * C + c] +
                            slope(row, c, dh + r * C, C, shift, scale, EPS, tmp);
            double normed = (want[r * C + c] - (double)shift[c]) / (1 + (double)scale[c]);
            wmod[r / N * ld + c] += (double)dh[r * C + c];
            wmod[r / N * ld + C + c] += (double)dh[r * C + c] * normed;
        }
    }
    k->norm_mod(h, stats, x, mod, mod + C, ld, B, N, C, (float)EPS);
    near("norm_mod", k->name, h, want, n, 2e-6);
    k->norm_mod_back(dx, dmod, dmod + C, dh, x, stats, mod + C, ld, B, N, C);
    near("norm_mod_back dx", k->name, dx, wx, n, 2e-5);
    near("norm_mod_back dmod", k->name, dmod, wmod, (size_t)(B * ld), 3e-6);
    free(want);
    free(wx);
    free(wmod);
    free(row);
    free(tmp);
    arrays_end("norm_mod");
}

static void check_rms(const struct kern_ops *k, int rows, int C, double eps)
{
    const int ldx = C + 3, ldy = C + 5;
    const size_t nx = (size_t)(rows * ldx), ny = (size_t)(rows * ldy);
    float *x = array_new(nx, 2), *w = array_new((size_t)C, 1), *y = array_new(ny, 1);
    float *rstd = array_new((size_t)rows, 1), *dy = array_new(ny, 1), *dx = array_new(nx, 1);
    float *dw = array_new((size_t)C, 1);
    double *want = doubles_new(ny), *wx = doubles_new(nx), *ww = doubles_new((size_t)C);
    double *row = doubles_new((size_t)C), *tmp = doubles_new((size_t)C);
    for (size_t i = 0; i < ny; i++)
        want[i] = (double)y[i]; /* the gaps between rows stay unchanged */
    for (size_t i = 0; i < nx; i++)
        wx[i] = (double)dx[i];
    for (int c = 0; c < C; c++)
        ww[c] = (double)dw[c];
    for (int r = 0; r < rows; r++) {
        for (int c = 0; c < C; c++)
            row[c] = (double)x[r * ldx + c];
        rms_row(want + r * ldy, row, w, C, eps);
        for (int c = 0; c < C; c++) {
            wx[r * ldx + c] = slope(row, c, dy + r * ldy, C, w, NULL, eps, tmp);
            ww[c] += (double)dy[r * ldy + c] * want[r * ldy + c] / (double)w[c];
        }
    }
    k->rms_norm(y, ldy, rstd, x, ldx, w, rows, C, (float)eps);
    near("rms_norm", k->name, y, want, ny, 1e-6);
    k->rms_norm_back(dx, ldx, dw, dy, ldy, x, ldx, rstd, w, rows, C);
    near("rms_norm_back dx", k->name, dx, wx, nx, 2e-5);
    near("rms_norm_back dw", k->name, dw, ww, (size_t)C, 3e-6);
    /* in place */
    k->rms_norm_back(dy, ldy, dw, dy, ldy, x, ldx, rstd, w, rows, C);
    for (int r = 0; r < rows; r++)
        assert_memory_equal(dy + r * ldy, dx + r * ldx, (size_t)C * sizeof(float));
    free(want);
    free(wx);
    free(ww);
    free(row);
    free(tmp);
    arrays_end("rms_norm");
}

/* Weights are 1 + scale, so the reference of the modulated norm serves here too. */
static void check_layer_norm(const struct kern_ops *k, int rows, int C, double eps)
{
    const int ldx = C + 3, ldy = C + 5;
    const size_t nx = (size_t)(rows * ldx), ny = (size_t)(rows * ldy), n = (size_t)C;
    float *x = array_new(nx, 2), *b = array_new(n, 1), *w = array_new(n, 0.5), *y = array_new(ny, 1);
    float *scale = array_new(n, 0), *stats = array_new((size_t)(2 * rows), 1);
    float *dy = array_new(ny, 1), *dx = array_new(nx, 1), *dw = array_new(n, 1);
    float *db = array_new(n, 1);
    double *want = doubles_new(ny), *wx = doubles_new(nx), *ww = doubles_new(n);
    double *wb = doubles_new(n), *row = doubles_new(n), *tmp = doubles_new(n);
    for (int c = 0; c < C; c++) {
        w[c] += 1;
        scale[c] = w[c] - 1; /* exact */
        ww[c] = (double)dw[c];
        wb[c] = (double)db[c];
    }
    for (size_t i = 0; i < ny; i++)
        want[i] = (double)y[i]; /* the gaps between rows stay unchanged */
    for (size_t i = 0; i < nx; i++)
        wx[i] = (double)dx[i];
    for (int r = 0; r < rows; r++) {
        for (int c = 0; c < C; c++)
            row[c] = (double)x[r * ldx + c];
        norm_row(want + r * ldy, row, b, scale, C, eps);
        for (int c = 0; c < C; c++) {
            const double d = (double)dy[r * ldy + c];
            wx[r * ldx + c] = slope(row, c, dy + r * ldy, C, b, scale, eps, tmp);
            ww[c] += d * (want[r * ldy + c] - (double)b[c]) / (double)w[c];
            wb[c] += d;
        }
    }
    k->layer_norm(y, ldy, stats, x, ldx, w, b, rows, C, (float)eps);
    near("layer_norm", k->name, y, want, ny, 2e-6);
    k->layer_norm_back(dx, ldx, dw, db, dy, ldy, x, ldx, stats, w, rows, C);
    near("layer_norm_back dx", k->name, dx, wx, nx, 2e-5);
    near("layer_norm_back dw", k->name, dw, ww, n, 3e-6);
    near("layer_norm_back db", k->name, db, wb, n, 3e-6);
    /* in place */
    k->layer_norm_back(dy, ldy, dw, db, dy, ldy, x, ldx, stats, w, rows, C);
    k->layer_norm(x, ldx, stats, x, ldx, w, b, rows, C, (float)eps);
    for (int r = 0; r < rows; r++) {
        assert_memory_equal(dy + r * ldy, dx + r * ldx, n * sizeof(float));
        assert_memory_equal(x + r * ldx, y + r * ldy, n * sizeof(float));
    }
    free(want);
    free(wx);
    free(ww);
    free(wb);
    free(row);
    free(tmp);
    arrays_end("layer_norm");
}

/* The same bits as norm and rotation one after the other. */
static void check_layer_rope(const struct kern_ops *k, struct kern_heads s)
{
    const int rows = s.batch * s.tokens, C = s.heads * s.dim, ldx = C + 3, ldy = C + 5;
    const size_t nx = (size_t)(rows * ldx), ny = (size_t)(rows * ldy), n = (size_t)C;
    const size_t some = (size_t)(s.tokens * s.dim / 2);
    float *x = array_new(nx, 2), *w = array_new(n, 1), *b = array_new(n, 1), *stats = array_new((size_t)(2 * rows), 1);
    float *y = array_new(ny, 1), *want = array_copy(y, ny);
    const struct kern_rope r = {array_new(some, 1), array_new(some, 1), s};
    k->layer_norm(want, ldy, stats, x, ldx, w, b, rows, C, 1e-5f);
    k->rope(want, ldy, r.real, r.imag, false, s);
    k->layer_norm_rope(y, ldy, stats, x, ldx, w, b, r, 1e-5f);
    assert_memory_equal(y, want, ny * sizeof(float)); /* with the gaps between rows */
    k->layer_norm_rope(x, ldx, stats, x, ldx, w, b, r, 1e-5f); /* in place */
    for (int i = 0; i < rows; i++)
        assert_memory_equal(x + i * ldx, y + i * ldy, n * sizeof(float));
    arrays_end("layer_norm_rope");
}

static void check_layer_rope_back(const struct kern_ops *k, struct kern_heads s)
{
    const int rows = s.batch * s.tokens, C = s.heads * s.dim, ldx = C + 3, ldy = C + 5;
    const size_t nx = (size_t)(rows * ldx), ny = (size_t)(rows * ldy), n = (size_t)C;
    const size_t some = (size_t)(s.tokens * s.dim / 2);
    const float *x = array_new(nx, 2), *w = array_new(n, 1), *stats = array_new((size_t)(2 * rows), 1);
    float *dy = array_new(ny, 1), *dx = array_new(nx, 1), *want = array_copy(dy, ny), *gaps = array_copy(dx, nx);
    float *dw = array_new(n, 1), *db = array_new(n, 1), *ww = array_copy(dw, n), *wb = array_copy(db, n);
    const struct kern_rope r = {array_new(some, 1), array_new(some, 1), s};
    k->rope(want, ldy, r.real, r.imag, true, s);
    k->layer_norm_back(want, ldy, ww, wb, want, ldy, x, ldx, stats, w, rows, C);
    k->layer_norm_rope_back(dx, ldx, dw, db, dy, ldy, x, ldx, stats, w, r);
    assert_memory_equal(dw, ww, n * sizeof(float));
    assert_memory_equal(db, wb, n * sizeof(float));
    k->layer_norm_rope_back(dy, ldy, dw, db, dy, ldy, x, ldx, stats, w, r); /* in place */
    assert_memory_equal(dy, want, ny * sizeof(float));
    for (int i = 0; i < rows; i++) {
        assert_memory_equal(dx + i * ldx, want + i * ldy, n * sizeof(float));
        assert_memory_equal(dx + i * ldx + C, gaps + i * ldx + C, 3 * sizeof(float));
    }
    arrays_end("layer_norm_rope_back");
}

static void turned(const struct kern_ops *k)
{
    static const struct kern_heads shapes[] = {{1, 1, 1, 2}, {2, 5, 3, 4}, {3, 7, 2, 18}, {2, 40, 4, 72}};
    for (size_t i = 0; i < ARRAY_LEN(shapes); i++) {
        check_layer_rope(k, shapes[i]);
        check_layer_rope_back(k, shapes[i]);
    }
}

static void turned_test(void **state)
{
    (void)state;
    each_isa(turned);
}

static void norms(const struct kern_ops *k)
{
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        check_norm_mod(k, sizes[i].batch, sizes[i].tokens, sizes[i].cols);
        check_rms(k, sizes[i].batch * sizes[i].tokens, sizes[i].cols, 1e-5);
        check_layer_norm(k, sizes[i].batch * sizes[i].tokens, sizes[i].cols, 1e-5);
    }
}

static void norms_test(void **state)
{
    (void)state;
    each_isa(norms);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(norms_test), cmocka_unit_test(turned_test)};
    return cmocka_run_group_tests_name("norm", tests, NULL, NULL);
}
