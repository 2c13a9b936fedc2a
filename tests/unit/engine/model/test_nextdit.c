/* SPDX-License-Identifier: Apache-2.0 */
/* test_nextdit.c - Next-DiT against itself: invariances, initial weights, FLOPs, refused settings
 *
 * `jobctl-verify tests/golden/lumina` compares its numbers with the authors'.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/model/layout.h"
#include "engine/model/model.h"
#include "kernels/kernels.h"
#include "kernels/rng.h"

enum { BATCH = 3, SIDE = 6, TEXT = 5, CHANNELS = 4, WORDS = 7 };

static const struct model_config config = {
    .family = MODEL_NEXTDIT, .depth = 3, .hidden = 24, .heads = 6, .kv_heads = 2, .patch = 2,
    .mlp_hidden = 40, .qk_norm = true, .latent_channels = CHANNELS, .caption_channels = WORDS,
    .caption_len = TEXT, .norm_eps = 1e-5f, .learn_sigma = true};
static const int first[BATCH + 1] = {0, 4, 5, 10};

static float *random_floats(size_t n, uint64_t id, double scale)
{
    float *p = malloc((n ? n : 1) * sizeof(*p));
    const struct rng r = rng_make(3, 0, id, RNG_TEST);
    assert_non_null(p);
    rng_normal(&r, p, 0, n);
    for (size_t i = 0; i < n; i++)
        p[i] = (float)((double)p[i] * scale);
    return p;
}

static struct model *make(const struct model_config *c, const struct model_limits *max, bool train, double noise)
{
    struct model *m;
    struct err err = {0};
    if (model_create(&m, c, max, train, &err) < 0)
        fail_msg("%s", err.text);
    model_init_weights(m, 5);
    const size_t n = layout_floats(model_layout(m));
    float *more = random_floats(n, 77, noise);
    for (size_t i = 0; i < n; i++)
        model_weights(m)[i] += more[i];
    free(more);
    return m;
}

struct batch {
    struct model_input in;
    float *x, *t, *y, *out, *dout;
    size_t n; /* numbers of an output */
};

static struct batch make_batch(void)
{
    static float ones[BATCH * TEXT];
    struct batch b = {.n = (size_t)BATCH * CHANNELS * SIDE * SIDE};
    for (int i = 0; i < BATCH * TEXT; i++)
        ones[i] = 1;
    b.x = random_floats(b.n, 1, 1);
    b.t = random_floats(BATCH, 2, 0.2);
    b.y = random_floats(BATCH * TEXT * WORDS, 3, 1);
    b.out = random_floats(b.n, 4, 1);
    b.dout = random_floats(b.n, 5, 1);
    b.in = (struct model_input){.batch = BATCH, .height = SIDE, .width = SIDE, .text = TEXT, .x = b.x,
                                .timestep = b.t, .y = b.y, .mask = ones, .first = first,
                                .rows = first[BATCH]};
    return b;
}

static void free_batch(struct batch *b)
{
    float *const all[] = {b->x, b->t, b->y, b->out, b->dout};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        free(all[i]);
}

static const struct model_limits all = {.batch = BATCH, .height = SIDE, .width = SIDE, .text = TEXT};

static void pass(struct model *m, struct batch *b)
{
    struct err err = {0};
    if (model_forward(m, &b->in, b->out, &err) < 0 ||
        model_backward(m, &b->in, b->dout, NULL, &err) < 0)
        fail_msg("%s", err.text);
}

/* Recomputing, or keeping nothing at all, changes no bit. */
static void memory_does_not_matter(void **state)
{
    (void)state;
    struct model_limits less = all;
    struct batch a = make_batch(), b = make_batch(), c = make_batch();
    struct err err = {0};
    less.recompute = true;
    struct model *kept = make(&config, &all, true, 0.1), *again = make(&config, &less, true, 0.1);
    struct model *drawn = make(&config, &all, false, 0.1);
    pass(kept, &a);
    pass(again, &b);
    assert_int_equal(model_forward(drawn, &c.in, c.out, &err), 0);
    assert_memory_equal(a.out, b.out, a.n * sizeof(float));
    assert_memory_equal(a.out, c.out, a.n * sizeof(float));
    assert_memory_equal(model_grads(kept), model_grads(again), layout_floats(model_layout(kept)) * sizeof(float));
    assert_true(model_bytes(again) < model_bytes(kept));
    assert_true(model_bytes(drawn) < model_bytes(again));
    model_destroy(kept);
    model_destroy(again);
    model_destroy(drawn);
    free_batch(&a);
    free_batch(&b);
    free_batch(&c);
}

