/* SPDX-License-Identifier: Apache-2.0 */
/* test_attention.c - linear and softmax attention against double, gradients by differences;
 * blockwise attention against the plain one */
#include "tests/unit/kernels/kern_test.h"

/* q, k, v and the output of one sample and head, in double, for both attentions. */
struct head_case {
    int     tokens, text, dim; /* text: rows of k and v */
    double *q, *k, *v;
    const float *mask;         /* NULL: linear attention */
};

static void head_forward(double *out, const struct head_case *h)
{
    double p[512];
    for (int n = 0; n < h->tokens; n++) {
        double sum = 0, top = -1e300;
        for (int l = 0; l < h->text; l++) {
            double s = 0;
            for (int d = 0; d < h->dim; d++)
                s += h->q[n * h->dim + d] * h->k[l * h->dim + d];
            if (h->mask)
                s = s / sqrt(h->dim) + ((double)h->mask[l] - 1) * 10000;
            p[l] = s;
            top = fmax(top, s);
        }
        for (int l = 0; l < h->text; l++) {
            p[l] = h->mask ? exp(p[l] - top) : p[l];
            sum += p[l];
        }
        for (int d = 0; d < h->dim; d++) {
            double s = 0;
            for (int l = 0; l < h->text; l++)
                s += p[l] * h->v[l * h->dim + d];
            out[n * h->dim + d] = s / (h->mask ? sum : sum + 1e-8);
        }
    }
}

/* Gradient of sum(dout * out) for each number of x, by central differences. */
static void head_slopes(double *slopes, double *x, int n, const double *dout, const struct head_case *h)
{
    const double step = 1e-5;
    double *out = doubles_new((size_t)(h->tokens * h->dim));
    for (int i = 0; i < n; i++) {
        const double was = x[i];
        slopes[i] = 0;
        for (int sign = -1; sign <= 1; sign += 2) {
            x[i] = was + sign * step;
            head_forward(out, h);
            for (int j = 0; j < h->tokens * h->dim; j++)
                slopes[i] += sign * out[j] * dout[j] / (2 * step);
        }
        x[i] = was;
    }
    free(out);
}

/* Copies columns of head `h` out of rows of width ld, and back. */
static void gather(double *to, const float *from, int rows, int ld, int col, int dim)
{
    for (int r = 0; r < rows; r++)
        for (int d = 0; d < dim; d++)
            to[r * dim + d] = (double)from[r * ld + col + d];
}

static void scatter(double *to, const double *from, int rows, int ld, int col, int dim)
{
    for (int r = 0; r < rows; r++)
        for (int d = 0; d < dim; d++)
            to[r * ld + col + d] = from[r * dim + d];
}

struct reference {
    double *out, *dq, *dk, *dv;
};

/* Runs all samples and heads; k and v have `text` rows per sample. */
static void reference_run(struct reference *ref, struct kern_heads s, int text, const float *q, int ldq, const float *k,
                          int ldk, const float *v, int ldv, const float *mask, const float *dout)
{
    const int C = s.heads * s.dim;
    const size_t nq = (size_t)(s.tokens * s.dim), nk = (size_t)(text * s.dim);
    double *hq = doubles_new(nq), *hk = doubles_new(nk), *hv = doubles_new(nk);
    double *ho = doubles_new(nq), *hd = doubles_new(nq), *slopes = doubles_new(nq + nk);
    for (int b = 0; b < s.batch; b++)
        for (int h = 0; h < s.heads; h++) {
            const int col = h * s.dim, row = b * s.tokens, trow = b * text;
            struct head_case hc = {s.tokens, text, s.dim, hq, hk, hv, mask ? mask + trow : NULL};
            gather(hq, q + row * ldq, s.tokens, ldq, col, s.dim);
            gather(hk, k + trow * ldk, text, ldk, col, s.dim);
            gather(hv, v + trow * ldv, text, ldv, col, s.dim);
            gather(hd, dout + row * C, s.tokens, C, col, s.dim);
            head_forward(ho, &hc);
            scatter(ref->out + row * C, ho, s.tokens, C, col, s.dim);
            head_slopes(slopes, hq, (int)nq, hd, &hc);
            scatter(ref->dq + row * C, slopes, s.tokens, C, col, s.dim);
            head_slopes(slopes, hk, (int)nk, hd, &hc);
            scatter(ref->dk + trow * C, slopes, text, C, col, s.dim);
            head_slopes(slopes, hv, (int)nk, hd, &hc);
            scatter(ref->dv + trow * C, slopes, text, C, col, s.dim);
        }
    free(hq);
    free(hk);
    free(hv);
    free(ho);
    free(hd);
    free(slopes);
}

