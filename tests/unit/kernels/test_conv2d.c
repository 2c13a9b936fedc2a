/* SPDX-License-Identifier: Apache-2.0 */
/* test_conv2d.c - the operations of image autoencoders, whole and in strips, against double */
#include "tests/unit/kernels/kern_test.h"

struct conv_case {
    int              height, width;
    struct kern_conv c;
};

/* Sums of few and of many channels, panels that are full and not, Winograd's tiles at odd edges. */
static const struct conv_case cases[] = {
    {4, 6, {3, 5, 3, 1, 1, 1, false, false}},     {5, 7, {16, 16, 3, 1, 1, 1, false, false}},
    {1, 1, {17, 33, 3, 1, 1, 1, false, true}},    {9, 26, {48, 40, 3, 1, 1, 1, false, false}},
    {6, 5, {20, 18, 3, 1, 1, 1, true, false}},    {3, 4, {7, 3, 3, 1, 1, 1, true, false}},
    {8, 6, {16, 24, 3, 2, 1, 1, false, false}},   {4, 10, {8, 12, 3, 2, 0, 1, false, false}},
    {3, 13, {40, 70, 1, 1, 0, 1, false, true}},   {2, 5, {32, 32, 1, 1, 0, 3, false, false}},
    {2, 3, {1030, 17, 1, 1, 0, 1, false, false}}, {12, 16, {130, 64, 3, 1, 1, 1, false, false}},
};

static double silu_of(double x)
{
    return x / (1 + exp(-x));
}

/* Pixel (h, w) of the picture as the convolution sees it. */
static double seen(const float *x, const struct conv_case *t, int h, int w, int channel)
{
    const int up = t->c.up ? 1 : 0;
    if (h < 0 || w < 0 || h >= t->height << up || w >= t->width << up)
        return 0;
    return (double)x[((h >> up) * t->width + (w >> up)) * t->c.in * t->c.groups + channel];
}

static double expected(const struct conv_case *t, const float *x, const float *w, const float *bias, int row, int col,
                       int out)
{
    const struct kern_conv c = t->c;
    double sum = (double)bias[out];
    for (int i = 0; i < c.in; i++)
        for (int k = 0; k < c.kernel * c.kernel; k++)
            sum += seen(x, t, row * c.stride - c.pad + k / c.kernel, col * c.stride - c.pad + k % c.kernel,
                        out / c.out * c.in + i) *
                   (double)w[(out * c.in + i) * c.kernel * c.kernel + k];
    return c.silu ? silu_of(sum) : sum;
}

/* In strips of `strip` rows, each with the rows that it needs and no others. */
static void in_strips(const struct kern_ops *k, const struct conv_case *t, float *y, const float *x, const float *w,
                      const float *bias, int strip)
{
    const struct kern_conv c = t->c;
    const int up = c.up ? 2 : 1, height = t->height * up / c.stride, width = t->width * up / c.stride;
    float *work = array_new(k->conv_work(c) + 1, 1);
    for (int from = 0; from < height; from += strip) {
        const int to = from + strip < height ? from + strip : height;
        int low = (from * c.stride - c.pad) / up, high = ((to - 1) * c.stride - c.pad + c.kernel - 1) / up + 1;
        low = low > 0 ? low : 0;
        high = high < t->height ? high : t->height;
        const size_t row = (size_t)(t->width * c.in * c.groups);
        float *part = array_copy(x + (size_t)low * row, (size_t)(high - low) * row);
        const struct kern_rows in = {part, low, t->height, t->width, c.in * c.groups};
        k->conv(y + (size_t)from * (size_t)(width * c.out * c.groups), in, c, w, bias, from, to, work);
    }
}

