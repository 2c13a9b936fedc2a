/* SPDX-License-Identifier: Apache-2.0 */
/* encoder_cases.h - cases of check_kernels for the encoders of texts and pictures; part of kernel_cases.h */
#ifndef TESTS_GPU_ENCODER_CASES_H
#define TESTS_GPU_ENCODER_CASES_H

/* m, k, n */
static void bf16_arrays(struct want *w, const int *z)
{
    w[0] = (struct want){"y", N(z[0] * z[2]), 0};
    w[1] = (struct want){"x", N(z[0] * z[1]), ROUNDED};
    w[2] = (struct want){"w", N(z[2] * z[1]), HALVES | OWN};
    w[3] = (struct want){"work", KERN_BF16_WORK(z[1]), OWN};
}

static void bf16_run(const struct kern_ops *k, float *const *a, const int *z)
{
    k->linear_bf16(a[0], a[1], a[2], a[3], z[0], z[1], z[2]);
}

/* batch, queries, keys, heads of keys (twice as many of queries), dim, window, whether all keys count (2: and again
 * without some of the first keys, with a hole among them; 3: exponentials of scores overflow); 0 queries: whole, as
 * many as keys */
enum { CAUSAL_TURNS = 33 };

static struct kern_causal causal_of(const int *z)
{
    return (struct kern_causal){.batch = z[0], .queries = z[1] ? z[1] : z[2], .keys = z[2], .heads = 2 * z[3],
                                .kv_heads = z[3], .dim = z[4], .window = z[5], .scale = 0.3f,
                                .cap = z[5] ? 5.0f : 0.0f, .whole = z[1] == 0};
}

static void causal_arrays(struct want *w, const int *z)
{
    const struct kern_causal s = causal_of(z);
    const size_t rows = N(s.batch * s.queries), keys = N(s.batch * s.keys), half = (size_t)(s.dim + 1) / 2;
    w[0] = (struct want){"out", rows * N(s.heads * s.dim), LOOSE};
    w[1] = (struct want){"q", rows * N(s.heads * s.dim), ROUNDED | (z[6] == 3 ? LARGE : 0)};
    w[2] = (struct want){"k", keys * N(s.kv_heads * s.dim), ROUNDED | (z[6] == 3 ? LARGE : 0)};
    w[3] = (struct want){"v", keys * N(s.kv_heads * s.dim), ROUNDED};
    w[4] = (struct want){"mask", keys, z[6] ? TIMES : RELU};
    w[5] = (struct want){"turned", rows * N(s.heads) * 2 * half, 0};
    w[6] = (struct want){"cosine", N(s.keys) * half, 0};
    w[7] = (struct want){"sine", N(s.keys) * half, 0};
    w[8] = (struct want){"gate", rows, 0};
    w[9] = (struct want){"up", rows, 0};
    w[10] = (struct want){"out without first keys", z[6] == 2 ? CAUSAL_TURNS * w[0].n : 0, LOOSE};
}

/* Without the first 0, 1 .. 32 keys: where masks, windows and the last key lie in tiles of 16 and 32 takes all turns.
 * A hole is among the keys that are seen, or with a window behind those of whole tiles. */
static void causal_turns(const struct kern_ops *k, float *const *a, struct kern_causal s)
{
    const float hole = 0;
    const size_t row = N(s.kv_heads * s.dim), out = N(s.queries * s.heads * s.dim);
    k->upload(a[4] + (s.window ? 120 : 64), &hole, sizeof(hole));
    for (size_t i = 0; i < CAUSAL_TURNS; i++, s.keys--)
        k->attend_causal(a[10] + i * out, a[1], a[2] + i * row, a[3] + i * row, a[4] + i, &s);
}

static void causal_run(const struct kern_ops *k, float *const *a, const int *z)
{
    const struct kern_causal s = causal_of(z);
    const int even = (s.dim + 1) / 2 * 2;
    k->attend_causal(a[0], a[1], a[2], a[3], s.whole ? NULL : a[4], &s);
    if (a[10])
        causal_turns(k, a, s);
    k->turn_halves(a[5], a[6], a[7], s.batch, s.queries, s.keys - s.queries, s.heads, even);
    k->geglu(a[8], a[8], a[9], N(s.batch * s.queries));
}

/* height, width, in, out, kernel, how: 1 silu, 2 bias, 4 up, 8 stride 2, 16 times the groups */
static struct kern_conv conv_of(const int *z)
{
    return (struct kern_conv){.in = z[2], .out = z[3], .kernel = z[4], .stride = z[5] & 8 ? 2 : 1, .pad = z[4] / 2,
                              .groups = z[5] / 16, .up = z[5] & 4, .silu = z[5] & 1};
}

/* Of the result. */
static void conv_size_of(const int *z, int *height, int *width)
{
    const struct kern_conv c = conv_of(z);
    *height = (z[0] << (c.up ? 1 : 0)) / c.stride;
    *width = (z[1] << (c.up ? 1 : 0)) / c.stride;
}