static struct reference reference_new(size_t q, size_t k)
{
    return (struct reference){doubles_new(q), doubles_new(q), doubles_new(k), doubles_new(k)};
}

static void reference_free(struct reference *r)
{
    free(r->out);
    free(r->dq);
    free(r->dk);
    free(r->dv);
}

/* Columns 0..C of rows of width ld, packed, to compare with the reference. */
static float *columns(const float *from, int rows, int ld, int C)
{
    float *to = array_new((size_t)(rows * C), 0);
    for (int r = 0; r < rows; r++)
        memcpy(to + r * C, from + r * ld, (size_t)C * sizeof(float));
    return to;
}

static void check_linear_attention(const struct kern_ops *k, struct kern_heads s)
{
    const int C = s.heads * s.dim, M = s.batch * s.tokens, ld = 3 * C;
    const size_t n = (size_t)(M * C);
    float *qkv = array_new(3 * n, 1), *out = array_new(n, 1), *dout = array_new(n, 1);
    float *d = array_new(3 * n, 1);
    struct kern_lin_attn keep = {
        array_new((size_t)(s.batch * s.heads * (s.dim + 1) * s.dim), 1),
        array_new((size_t)(M * s.heads), 1),
    };
    struct reference ref = reference_new(n, n);
    for (int i = 0; i < s.dim; i++)
        qkv[i] = 0; /* a query that attends to nothing */
    float *raw = array_copy(qkv, 3 * n); /* before relu, which the kernel applies */
    for (size_t i = 0; i < 3 * n; i++)
        if ((int)i % ld < 2 * C && qkv[i] < 0)
            qkv[i] = 0;
    reference_run(&ref, s, s.tokens, qkv, ld, qkv + C, ld, qkv + 2 * C, ld, NULL, dout);
    for (int r = 0; r < M; r++)
        for (int c = 0; c < C; c++) { /* the kernel applies the slope of relu too */
            ref.dq[r * C + c] *= qkv[r * ld + c] > 0;
            ref.dk[r * C + c] *= qkv[r * ld + C + c] > 0;
        }
    k->lin_attn(out, C, keep, raw, raw + C, ld, raw + 2 * C, ld, s);
    near("lin_attn", k->name, out, ref.out, n, 3e-6);
    k->lin_attn_back(d, d + C, d + 2 * C, ld, dout, C, out, keep, raw, raw + C, ld, raw + 2 * C, ld, s);
    near("lin_attn_back dq", k->name, columns(d, M, ld, C), ref.dq, n, 1e-5);
    near("lin_attn_back dk", k->name, columns(d + C, M, ld, C), ref.dk, n, 1e-5);
    near("lin_attn_back dv", k->name, columns(d + 2 * C, M, ld, C), ref.dv, n, 1e-5);
    reference_free(&ref);
    arrays_end("lin_attn");
}

static void check_cross_attention(const struct kern_ops *k, struct kern_heads s, int text)
{
    const int C = s.heads * s.dim, M = s.batch * s.tokens, T = s.batch * text, ld = 2 * C;
    const size_t n = (size_t)(M * C), np = (size_t)(s.batch * s.heads * s.tokens * text);
    float *q = array_new(n, 2), *kv = array_new((size_t)(T * ld), 2), *out = array_new(n, 1);
    float *dout = array_new(n, 1), *prob = array_new(np, 1), *work = array_new(np, 1);
    float *dq = array_new(n, 1), *dkv = array_new((size_t)(T * ld), 1);
    float *mask = array_new((size_t)T, 1);
    struct reference ref = reference_new(n, (size_t)(T * C));
    for (int i = 0; i < T; i++) /* not a prefix; the last sample has one valid token */
        mask[i] = i / text == s.batch - 1 ? i % text == text / 2 : (i * 7 + i / 3) % 3 != 0;
    mask[text - 1] = 1;
    reference_run(&ref, s, text, q, C, kv, ld, kv + C, ld, mask, dout);
    const struct kern_text t = {mask, NULL, text};
    k->cross_attn(out, prob, q, kv, ld, kv + C, ld, t, s);
    near("cross_attn", k->name, out, ref.out, n, 2e-6);
    for (int b = 0; b < s.batch; b++)
        for (int i = 0; i < s.heads * s.tokens * text; i++)
            if (mask[b * text + i % text] == 0)
                assert_true(prob[b * s.heads * s.tokens * text + i] == 0);
    k->cross_attn_back(dq, dkv, dkv + C, ld, work, dout, prob, q, kv, ld, kv + C, ld, t, s);
    near("cross_attn_back dq", k->name, dq, ref.dq, n, 1e-5);
    near("cross_attn_back dk", k->name, columns(dkv, T, ld, C), ref.dk, (size_t)(T * C), 1e-5);
    near("cross_attn_back dv", k->name, columns(dkv + C, T, ld, C), ref.dv, (size_t)(T * C), 1e-5);
    reference_free(&ref);
    arrays_end("cross_attn");
}