static void check_conv(const struct kern_ops *k, const struct conv_case *t)
{
    const struct kern_conv c = t->c;
    const int up = c.up ? 2 : 1, height = t->height * up / c.stride, width = t->width * up / c.stride;
    const int channels = c.out * c.groups;
    const size_t n = (size_t)(height * width * channels);
    const float *x = array_new((size_t)(t->height * t->width * c.in * c.groups), 1);
    const float *bias = array_new((size_t)channels, 1);
    const float *w = array_new((size_t)(channels * c.in * c.kernel * c.kernel), 1);
    float *packed = array_new(k->conv_size(c), 1), *y = array_new(n, 1);
    double *want = doubles_new(n);
    for (size_t i = 0; i < n; i++)
        want[i] = expected(t, x, w, bias, (int)i / channels / width, (int)i / channels % width, (int)i % channels);
    k->conv_pack(packed, w, c);
    in_strips(k, t, y, x, packed, bias, height);
    near("conv", k->name, y, want, n, 2e-6);
    memset(y, 0, n * sizeof(*y));
    in_strips(k, t, y, x, packed, bias, 2);
    near("conv in strips", k->name, y, want, n, 2e-6);
    free(want);
    arrays_end("conv");
}

static void convolutions(const struct kern_ops *k)
{
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        check_conv(k, &cases[i]);
}

static void check_depthwise(const struct kern_ops *k, int kernel, int height, int width, int channels)
{
    const size_t n = (size_t)(height * width * channels);
    const float *x = array_new(n, 1), *w = array_new((size_t)(kernel * kernel * channels), 1);
    const float *bias = array_new((size_t)channels, 1);
    float *y = array_new(n, 1);
    double *want = doubles_new(n);
    const struct conv_case t = {height, width, {.in = channels, .out = channels, .groups = 1}};
    for (size_t i = 0; i < n; i++) {
        const int ch = (int)i % channels, row = (int)i / channels / width, col = (int)i / channels % width;
        want[i] = (double)bias[ch];
        for (int s = 0; s < kernel * kernel; s++)
            want[i] += seen(x, &t, row + s / kernel - kernel / 2, col + s % kernel - kernel / 2, ch) *
                       (double)w[s * channels + ch];
    }
    k->depthwise_rows(y, (struct kern_rows){x, 0, height, width, channels}, kernel, w, bias, 0, height);
    near("depthwise_rows", k->name, y, want, n, 1e-6);
    free(want);
    arrays_end("depthwise_rows");
}

static void depthwise(const struct kern_ops *k)
{
    check_depthwise(k, 3, 4, 5, 17);
    check_depthwise(k, 5, 1, 3, 32);
    check_depthwise(k, 5, 7, 6, 48);
}

static void norms(const struct kern_ops *k)
{
    enum { ROWS = 37, COLS = 36, GROUPS = 3, EACH = COLS / GROUPS };
    const size_t n = ROWS * COLS;
    const float *x = array_new(n, 3), *add = array_new(n, 1), *w = array_new(COLS, 1), *b = array_new(COLS, 1);
    float *y = array_new(n, 1);
    double want[ROWS * COLS], sums[2 * GROUPS] = {0}, all[2 * GROUPS] = {0};
    for (size_t r = 0; r < ROWS; r++) {
        double squares = 0;
        for (size_t c = 0; c < COLS; c++) {
            const double v = (double)x[r * COLS + c];
            squares += v * v;
            all[2 * (c / EACH)] += v;
            all[2 * (c / EACH) + 1] += v * v;
        }
        for (size_t c = 0; c < COLS; c++)
            want[r * COLS + c] = (double)x[r * COLS + c] / sqrt(squares / COLS + 1e-5) * (double)w[c] + (double)b[c];
    }
    k->rms_rows(y, x, NULL, w, b, ROWS, COLS, 1e-5f, false);
    near("rms_rows", k->name, y, want, n, 1e-6);
    for (size_t i = 0; i < n; i++)
        want[i] = fmax(want[i] + (double)add[i], 0);
    k->rms_rows(y, x, add, w, b, ROWS, COLS, 1e-5f, true);
    near("rms_rows with more", k->name, y, want, n, 1e-6);
    k->group_sums(sums, x, ROWS, COLS, GROUPS);
    for (int g = 0; g < 2 * GROUPS; g++)
        assert_true(fabs(sums[g] - all[g]) < 1e-5 * fmax(1, fabs(all[2 * (g / 2) + 1])));
    for (size_t i = 0; i < n; i++)
        want[i] = silu_of((double)x[i] * (double)w[i % COLS] + (double)b[i % COLS]);
    k->scale_rows(y, x, w, b, ROWS, COLS, true);
    near("scale_rows", k->name, y, want, n, 1e-6);
    arrays_end("norms");
}