static void conv_arrays(struct want *w, const int *z)
{
    const struct kern_conv c = conv_of(z);
    const size_t weights = N(c.groups * c.out) * N(c.kernel * c.kernel) * N(c.in);
    int height, width;
    conv_size_of(z, &height, &width);
    w[0] = (struct want){"y", N(height * width) * N(c.groups * c.out), 0};
    w[1] = (struct want){"x", N(z[0] * z[1]) * N(c.groups * c.in), ROUNDED};
    w[2] = (struct want){"w", weights, ROUNDED};
    w[3] = (struct want){"bias", z[5] & 2 ? N(c.groups * c.out) : 0, 0};
    w[4] = (struct want){"packed", kern_cpu()->conv_size(c) + weights, OWN};
    w[5] = (struct want){"work", kern_cpu()->conv_work(c) + 8192 * N(c.groups * c.in), OWN};
}

/* The whole picture in two calls, the second with the rows that it touches. */
static void conv_run(const struct kern_ops *k, float *const *a, const int *z)
{
    const struct kern_conv c = conv_of(z);
    const struct kern_rows x = {a[1], 0, z[0], z[1], c.groups * c.in};
    int height, width;
    conv_size_of(z, &height, &width);
    const int half = height / 2, low = (half * c.stride - c.pad) >> (c.up ? 1 : 0), first = low > 0 ? low : 0;
    struct kern_rows lower = x;
    lower.first = first;
    lower.x += (size_t)first * (size_t)z[1] * (size_t)x.channels;
    k->conv_pack(a[4], a[2], c);
    if (half > 0)
        k->conv(a[0], x, c, a[4], a[3], 0, half, a[5]);
    k->conv(a[0] + (size_t)half * (size_t)width * N(c.groups * c.out), lower, c, a[4], a[3], half, height, a[5]);
}

/* height, width (both even), channels, kernel, whether there is a bias */
static void rows_arrays(struct want *w, const int *z)
{
    const size_t n = N(z[0] * z[1]) * N(z[2]);
    static const char *const names[] = {"depthwise", "x", "rms", "normed", "scaled", "sum", "planes", "rows"};
    for (int i = 0; i < 8; i++)
        w[i] = (struct want){names[i], n, 0};
    w[8] = (struct want){"w", N(z[3] * z[3]) * N(z[2]), 0};
    w[9] = (struct want){"bias", z[4] ? N(z[2]) : 0, 0};
    w[10] = (struct want){"scale", N(z[2]), ABOVE};
    w[11] = (struct want){"sums", 4 * N(z[2]), DOUBLES};
    w[12] = (struct want){"glu", n / 2, 0};
    w[13] = (struct want){"floats", 2 * N(z[2]), 0};
}

static void rows_run(const struct kern_ops *k, float *const *a, const int *z)
{
    const struct kern_rows x = {a[1], 0, z[0], z[1], z[2]};
    const struct kern_image s = {1, z[0], z[1], z[2]};
    const size_t rows = N(z[0] * z[1]), n = rows * N(z[2]), row = N(z[1] * z[2]);
    const int half = z[0] / 2;
    double *sums = (double *)(void *)a[11];
    k->depthwise_rows(a[0], x, z[3], a[8], a[9], 0, half);
    k->depthwise_rows(a[0] + (size_t)half * row, x, z[3], a[8], a[9], half, z[0]);
    k->rms_rows(a[2], a[1], a[2], a[10], a[9], rows, z[2], EPS, true);
    k->rms_rows(a[3], a[3], NULL, a[10], NULL, rows, z[2], EPS, false);
    k->scale_rows(a[4], a[1], a[10], a[8], rows, z[2], z[4]);
    k->group_sums(sums, a[1], rows, z[2], z[2] % 2 ? 1 : z[2] / 2);
    k->to_floats(a[13], sums, 2 * N(z[2]));
    k->add_rows(a[5], a[5], a[1], n);
    k->planes_to_rows(a[7], a[1], s, half, z[0]);
    k->rows_to_planes(a[6], a[1], s, 0, z[0] - half);
    k->glu(a[12], a[1], (int)(n / 2 / N(z[2])), z[2]);
}

/* rows, heads, dim, more numbers between rows */
static void lin_rows_arrays(struct want *w, const int *z)
{
    const size_t sums = N(z[1]) * N((z[2] + 1) * z[2]);
    w[0] = (struct want){"out", N(z[0]) * N(z[1] * z[2] + z[3]), 0};
    w[1] = (struct want){"q", N(z[0]) * N(z[1] * z[2] + 2 * z[3]), 0};
    w[2] = (struct want){"kv", N(z[0]) * N(2 * z[1] * z[2] + z[3]), 0};
    w[3] = (struct want){"total", 2 * sums, DOUBLES};
    w[4] = (struct want){"sums", sums, ABOVE};
}