static double difference(const float *a, const float *b, size_t n)
{
    double most = 0;
    for (size_t i = 0; i < n; i++)
        most = fmax(most, fabs((double)a[i] - (double)b[i]));
    return most;
}

/* A sample depends only on itself and its caption's rows; a step of another size before changes
 * nothing. */
static void samples_are_independent(void **state)
{
    (void)state;
    struct batch whole = make_batch(), one = make_batch();
    struct model *m = make(&config, &all, true, 0.1), *each = make(&config, &all, true, 0.1);
    const size_t latent = whole.n / BATCH;
    struct err err = {0};
    pass(m, &whole);
    for (int b = 0; b < BATCH; b++) {
        const int own[2] = {0, first[b + 1] - first[b]};
        struct model_input in = one.in;
        in.batch = 1;
        in.x = one.x + (size_t)b * latent;
        in.timestep = one.t + b;
        in.y = one.y + (size_t)first[b] * WORDS;
        in.first = own;
        in.rows = own[1];
        in.height = SIDE / 2 / 2 * 2; /* another grid between */
        assert_int_equal(model_forward(each, &in, one.out, &err), 0);
        in.height = SIDE;
        assert_int_equal(model_forward(each, &in, one.out, &err), 0);
        assert_true(difference(one.out, whole.out + (size_t)b * latent, latent) < 2e-6);
        assert_int_equal(model_backward(each, &in, whole.dout + (size_t)b * latent, NULL, &err), 0);
    }
    assert_true(difference(model_grads(m), model_grads(each), layout_floats(model_layout(m))) < 1e-3);
    model_destroy(m);
    model_destroy(each);
    free_batch(&whole);
    free_batch(&one);
}

/* The tensor of the same name in another layout. */
static const struct tensor *twin_of(const struct tensor *t, const struct layout *other)
{
    return layout_at(other, layout_find(other, t->name));
}

/* Numbers [i][j] of one block as those of another, whose matrices may be wider: the rest of a row is skipped. */
static void copy_tensors(float *to, const struct layout *l, const float *from, const struct layout *other)
{
    for (int i = 0; i < layout_len(l); i++) {
        const struct tensor *t = layout_at(l, i), *o = twin_of(t, other);
        const size_t cols = t->count / (size_t)t->dim[0], theirs = o->count / (size_t)o->dim[0];
        const int64_t rows = t->dim[0] < o->dim[0] ? t->dim[0] : o->dim[0];
        for (size_t r = 0; r < (size_t)rows; r++)
            memcpy(to + t->offset + r * cols, from + o->offset + r * theirs,
                   (cols < theirs ? cols : theirs) * sizeof(float));
    }
}

/* Gradients in the gap behind w1 of a block. */
static void assert_gap_is_zero(struct model *m, const char *w1, const char *w3)
{
    const struct layout *l = model_layout(m);
    const struct tensor *t = layout_at(l, layout_find(l, w1)), *u = layout_at(l, layout_find(l, w3));
    assert_true(u->offset > t->offset + t->count);
    for (size_t k = t->offset + t->count; k < u->offset; k++)
        assert_true(model_grads(m)[k] == 0);
}

/* A width that leaves a gap between w1 and w3 is that of a wider model whose further channels are 0, whatever is in
 * the gap. */