/* A batch of packed captions gives the results of its samples one by one. */
static void check_packed_captions(const struct kern_ops *k)
{
    enum { B = 3, N = 5, HEADS = 2, DIM = 8, C = HEADS * DIM, LD = 2 * C, ROWS = 12, MOST = 7 };
    static const int first[B + 1] = {0, 4, 5, ROWS}; /* 4, 1 and 7 tokens */
    float *q = array_new(B * N * C, 1), *kv = array_new(ROWS * LD, 1);
    float *dout = array_new(B * N * C, 1), *prob = array_new(HEADS * N * ROWS, 1);
    float *work = array_new(HEADS * N * ROWS, 1), *out = array_new(B * N * C, 1);
    float *dq = array_new(B * N * C, 1), *dkv = array_new(ROWS * LD, 1);
    float *one = array_new(N * C, 1), *one_dq = array_new(N * C, 1);
    float *one_dkv = array_new(MOST * LD, 1);
    float mask[ROWS];
    for (int i = 0; i < ROWS; i++)
        mask[i] = i != 7; /* a hole in the last one */
    const struct kern_text all = {mask, first, MOST};
    const struct kern_heads s = {B, N, HEADS, DIM}, alone = {1, N, HEADS, DIM};
    k->cross_attn(out, prob, q, kv, LD, kv + C, LD, all, s);
    k->cross_attn_back(dq, dkv, dkv + C, LD, work, dout, prob, q, kv, LD, kv + C, LD, all, s);
    for (int b = 0; b < B; b++) {
        const int len = first[b + 1] - first[b];
        const size_t at = (size_t)(b * N * C), row = (size_t)(first[b] * LD);
        const struct kern_text t = {mask + first[b], NULL, len};
        k->cross_attn(one, prob, q + at, kv + row, LD, kv + row + C, LD, t, alone);
        k->cross_attn_back(one_dq, one_dkv, one_dkv + C, LD, work, dout + at, prob, q + at,
                           kv + row, LD, kv + row + C, LD, t, alone);
        assert_memory_equal(out + at, one, sizeof(float) * N * C);
        assert_memory_equal(dq + at, one_dq, sizeof(float) * N * C);
        assert_memory_equal(dkv + row, one_dkv, sizeof(float) * (size_t)(len * LD));
    }
    arrays_end("packed captions");
}

/* Repeats each key head for every query head that shares it. */
static float *spread(const float *from, int ld, int rows, struct kern_heads s, int key_heads)
{
    const int C = s.heads * s.dim, serves = s.heads / key_heads;
    float *to = array_new((size_t)(rows * C), 0);
    for (int r = 0; r < rows; r++)
        for (int h = 0; h < s.heads; h++)
            memcpy(to + r * C + h * s.dim, from + r * ld + h / serves * s.dim, (size_t)s.dim * sizeof(float));
    return to;
}

/* ... and its gradients together. */
static double *gather_heads(const float *from, int rows, struct kern_heads s, int key_heads)
{
    const int serves = s.heads / key_heads, C = key_heads * s.dim;
    double *to = doubles_new((size_t)(rows * C));
    for (int r = 0; r < rows; r++)
        for (int i = 0; i < s.heads * s.dim; i++)
            to[r * C + i / s.dim / serves * s.dim + i % s.dim] +=
                (double)from[r * s.heads * s.dim + i];
    return to;
}

static double *doubles_of(const float *from, size_t n)
{
    double *to = doubles_new(n);
    for (size_t i = 0; i < n; i++)
        to[i] = (double)from[i];
    return to;
}

/* Attention without stored probabilities equals cross_attn(), with all keys valid
 * and each head with keys of its own. first NULL: `most` keys per sample. */
