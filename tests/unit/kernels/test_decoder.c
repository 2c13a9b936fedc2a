/* SPDX-License-Identifier: Apache-2.0 */
/* test_decoder.c - the operations of a text encoder's decoder, against double: products with bf16, causal attention */
#include "tests/unit/kernels/kern_test.h"

static const struct {
    int m, k, n;
} products[] = {{1, 1, 1}, {3, 17, 5}, {33, 64, 47}, {5, 100, 300}, {1, 2304, 129}, {20, 9216, 33}, {7, 33, 5000}};

/* bf16 of a float by cutting, at an odd address. */
static unsigned char *cut(float *w, size_t n)
{
    unsigned char *narrow = malloc(2 * n + 1);
    assert_non_null(narrow);
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, w + i, sizeof(bits));
        const uint16_t half = (uint16_t)(bits >> 16);
        memcpy(narrow + 1 + 2 * i, &half, sizeof(half));
        bits &= 0xFFFF0000u;
        memcpy(w + i, &bits, sizeof(bits));
    }
    return narrow;
}

static void check_product(const struct kern_ops *k, int m, int K, int n)
{
    const size_t nk = (size_t)n * (size_t)K, mn = (size_t)m * (size_t)n;
    float *x = array_new((size_t)(m * K), 1), *w = array_new(nk, 1), *y = array_new(mn, 9);
    float *work = array_new(KERN_BF16_WORK(K), 0);
    unsigned char *narrow = cut(w, nk);
    double *want = doubles_new(mn);
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++)
            for (int l = 0; l < K; l++)
                want[i * n + j] += (double)x[i * K + l] * (double)w[j * K + l];
    k->linear_bf16(y, x, narrow + 1, work, m, K, n);
    near("linear_bf16", k->name, y, want, mn, 1e-6);
    free(narrow);
    free(want);
    arrays_end("linear_bf16");
}

static void check_products(const struct kern_ops *k)
{
    for (size_t i = 0; i < ARRAY_LEN(products); i++)
        check_product(k, products[i].m, products[i].k, products[i].n);
}

static void products_with_bf16_are_right(void **state)
{
    (void)state;
    each_isa(check_products);
}

static const struct kern_causal shapes[] = {
    {1, 1, 1, 1, 1, 2, 0, 1, 0, false}, {2, 7, 7, 4, 2, 32, 0, 0.2f, 50, false},
    {1, 20, 20, 4, 1, 6, 5, 0.4f, 0, false}, {2, 5, 12, 2, 2, 16, 3, 1, 0.5f, false},
    {1, 300, 490, 2, 1, 8, 0, 0.3f, 2, false}, {1, 131, 700, 2, 2, 20, 300, 0.2f, 50, false},
    {.batch = 2, .queries = 9, .keys = 300, .heads = 1, .kv_heads = 1, .dim = 300, .scale = 0.02f, .whole = true},
};

enum { MASKS = 3 };

/* All; padding on the right; nothing at the start. */
static float mask_at(int kind, int j, int keys)
{
    return kind == 0 || (kind == 1 ? j < (keys + 1) / 2 : j >= keys / 3 + 1) ? 1 : 0;
}

/* Weights of one query, as a softmax of what it sees. */
static void weigh(double *p, const float *q, const float *k, const float *mask, const struct kern_causal *s,
                  int position)
{
    double sum = 0;
    for (int j = 0; j < s->keys; j++) {
        double score = 0;
        for (int i = 0; i < s->dim; i++)
            score += (double)q[i] * (double)k[j * s->kv_heads * s->dim + i];
        score *= (double)s->scale;
        score = s->cap > 0 ? (double)s->cap * tanh(score / (double)s->cap) : score;
        const bool seen = s->whole || (j <= position && mask[j] > 0 && (!s->window || position - j < s->window));
        sum += p[j] = seen ? exp(score) : 0;
    }
    for (int j = 0; j < s->keys; j++)
        p[j] = sum > 0 ? p[j] / sum : 1.0 / s->keys;
}