static void a_gap_between_matrices_counts_for_nothing(void **state)
{
    (void)state;
    struct model_config narrow = config;
    narrow.mlp_hidden = config.mlp_hidden - 3;
    struct batch a = make_batch(), b = make_batch();
    struct model *m = make(&narrow, &all, true, 0.1), *wide = make(&config, &all, true, 0);
    const struct layout *l = model_layout(m), *lw = model_layout(wide);
    const size_t n = layout_floats(l);
    float *grads = calloc(n, sizeof(*grads)), *ours = calloc(n, sizeof(*ours));
    memset(model_weights(wide), 0, layout_floats(lw) * sizeof(float));
    copy_tensors(model_weights(wide), lw, model_weights(m), l);
    pass(m, &a);
    pass(wide, &b);
    assert_true(difference(a.out, b.out, a.n) < 2e-6);
    assert_gap_is_zero(m, "layers.0.feed_forward.w1.weight", "layers.0.feed_forward.w3.weight");
    copy_tensors(grads, l, model_grads(wide), lw);
    copy_tensors(ours, l, model_grads(m), l);
    assert_true(difference(grads, ours, n) < 1e-4);
    model_destroy(m);
    model_destroy(wide);
    free(grads);
    free(ours);
    free_batch(&a);
    free_batch(&b);
}

/* Initially the output is 0, and only the picture's channels get gradients. */
static void it_starts_as_the_authors_do(void **state)
{
    (void)state;
    struct batch b = make_batch();
    struct model *m = make(&config, &all, true, 0);
    const struct layout *l = model_layout(m);
    pass(m, &b);
    for (size_t i = 0; i < b.n; i++)
        assert_true(b.out[i] == 0);
    for (int i = 0; i < layout_len(l); i++) {
        const struct tensor *t = layout_at(l, i);
        const bool last = strncmp(t->name, "final_layer.linear", 18) == 0;
        const size_t row = t->count / (size_t)t->dim[0];
        for (size_t k = 0; k < t->count; k++) {
            const bool learns = last && k / row % (2 * CHANNELS) < CHANNELS;
            if ((model_grads(m)[t->offset + k] != 0) != learns)
                fail_msg("%s[%zu]", t->name, k);
        }
    }
    model_destroy(m);
    free_batch(&b);
}

/* Checkpoints have the digest of the table: with another one, those of earlier versions would be refused. The two
 * matrices that the table has apart are one in memory, whatever their width. */
static void the_table_does_not_change(void **state)
{
    (void)state;
    struct model *m = make(&config, &all, false, 0);
    assert_true(layout_digest(model_layout(m)) == UINT64_C(0x0f627c4864f373dc));
    model_destroy(m);
    for (int width = 37; width <= 40; width++) {
        struct model_config c = config;
        c.mlp_hidden = width;
        m = make(&c, &all, false, 0);
        const struct layout *l = model_layout(m);
        const int w1 = layout_find(l, "layers.1.feed_forward.w1.weight");
        assert_string_equal(layout_at(l, w1 + 2)->name, "layers.1.feed_forward.w3.weight");
        assert_int_equal(layout_at(l, w1 + 2)->offset - layout_at(l, w1)->offset, (width + width % 2) * config.hidden);
        model_destroy(m);
    }
}

/* The distributions of the authors' constructor: the first row whose text is in the name. */
static void weights_start_as_the_authors_draw_them(void **state)
{
    (void)state;
    static const struct {
        const char *part;
        enum { IS, NORMAL, XAVIER } draw;
        double value;
    } rows[] = {
        {"adaLN_modulation.1", IS, 0}, {"final_layer.linear", IS, 0}, {"attention.gate", IS, 0},
        {"cap_embedder.1", IS, 0},     {".bias", IS, 0},              {"norm", IS, 1},
        {"cap_embedder.0.weight", IS, 1}, {"t_embedder.mlp.", NORMAL, 0.02}, {"pad_token", NORMAL, 0.02},
        {"", XAVIER, 0},
    };
    struct model *m = make(&config, &all, false, 0);
    const struct layout *l = model_layout(m);
    for (int i = 0; i < layout_len(l); i++) {
        const struct tensor *t = layout_at(l, i);
        const float *w = model_weights(m) + t->offset;
        double most = 0, squares = 0;
        size_t r = 0;
        while (!strstr(t->name, rows[r].part))
            r++;
        for (size_t k = 0; k < t->count; k++) {
            most = fmax(most, fabs((double)w[k]));
            squares += (double)w[k] * (double)w[k];
            if (rows[r].draw == IS && (double)w[k] != rows[r].value)
                fail_msg("%s[%zu] is %g", t->name, k, (double)w[k]);
        }
        const double deviation = sqrt(squares / (double)t->count);
        if (rows[r].draw == NORMAL && !(deviation > 0.6 * rows[r].value && deviation < 1.4 * rows[r].value))
            fail_msg("%s has a deviation of %g", t->name, deviation);
        const double limit = rows[r].draw == XAVIER ? sqrt(6.0 / (double)(t->dim[0] + t->dim[1])) : 0;
        if (rows[r].draw == XAVIER && !(most <= limit && most > 0.9 * limit))
            fail_msg("%s goes to %g, not %g", t->name, most, limit);
    }
    model_destroy(m);
}