static void check_attend(const struct kern_ops *k, struct kern_heads s, const int *first, int most,
                         int key_heads, double size)
{
    const int C = s.heads * s.dim, K = key_heads * s.dim, ld = 2 * K + 3, ldd = 2 * K + 5;
    const int T = first ? first[s.batch] : s.batch * most;
    const size_t n = (size_t)(s.batch * s.tokens * C), nt = (size_t)(T * C);
    const size_t np = (size_t)(s.heads * s.tokens * T);
    const double slack = size > 2 ? size : 1;
    float *q = array_new(n, size), *kv = array_new((size_t)(T * ld), 2), *dout = array_new(n, 1);
    float *ones = array_new((size_t)T, 0), *out = array_new(n, 1), *dq = array_new(n, 1);
    float *kept = array_new((size_t)(s.batch * s.heads * s.tokens), 1);
    float *dkv = array_new((size_t)(T * ldd), 1), *prob = array_new(np, 1);
    float *work = array_new(np, 1), *other = array_new(n, 1), *other_dq = array_new(n, 1);
    float *other_dk = array_new(nt, 1), *other_dv = array_new(nt, 1);
    const float *wide_k = spread(kv, ld, T, s, key_heads);
    const float *wide_v = spread(kv + K, ld, T, s, key_heads);
    const struct kern_text text = {ones, first, most};
    const struct kern_keys t = {first, most, key_heads};
    for (int i = 0; i < T; i++)
        ones[i] = 1;
    k->cross_attn(other, prob, q, wide_k, C, wide_v, C, text, s);
    k->cross_attn_back(other_dq, other_dk, other_dv, C, work, dout, prob, q, wide_k, C, wide_v, C, text, s);
    for (size_t i = 0; i < n; i++)
        other_dq[i] += dq[i];
    double *want = doubles_of(other, n), *want_dq = doubles_of(other_dq, n);
    double *want_dk = gather_heads(other_dk, T, s, key_heads);
    double *want_dv = gather_heads(other_dv, T, s, key_heads);
    k->attend(out, kept, q, kv, ld, kv + K, ld, t, s);
    near("attend", k->name, out, want, n, 2e-6 * slack);
    k->attend_back(dq, dkv, dkv + K, ldd, dout, out, kept, q, kv, ld, kv + K, ld, t, s);
    near("attend_back dq", k->name, dq, want_dq, n, 5e-6 * slack);
    near("attend_back dk", k->name, columns(dkv, T, ldd, K), want_dk, (size_t)(T * K), 5e-6 * slack);
    near("attend_back dv", k->name, columns(dkv + K, T, ldd, K), want_dv, (size_t)(T * K), 5e-6 * slack);
    free(want);
    free(want_dq);
    free(want_dk);
    free(want_dv);
    arrays_end("attend");
}

static void attends(const struct kern_ops *k)
{
    static const int first[] = {0, 4, 5, 12}, far[] = {0, 300, 613};
    check_attend(k, (struct kern_heads){1, 1, 1, 1}, NULL, 1, 1, 2);
    check_attend(k, (struct kern_heads){2, 5, 3, 4}, NULL, 5, 3, 2);
    check_attend(k, (struct kern_heads){3, 7, 4, 6}, first, 7, 2, 2);
    check_attend(k, (struct kern_heads){2, 270, 4, 8}, far, 313, 2, 2);
    /* three queries and one key past the block; one key takes nearly all the weight */
    check_attend(k, (struct kern_heads){1, 131, 2, 17}, NULL, 257, 1, 2);
    check_attend(k, (struct kern_heads){1, 60, 2, 24}, NULL, 520, 2, 40);
}

static void attend_test(void **state)
{
    (void)state;
    each_isa(attends);
}

static void attentions(const struct kern_ops *k)
{
    static const struct {
        struct kern_heads s;
        int               text;
    } rows[] = {
        {{1, 1, 1, 1}, 1},   {{2, 5, 3, 4}, 3},   {{1, 33, 2, 8}, 12}, {{2, 9, 1, 17}, 17},
        {{3, 16, 2, 16}, 5}, {{1, 20, 1, 33}, 31}, {{2, 13, 2, 32}, 40},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        check_linear_attention(k, rows[i].s);
        check_cross_attention(k, rows[i].s, rows[i].text);
    }
    check_packed_captions(k);
}

static void attention_test(void **state)
{
    (void)state;
    each_isa(attentions);
}

/* A sample without a valid token attends to its padding, as in the authors' code. */
static void no_valid_token_is_no_nan(void **state)
{
    (void)state;
    const struct kern_ops *k = kern_cpu();
    const struct kern_heads s = {1, 3, 1, 4};
    float *q = array_new(12, 1), *kv = array_new(5 * 8, 1), *out = array_new(12, 1);
    float *prob = array_new(15, 1), mask[5] = {0};
    k->cross_attn(out, prob, q, kv, 8, kv + 4, 8, (struct kern_text){mask, NULL, 5}, s);
    for (int i = 0; i < 15; i++)
        assert_true(prob[i] > 0 && prob[i] < 1);
    arrays_end("cross_attn");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_test),
        cmocka_unit_test(attend_test),
        cmocka_unit_test(no_valid_token_is_no_nan),
    };
    return cmocka_run_group_tests_name("attention", tests, NULL, NULL);
}