static void check_causal(const struct kern_ops *k, const struct kern_causal *s, int kind)
{
    const size_t rows = (size_t)(s->batch * s->queries), keys = (size_t)(s->batch * s->keys);
    const int ld = s->heads * s->dim, ldk = s->kv_heads * s->dim;
    float *q = array_new(rows * (size_t)ld, 2), *key = array_new(keys * (size_t)ldk, 2);
    float *v = array_new(keys * (size_t)ldk, 1), *mask = array_new(keys, 0), *out = array_new(rows * (size_t)ld, 9);
    double *want = doubles_new(rows * (size_t)ld), *p = doubles_new((size_t)s->keys);
    for (size_t j = 0; j < keys; j++)
        mask[j] = mask_at(kind, (int)(j % (size_t)s->keys), s->keys);
    for (int r = 0; r < (int)rows; r++)
        for (int h = 0; h < s->heads; h++) {
            const int b = r / s->queries, col = h / (s->heads / s->kv_heads) * s->dim;
            weigh(p, q + r * ld + h * s->dim, key + b * s->keys * ldk + col, mask + b * s->keys, s,
                  s->keys - s->queries + r % s->queries);
            for (int j = 0; j < s->keys; j++)
                for (int i = 0; i < s->dim; i++)
                    want[r * ld + h * s->dim + i] += p[j] * (double)v[(b * s->keys + j) * ldk + col + i];
        }
    k->attend_causal(out, q, key, v, s->whole ? NULL : mask, s);
    near("attend_causal", k->name, out, want, rows * (size_t)ld, 2e-6);
    free(want);
    free(p);
    arrays_end("attend_causal");
}

static void check_shapes(const struct kern_ops *k)
{
    for (size_t i = 0; i < ARRAY_LEN(shapes); i++)
        for (int kind = 0; kind < MASKS; kind++)
            check_causal(k, &shapes[i], kind);
}

static void causal_attention_is_right(void **state)
{
    (void)state;
    each_isa(check_shapes);
}

/* Two samples of three tokens, from position 2 on; heads of six. */
static void check_turn(const struct kern_ops *k)
{
    enum { BATCH = 2, LENGTH = 3, FROM = 2, HEADS = 2, DIM = 6, HALF = DIM / 2, ALL = BATCH * LENGTH * HEADS * DIM };
    float *x = array_new(ALL, 1);
    const float *cosine = array_new((FROM + LENGTH) * HALF, 1), *sine = array_new((FROM + LENGTH) * HALF, 1);
    double want[ALL];
    for (int i = 0; i < ALL; i++) {
        const int at = (FROM + i / DIM / HEADS % LENGTH) * HALF + i % HALF, second = i % DIM >= HALF;
        const double other = (double)x[second ? i - HALF : i + HALF];
        want[i] = (double)x[i] * (double)cosine[at] + (second ? other : -other) * (double)sine[at];
    }
    k->turn_halves(x, cosine, sine, BATCH, LENGTH, FROM, HEADS, DIM);
    near("turn_halves", k->name, x, want, ALL, 1e-6);
    arrays_end("turn_halves");
}

static void check_geglu(const struct kern_ops *k)
{
    enum { ALL = 37 };
    float *a = array_new(ALL, 3);
    const float *b = array_new(ALL, 1);
    double want[ALL];
    for (int i = 0; i < ALL; i++) {
        const double x = (double)a[i];
        want[i] = x * 0.5 * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))) * (double)b[i];
    }
    k->geglu(a, a, b, ALL);
    near("geglu", k->name, a, want, ALL, 2e-6);
    arrays_end("geglu");
}

static void positions_turn_and_gates_are_right(void **state)
{
    (void)state;
    each_isa(check_turn);
    each_isa(check_geglu);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_with_bf16_are_right),
        cmocka_unit_test(causal_attention_is_right),
        cmocka_unit_test(positions_turn_and_gates_are_right),
    };
    return cmocka_run_group_tests_name("decoder", tests, NULL, NULL);
}