static json_t *authors(const char *more)
{
    json_t *model = json_pack("{s:i, s:i, s:i, s:i, s:b, s:i}", "dim", 2304, "n_layers", 24, "n_heads", 32,
                              "n_kv_heads", 8, "qk_norm", 1, "cap_feat_dim", 2048);
    json_t *extra = json_loads(more, 0, NULL);
    assert_non_null(extra);
    json_object_update(model, extra);
    json_decref(extra);
    return json_pack("{s:o}", "model", model);
}

/* The published model: 1,627,386,400 parameters, and these TFLOP per forward pass. */
static void flops_are_as_published(void **state)
{
    (void)state;
    static const struct {
        int    side, text;
        double tflop;
    } rows[] = {{32, 64, 0.711}, {32, 256, 0.743}, {64, 64, 2.994}, {64, 256, 3.059},
                {128, 64, 14.74}, {128, 256, 14.93}};
    struct model_config c;
    struct err err = {0};
    json_t *j = authors("{}");
    if (model_config_parse(&c, j, &err) < 0)
        fail_msg("%s", err.text);
    json_decref(j);
    assert_int_equal(c.family, MODEL_NEXTDIT);
    assert_int_equal(c.mlp_hidden, 6144);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const double f = model_forward_flops(&c, 1, rows[i].side, rows[i].side, rows[i].text) / 1e12;
        if (fabs(f - rows[i].tflop) > 0.006 * rows[i].tflop)
            fail_msg("%d: %.4f TFLOP, not %.3f", rows[i].side, f, rows[i].tflop);
    }
}

static void bad_settings_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *more, *text;
    } rows[] = {
        {"{\"n_kv_heads\": 5}", "n_heads 32 is not a multiple of n_kv_heads 5"},
        {"{\"n_heads\": 36, \"n_kv_heads\": 36, \"dim\": 360}", "must be heads of a multiple of 4 channels"},
        {"{\"n_layers\": 0}", "n_layers is 0; it must be from 1 to 1000"},
        {"{\"norm_eps\": 0}", "norm_eps is 0; it must be above 0"},
        {"{\"dim\": \"wide\"}", "model.dim is not a whole number"},
        {"{\"multiple_of\": 0}", "model.multiple_of must be 1 or more"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct model_config c;
        struct err err = {0};
        json_t *j = authors(rows[i].more);
        assert_int_equal(model_config_parse(&c, j, &err), -1);
        if (!strstr(err.text, rows[i].text))
            fail_msg("'%s' is not '%s'", err.text, rows[i].text);
        json_decref(j);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_does_not_matter),     cmocka_unit_test(samples_are_independent),
        cmocka_unit_test(a_gap_between_matrices_counts_for_nothing),
        cmocka_unit_test(it_starts_as_the_authors_do), cmocka_unit_test(flops_are_as_published),
        cmocka_unit_test(the_table_does_not_change),
        cmocka_unit_test(weights_start_as_the_authors_draw_them), cmocka_unit_test(bad_settings_are_refused),
    };
    return cmocka_run_group_tests_name("next", tests, NULL, NULL);
}