static void lin_rows_run(const struct kern_ops *k, float *const *a, const int *z)
{
    const int C = z[1] * z[2];
    k->lin_sums((double *)(void *)a[3], a[2], 2 * C + z[3], (size_t)z[0], z[1], z[2]);
    k->lin_apply(a[0], C + z[3], a[1], C + 2 * z[3], a[4], (size_t)z[0], z[1], z[2], EPS);
}

/* rows, width (both even), channels, times as many on the other side */
static void shortcut_arrays(struct want *w, const int *z)
{
    const size_t n = N(z[0] * z[1]) * N(z[2]);
    w[0] = (struct want){"x", n, 0};
    w[1] = (struct want){"down", n / 4 * N(z[3]), 0};
    w[2] = (struct want){"wide x", n * 4, 0};
    w[3] = (struct want){"up", 4 * n * N(z[3]), 0};
    w[4] = (struct want){"repeated", n * N(z[3]), 0};
    w[5] = (struct want){"means", n, 0};
    w[6] = (struct want){"many", n * N(z[3]), 0};
}

static void shortcut_run(const struct kern_ops *k, float *const *a, const int *z)
{
    if (4 % z[3] == 0)
        k->down_add(a[1], a[0], z[0], z[1], z[2], z[2] * z[3]);
    k->up_add(a[3], a[2], z[0], z[1], 4 * z[2], z[2] * z[3]);
    k->spread_add(a[4], a[0], N(z[0] * z[1]), z[2], z[2] * z[3]);
    k->spread_add(a[5], a[6], N(z[0] * z[1]), z[2] * z[3], z[2]);
}

/* Sizes of Gemma-2 2B with 300 tokens, and of DC-AE: 1/8 of a picture of 1024 px, its widest convolution. */
#define ENCODER_TESTS                                                                                                \
    {"bf16", bf16_arrays, bf16_run, {{1, 1, 1}, {3, 7, 5}, {33, 64, 47}, {2, 16, 5000}, {9000, 3, 5}},               \
     {300, 2304, 9216}},                                                                                             \
    {"causal", causal_arrays, causal_run,                                                                            \
     {{1, 1, 1, 1, 1, 0}, {2, 5, 9, 1, 7, 1}, {1, 70, 70, 2, 32, 0}, {2, 33, 90, 1, 100, 20}, {1, 0, 70, 1, 130, 0}, \
      {1, 18, 35, 1, 256, 33}, {1, 0, 9, 1, 300, 0}, {1, 150, 200, 1, 64, 70, 1}, {1, 70, 170, 1, 24, 0, 1},         \
      {1, 0, 31, 1, 8, 0}, {1, 9, 40, 1, 24, 0, 3}, {1, 16, 130, 1, 8, 0, 2}, {1, 16, 130, 1, 8, 60, 2}},              \
     {1, 300, 450, 4, 256, 4096, 1}},                                                                                \
    {"conv", conv_arrays, conv_run,                                                                                  \
     {{1, 1, 1, 1, 1, 16}, {5, 3, 7, 5, 3, 19}, {8, 12, 17, 70, 3, 18}, {6, 8, 16, 24, 3, 26}, {3, 5, 20, 9, 3, 22}, \
      {4, 9, 32, 32, 1, 16 * 3}, {9, 20, 24, 40, 1, 19}, {5, 33, 33, 65, 3, 17},                                       \
      {182, 91, 2, 3, 1, 16}}, /* more pixels than `work` has room for */                                            \
     {128, 256, 128, 128, 3, 19}},                                                                                   \
    {"groups", conv_arrays, conv_run,                                                                                \
     {{2, 5, 3, 4, 1, 35}, {6, 7, 5, 3, 1, 34}, {10, 17, 64, 64, 3, 19}, {4, 40, 64, 128, 3, 22},                    \
      {34, 18, 32, 64, 3, 26}, {19, 34, 72, 136, 3, 19}, {5, 9, 32, 3, 3, 22}},                                      \
     {128, 128, 32, 32, 1, 16 * 32}},                                                                                \
    {"rows of pixels", rows_arrays, rows_run,                                                                        \
     {{2, 2, 2, 3, 1}, {4, 3, 6, 5, 0}, {1, 2, 17, 3, 1}, {7, 6, 48, 5, 1}, {40, 34, 130, 3, 0}, {2, 2, 4, 3, 1}},   \
     {128, 128, 1024, 3, 1}},                                                                                        \
    {"lin_sums lin_apply", lin_rows_arrays, lin_rows_run,                                                            \
     {{1, 1, 1, 0}, {5, 2, 7, 3}, {150, 2, 32, 1}, {1100, 1, 32, 0}}, {16384, 16, 32, 0}},                           \
    {"shortcuts", shortcut_arrays, shortcut_run, {{2, 2, 1, 1}, {4, 6, 6, 2}, {2, 8, 33, 4}, {2, 2, 4, 3}},           \
     {128, 128, 256, 2}},

#endif