/* Two heads over more rows than are summed at once. */
static void linear_attention(const struct kern_ops *k)
{
    enum { ROWS = 150, HEADS = 2, DIM = 32, LD = 2 * DIM * HEADS + 3, SUMS = (DIM + 1) * DIM };
    const float *kv = array_new((size_t)ROWS * LD, 1), *q = array_new((size_t)ROWS * HEADS * DIM, 1);
    float *sums = array_new((size_t)HEADS * SUMS, 1), *out = array_new((size_t)ROWS * HEADS * DIM, 1);
    double *want = doubles_new((size_t)HEADS * SUMS), *total = doubles_new((size_t)HEADS * SUMS);
    double *result = doubles_new((size_t)ROWS * HEADS * DIM);
    for (int h = 0; h < HEADS; h++)
        for (int r = 0; r < ROWS; r++)
            for (int i = 0; i <= DIM; i++)
                for (int j = 0; j < DIM; j++) {
                    const double key = fmax((double)kv[r * LD + h * 2 * DIM + j], 0);
                    want[h * SUMS + i * DIM + j] += key * (i < DIM ? (double)kv[r * LD + h * 2 * DIM + DIM + i] : 1);
                }
    for (int at = 0; at < ROWS * HEADS * DIM; at++) {
        const int r = at / (HEADS * DIM), h = at / DIM % HEADS, i = at % DIM;
        double top = 0, bottom = 1e-15;
        for (int j = 0; j < DIM; j++) {
            const double query = fmax((double)q[(r * HEADS + h) * DIM + j], 0);
            top += query * want[h * SUMS + i * DIM + j];
            bottom += query * want[h * SUMS + DIM * DIM + j];
        }
        result[at] = top / bottom;
    }
    k->lin_sums(total, kv, LD, ROWS / 2, HEADS, DIM);
    k->lin_sums(total, kv + ROWS / 2 * LD, LD, ROWS - ROWS / 2, HEADS, DIM);
    k->to_floats(sums, total, (size_t)HEADS * SUMS);
    near("lin_sums", k->name, sums, want, (size_t)HEADS * SUMS, 1e-6);
    k->lin_apply(out, HEADS * DIM, q, HEADS * DIM, sums, ROWS, HEADS, DIM, 1e-15f);
    near("lin_apply", k->name, out, result, (size_t)ROWS * HEADS * DIM, 2e-6);
    free(want);
    free(total);
    free(result);
    arrays_end("linear attention");
}

static void shortcuts(const struct kern_ops *k)
{
    enum { ROWS = 4, WIDTH = 6, IN = 6, DOWN = 8, UP = 3 };
    const float *x = array_new(ROWS * WIDTH * IN, 1);
    float *down = array_new(ROWS * WIDTH / 4 * DOWN, 0), *up = array_new(ROWS * WIDTH * 4 * UP, 0);
    double less[ROWS * WIDTH / 4 * DOWN], more[ROWS * WIDTH * 4 * UP];
    for (int i = 0; i < ROWS * WIDTH / 4 * DOWN; i++) {
        const int row = i / DOWN / (WIDTH / 2) * 2, col = i / DOWN % (WIDTH / 2) * 2;
        less[i] = 0;
        for (int s = i % DOWN * 3; s < i % DOWN * 3 + 3; s++)
            less[i] += (double)x[((row + s / 2 % 2) * WIDTH + col + s % 2) * IN + s / 4] / 3;
    }
    for (int i = 0; i < ROWS * WIDTH * 4 * UP; i++) {
        const int row = i / UP / (2 * WIDTH), col = i / UP % (2 * WIDTH);
        more[i] = (double)x[(row / 2 * WIDTH + col / 2) * IN + (i % UP * 4 + row % 2 * 2 + col % 2) / 2];
    }
    k->down_add(down, x, ROWS, WIDTH, IN, DOWN);
    near("down_add", k->name, down, less, ROWS * WIDTH / 4 * DOWN, 1e-6);
    k->up_add(up, x, ROWS, WIDTH, IN, UP);
    near("up_add", k->name, up, more, ROWS * WIDTH * 4 * UP, 0);
    arrays_end("shortcuts");
}

/* Channels three times as many, and back as means. */
static void spreads(const struct kern_ops *k)
{
    enum { ROWS = 5, FEW = 4, MANY = 12, EACH = MANY / FEW };
    const float *x = array_new(ROWS * FEW, 1), *wide = array_new(ROWS * MANY, 1);
    float *more = array_new(ROWS * MANY, 1), *less = array_new(ROWS * FEW, 1);
    double up[ROWS * MANY], down[ROWS * FEW];
    for (int i = 0; i < ROWS * MANY; i++)
        up[i] = (double)more[i] + (double)x[i / EACH];
    for (int i = 0; i < ROWS * FEW; i++) {
        down[i] = (double)less[i];
        for (int s = 0; s < EACH; s++)
            down[i] += (double)wide[i * EACH + s] / EACH;
    }
    k->spread_add(more, x, ROWS, FEW, MANY);
    near("spread_add, more", k->name, more, up, ROWS * MANY, 1e-6);
    k->spread_add(less, wide, ROWS, MANY, FEW);
    near("spread_add, less", k->name, less, down, ROWS * FEW, 1e-6);
    arrays_end("spread_add");
}

/* Rows 1 and 2 of three. */
static void layouts(const struct kern_ops *k)
{
    enum { HEIGHT = 3, WIDTH = 4, CHANNELS = 5, FROM = 1, ROWS = 2, PLANE = HEIGHT * WIDTH };
    const struct kern_image s = {1, HEIGHT, WIDTH, CHANNELS};
    float *planes = array_new(CHANNELS * PLANE, 1), *rows = array_new(ROWS * WIDTH * CHANNELS, 1);
    float *back = array_new(CHANNELS * PLANE, 1);
    double want[ROWS * WIDTH * CHANNELS], again[CHANNELS * PLANE];
    for (int i = 0; i < ROWS * WIDTH * CHANNELS; i++)
        want[i] = (double)planes[i % CHANNELS * PLANE + FROM * WIDTH + i / CHANNELS];
    for (int i = 0; i < CHANNELS * PLANE; i++)
        again[i] = (double)(i % PLANE < FROM * WIDTH ? back[i] : planes[i]);
    k->planes_to_rows(rows, planes, s, FROM, HEIGHT);
    near("planes_to_rows", k->name, rows, want, ROWS * WIDTH * CHANNELS, 1e-9);
    k->rows_to_planes(back, rows, s, FROM, HEIGHT);
    near("rows_to_planes", k->name, back, again, CHANNELS * PLANE, 1e-9);
    arrays_end("layouts");
}

static void spreads_test(void **state)
{
    (void)state;
    each_isa(spreads);
    each_isa(layouts);
}

static void conv_test(void **state)
{
    (void)state;
    each_isa(convolutions);
}

static void depthwise_test(void **state)
{
    (void)state;
    each_isa(depthwise);
}

static void norms_test(void **state)
{
    (void)state;
    each_isa(norms);
}

static void attention_test(void **state)
{
    (void)state;
    each_isa(linear_attention);
}

static void shortcuts_test(void **state)
{
    (void)state;
    each_isa(shortcuts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(conv_test), cmocka_unit_test(depthwise_test),
                                       cmocka_unit_test(norms_test), cmocka_unit_test(attention_test),
                                       cmocka_unit_test(shortcuts_test), cmocka_unit_test(spreads_test)};
    return cmocka_run_group_tests_name("conv2d", tests, NULL, NULL);
}
