/* SPDX-License-Identifier: Apache-2.0 */
/* test_model.c - the network at odd shapes: forward against a naive one in double, gradients
 * against finite differences; valid and refused configurations */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/base/err.h"
#include "kernels/rng.h"
#include "tests/unit/engine/model/sana_ref.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

struct shape {
    struct model_config c;
    int                 batch, height, width, text;
};

/* depth hidden heads head_dim patch F  qk cross y  y_scale y_eps  channels D L dropout */
static const struct shape shapes[] = {
    {{.depth = 1, .hidden = 6, .heads = 3, .linear_head_dim = 2, .patch = 1,
     .mlp_hidden = 7, .y_norm = true, .y_norm_scale = 0.3f, .y_norm_eps = 1e-5f,
     .latent_channels = 3, .caption_channels = 5, .caption_len = 4}, 2, 3, 5, 4},
    {{.depth = 2, .hidden = 12, .heads = 2, .linear_head_dim = 4, .patch = 1,
     .mlp_hidden = 30, .qk_norm = true, .cross_norm = true, .y_norm = true,
     .y_norm_scale = 0.5f, .y_norm_eps = 1e-5f, .latent_channels = 4,
     .caption_channels = 7, .caption_len = 6}, 2, 4, 3, 5},
    {{.depth = 1, .hidden = 10, .heads = 5, .linear_head_dim = 10, .patch = 2,
     .mlp_hidden = 13, .qk_norm = true, .y_norm_scale = 1.0f, .y_norm_eps = 1e-5f,
     .latent_channels = 3, .caption_channels = 9, .caption_len = 3}, 3, 6, 4, 3},
    {{.depth = 2, .hidden = 20, .heads = 1, .linear_head_dim = 5, .patch = 3,
     .mlp_hidden = 17, .cross_norm = true, .y_norm = true, .y_norm_scale = 0.01f,
     .y_norm_eps = 1e-3f, .latent_channels = 2, .caption_channels = 4, .caption_len = 7}, 1, 3, 9, 7},
    {{.depth = 3, .hidden = 33, .heads = 3, .linear_head_dim = 11, .patch = 1,
     .mlp_hidden = 40, .qk_norm = true, .cross_norm = true, .y_norm_scale = 1.0f,
     .y_norm_eps = 1e-5f, .latent_channels = 5, .caption_channels = 3, .caption_len = 2}, 2, 1, 7, 1},
};

static float *random_floats(size_t n, uint64_t id, double scale)
{
    float *p = malloc((n ? n : 1) * sizeof(*p));
    const struct rng r = rng_make(21, 0, id, RNG_TEST);
    assert_non_null(p);
    rng_normal(&r, p, 0, n);
    for (size_t i = 0; i < n; i++)
        p[i] = (float)((double)p[i] * scale);
    return p;
}

struct batch {
    struct model_input in;
    float             *x, *t, *y, *mask;
    size_t             out; /* numbers of the output */
};

static struct batch batch_make(const struct shape *s)
{
    struct batch b;
    const size_t B = (size_t)s->batch, text = B * (size_t)s->text;
    b.out = B * (size_t)(s->c.latent_channels * s->height * s->width);
    b.x = random_floats(b.out, 1, 1);
    b.t = random_floats(B, 2, 0);
    b.y = random_floats(text * (size_t)s->c.caption_channels, 3, 1);
    b.mask = random_floats(text, 4, 1);
    for (size_t i = 0; i < B; i++)
        b.t[i] = (float)(37 + 411 * i % 1000);
    for (size_t i = 0; i < text; i++) /* some tokens per sample, not a prefix, at least one */
        b.mask[i] = b.mask[i] > -0.3f || i % (size_t)s->text == (size_t)s->text / 2;
    b.in = (struct model_input){.batch = s->batch, .height = s->height, .width = s->width,
                                .text = s->text, .x = b.x, .timestep = b.t, .y = b.y,
                                .mask = b.mask};
    return b;
}

static void batch_free(struct batch *b)
{
    free(b->x);
    free(b->t);
    free(b->y);
    free(b->mask);
}

/* Weights with which every gradient is nonzero: initial ones plus noise. */
static struct model *model_make(const struct shape *s, bool train)
{
    struct model *m = NULL;
    struct err err = {0};
    const struct model_limits max = {s->batch, s->height, s->width, s->text, false, false, 0};
    if (model_create(&m, &s->c, &max, train, &err) < 0)
        fail_msg("%s", err.text);
    model_init_weights(m, 5);
    const struct layout *l = model_layout(m);
    for (int i = 0; i < layout_len(l); i++) {
        const struct tensor *t = layout_at(l, i);
        float *noise = random_floats(t->count, 100 + (uint64_t)i, 0.1);
        for (size_t k = 0; k < t->count; k++)
            model_weights(m)[t->offset + k] += noise[k];
        free(noise);
    }
    return m;
}

static double *weights_as_doubles(struct model *m)
{
    const size_t n = layout_floats(model_layout(m));
    double *w = malloc(n * sizeof(*w));
    assert_non_null(w);
    for (size_t i = 0; i < n; i++)
        w[i] = (double)model_weights(m)[i];
    return w;
}

static void forward_equals_the_naive_network(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(shapes); i++)
        for (int train = 0; train < 2; train++) {
            struct err err = {0};
            struct model *m = model_make(&shapes[i], train);
            struct batch b = batch_make(&shapes[i]);
            double *w = weights_as_doubles(m);
            const struct ref r = {&shapes[i].c, model_layout(m), w};
            float *out = random_floats(b.out, 9, 1);
            assert_int_equal(model_forward(m, &b.in, out, &err), 0);
            double *want = ref_forward(&r, &b.in);
            for (size_t k = 0; k < b.out; k++)
                if (!(fabs((double)out[k] - want[k]) < 1e-5 * fmax(1, fabs(want[k]))))
                    fail_msg("shape %zu: output %zu is %.8g, not %.8g", i, k, (double)out[k], want[k]);
            free(want);
            free(out);
            free(w);
            batch_free(&b);
            model_destroy(m);
        }
}

/* sum(out * dout) of the naive network, with tensor t moved by step * direction. */
static double moved(const struct ref *r, double *w, const struct tensor *t, const float *direction,
                    double step, const struct batch *b, const float *dout)
{
    double total = 0;
    for (size_t k = 0; k < t->count; k++)
        w[t->offset + k] += step * (double)direction[k];
    double *out = ref_forward(r, &b->in);
    for (size_t k = 0; k < b->out; k++)
        total += out[k] * (double)dout[k];
    for (size_t k = 0; k < t->count; k++)
        w[t->offset + k] -= step * (double)direction[k];
    free(out);
    return total;
}

/* Along a random direction of each tensor, the gradient must give the slope. */
static void check_gradients(const struct shape *s)
{
    struct err err = {0};
    struct model *m = model_make(s, true);
    struct batch b = batch_make(s);
    const struct layout *l = model_layout(m);
    double *w = weights_as_doubles(m), all = 0;
    const struct ref r = {&s->c, l, w};
    float *out = random_floats(b.out, 9, 1), *dout = random_floats(b.out, 10, 1);
    assert_int_equal(model_forward(m, &b.in, out, &err), 0);
    assert_int_equal(model_backward(m, &b.in, dout, NULL, &err), 0);
    for (size_t k = 0; k < layout_floats(l); k++)
        all += (double)model_grads(m)[k] * (double)model_grads(m)[k];
    for (int i = 0; i < layout_len(l); i++) {
        const struct tensor *t = layout_at(l, i);
        const float *g = model_grads(m) + t->offset;
        float *d = random_floats(t->count, 1000 + (uint64_t)i, 1);
        double ours = 0, norm = 0;
        for (size_t k = 0; k < t->count; k++) {
            ours += (double)g[k] * (double)d[k];
            norm += (double)g[k] * (double)g[k];
        }
        const double h = 1e-6;
        const double slope = (moved(&r, w, t, d, h, &b, dout) - moved(&r, w, t, d, -h, &b, dout)) /
                             (2 * h);
        /* fp32 gradients are accurate to about 1e-5; those that cancel, to 1e-7 of the total. */
        if (t->kind == TENSOR_PARAM &&
            !(fabs(ours - slope) < 5e-5 * sqrt(norm) + 1e-6 * sqrt(all)))
            fail_msg("%s: slope %.9g, finite difference %.9g", t->name, ours, slope);
        if (t->kind == TENSOR_BUFFER)
            assert_true(norm == 0);
        free(d);
    }
    free(out);
    free(dout);
    free(w);
    batch_free(&b);
    model_destroy(m);
}

static void gradients_equal_finite_differences(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(shapes); i++)
        check_gradients(&shapes[i]);
}

/* The gradient of the caption features, used by the tests of dropout. */
static void caption_gradient_is_the_slope(void **state)
{
    (void)state;
    const struct shape *s = &shapes[1];
    struct err err = {0};
    struct model *m = model_make(s, true);
    struct batch b = batch_make(s);
    double *w = weights_as_doubles(m);
    const struct ref r = {&s->c, model_layout(m), w};
    const size_t n = (size_t)(s->batch * s->text * s->c.caption_channels);
    float *out = random_floats(b.out, 9, 1), *dout = random_floats(b.out, 10, 1);
    float *dy = random_floats(n, 11, 1);
    assert_int_equal(model_forward(m, &b.in, out, &err), 0);
    assert_int_equal(model_backward(m, &b.in, dout, dy, &err), 0);
    for (size_t i = 0; i < n; i += 3) {
        const float was = b.y[i];
        double side[2], step[2] = {-1e-3, 1e-3}, width = 0;
        for (int k = 0; k < 2; k++) {
            b.y[i] = (float)((double)was + step[k]);
            width += (k ? 1 : -1) * (double)b.y[i];
            double *o = ref_forward(&r, &b.in);
            side[k] = 0;
            for (size_t j = 0; j < b.out; j++)
                side[k] += o[j] * (double)dout[j];
            free(o);
        }
        b.y[i] = was;
        const double slope = (side[1] - side[0]) / width;
        if (fabs(slope - (double)dy[i]) > 1e-3 * fmax(0.05, fabs(slope)))
            fail_msg("dy[%zu] is %.7g, not %.7g", i, (double)dy[i], slope);
    }
    free(out);
    free(dout);
    free(dy);
    free(w);
    batch_free(&b);
    model_destroy(m);
}

/* A smaller batch in a model created for a larger one; another aspect ratio; too large a batch. */
static void smaller_batches_work(void **state)
{
    (void)state;
    const struct shape *s = &shapes[0];
    struct model *m = NULL, *exact = model_make(s, true);
    struct err err = {0};
    const struct model_limits max = {s->batch + 2, s->width, s->height + 1, s->c.caption_len,
                                     false, false, 0};
    struct batch b = batch_make(s);
    float *out = random_floats(b.out, 9, 1), *want = random_floats(b.out, 9, 1);
    assert_int_equal(model_create(&m, &s->c, &max, true, &err), 0);
    memcpy(model_weights(m), model_weights(exact), layout_floats(model_layout(m)) * sizeof(float));
    assert_int_equal(model_forward(exact, &b.in, want, &err), 0);
    assert_int_equal(model_forward(m, &b.in, out, &err), 0);
    assert_memory_equal(out, want, b.out * sizeof(float));
    struct model_input big = b.in;
    big.height = 100;
    assert_int_equal(model_forward(m, &big, out, &err), -1);
    assert_int_equal(err.code, ERR_USAGE);
    assert_true(model_bytes(m) > model_bytes(exact));
    struct err other = {0};
    assert_int_equal(model_backward(exact, &big, out, NULL, &other), -1);
    free(out);
    free(want);
    batch_free(&b);
    model_destroy(m);
    model_destroy(exact);
}

static void weights_start_as_the_authors_draw_them(void **state)
{
    (void)state;
    const struct model_config c = {
        .depth = 1, .hidden = 128, .heads = 4, .linear_head_dim = 32, .patch = 1,
        .mlp_hidden = 320, .qk_norm = true, .cross_norm = true, .y_norm = true,
        .y_norm_scale = 0.01f, .y_norm_eps = 1e-5f, .latent_channels = 32,
        .caption_channels = 96, .caption_len = 20};
    const struct model_limits max = {1, 2, 2, 20, false, false, 0};
    static const struct {
        const char *name;
        double      mean, std, most; /* most: 0 = not checked */
    } rows[] = {
        {"t_block.1.weight", 0, 0.02, 0},
        {"y_embedder.y_proj.fc1.weight", 0, 0.02, 0},
        {"blocks.0.attn.qkv.weight", 0, 0.06250, 0.10826}, /* sqrt(6 / (384 + 128)) / sqrt(3) */
        {"blocks.0.attn.proj.bias", 0, 0, 0},
        {"blocks.0.mlp.inverted_conv.conv.weight", 0, 0.05103, 0.08839}, /* 1/sqrt(128) */
        {"blocks.0.mlp.depth_conv.conv.bias", 0, 0.19245, 0.33334},      /* 1/3 */
        {"blocks.0.mlp.point_conv.conv.weight", 0, 0.03227, 0.05591},    /* 1/sqrt(320) */
        {"blocks.0.scale_shift_table", 0, 0.08839, 0},                   /* 1/sqrt(128) */
        {"blocks.0.cross_attn.k_norm.weight", 1, 0, 1.0001},
        {"attention_y_norm.weight", 0.01, 0, 0.010001},
        {"x_embedder.proj.weight", 0, 0.11180, 0.19365}, /* sqrt(6 / 160) / sqrt(3) */
        {"x_embedder.proj.bias", 0, 0.10206, 0.17678},   /* 1/sqrt(32) */
        {"y_embedder.y_embedding", 0, 0.10206, 0},       /* 1/sqrt(96) */
    };
    struct model *m = NULL, *twin = NULL;
    struct err err = {0};
    assert_int_equal(model_create(&m, &c, &max, false, &err), 0);
    assert_int_equal(model_create(&twin, &c, &max, false, &err), 0);
    model_init_weights(m, 3);
    model_init_weights(twin, 3);
    const struct layout *l = model_layout(m);
    assert_memory_equal(model_weights(m), model_weights(twin), layout_floats(l) * sizeof(float));
    assert_null(model_grads(m));
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const int at = layout_find(l, rows[i].name);
        assert_true(at >= 0);
        const struct tensor *t = layout_at(l, at);
        const double n = (double)t->count;
        double mean = 0, square = 0, most = 0;
        for (size_t k = 0; k < t->count; k++) {
            const double x = (double)model_weights(m)[t->offset + k];
            mean += x / n;
            square += (x - rows[i].mean) * (x - rows[i].mean) / n;
            most = fmax(most, fabs(x));
        }
        if (fabs(mean - rows[i].mean) > 5 * rows[i].std / sqrt(n) + 1e-6 ||
            fabs(sqrt(square) - rows[i].std) > 4 * rows[i].std / sqrt(n) + 1e-6 ||
            (rows[i].most > 0 && most > rows[i].most))
            fail_msg("%s: mean %g std %g most %g", rows[i].name, mean, sqrt(square), most);
    }
    model_init_weights(twin, 4);
    assert_memory_not_equal(model_weights(m), model_weights(twin), 1000);
    model_destroy(m);
    model_destroy(twin);
    model_destroy(NULL);
}

static void configurations_are_read_or_refused(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        const char *says; /* NULL: accepted */
    } rows[] = {
        {"{\"model\":{\"model\":\"SanaMS\",\"depth\":1,\"hidden_size\":64,\"num_heads\":2}}", NULL},
        {"{\"model\":{\"model\":\"SanaMS_600M_P1_D28\"}}", NULL},
        {"[]", "not a JSON object"},
        {"{}", "no \"model\""},
        {"{\"model\":{}}", "model.model is missing"},
        {"{\"model\":{\"model\":\"PixArt\"}}", "\"PixArt\""},
        {"{\"model\":{\"model\":\"SanaMS\"}}", "depth is 0"},
        {"{\"model\":{\"model\":\"SanaMS\",\"depth\":\"two\"}}", "model.depth"},
        {"{\"model\":{\"model\":\"SanaMS\",\"depth\":-2}}", "model.depth"},
        {"{\"model\":{\"model\":\"SanaMS\",\"depth\":1,\"hidden_size\":64,\"num_heads\":3}}",
         "num_heads 3"},
        {"{\"model\":{\"model\":\"SanaMS\",\"depth\":1,\"hidden_size\":48,\"num_heads\":3}}",
         "linear_head_dim 32"},
        {"{\"model\":{\"model\":\"SanaMS\",\"attn_type\":\"flash\"}}", "model.attn_type"},
        {"{\"model\":{\"model\":\"SanaMS\",\"attn_type\":\"lin\"}}", "model.attn_type"},
        {"{\"model\":{\"model\":\"SanaMS\",\"ffn_type\":\"mlp\"}}", "model.ffn_type"},
        {"{\"model\":{\"model\":\"SanaMS\",\"mlp_acts\":[\"silu\"]}}", "model.mlp_acts"},
        {"{\"model\":{\"model\":\"SanaMS\",\"use_pe\":true}}", "model.use_pe"},
        {"{\"model\":{\"model\":\"SanaMS\",\"cfg_embed\":true}}", "model.cfg_embed: this engine does not know the key"},
        {"{\"model\":{\"n_layers\":2,\"dim\":64,\"rope_scaling\":2}}", "model.rope_scaling: this engine does not know"},
        {"{\"model\":{\"model\":\"SanaMS\",\"qk_norm\":1}}", "model.qk_norm"},
        {"{\"model\":{\"model\":\"SanaMS\",\"mlp_ratio\":-1}}", "model.mlp_ratio"},
        {"{\"model\":{\"model\":\"SanaMS\",\"depth\":1,\"hidden_size\":64,\"num_heads\":2,"
         "\"class_dropout_prob\":2}}", "class_dropout_prob"},
        {"{\"model\":{\"model\":\"SanaMS\"},\"vae\":3}", "\"vae\""},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct model_config c;
        struct err err = {0};
        json_t *json = json_loads(rows[i].json, 0, NULL);
        assert_non_null(json);
        const int r = model_config_parse(&c, json, &err);
        if (rows[i].says ? r == 0 || err.code != ERR_USAGE || !strstr(err.text, rows[i].says)
                         : r != 0)
            fail_msg("row %zu: %d \"%s\"", i, r, err.text);
        json_decref(json);
    }
}

/* The published sizes: parameters and FLOPs of the authors' models. */
static void published_models_have_their_sizes(void **state)
{
    (void)state;
    struct model_config c;
    struct err err = {0};
    json_t *json = json_loads("{\"model\":{\"model\":\"SanaMS_600M_P1_D28\"},"
                              "\"text_encoder\":{\"y_norm\":true}}", 0, NULL);
    assert_int_equal(model_config_parse(&c, json, &err), 0);
    json_decref(json);
    assert_int_equal(c.mlp_hidden, 2880);
    assert_true(fabs(model_forward_flops(&c, 1, 16, 16, 300) / 0.3156e12 - 1) < 2e-3);
    assert_true(fabs(model_forward_flops(&c, 1, 32, 32, 300) / 1.1215e12 - 1) < 2e-3);
    c.depth = 1; /* 13,655,840 and 20,646,144 a block */
    struct model *m = NULL;
    const struct model_limits max = {1, 1, 1, 1, false, false, 0};
    assert_int_equal(model_create(&m, &c, &max, false, &err), 0);
    assert_int_equal(layout_params(model_layout(m)), 13655840 + 20646144);
    model_destroy(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forward_equals_the_naive_network),
        cmocka_unit_test(gradients_equal_finite_differences),
        cmocka_unit_test(caption_gradient_is_the_slope),
        cmocka_unit_test(smaller_batches_work),
        cmocka_unit_test(weights_start_as_the_authors_draw_them),
        cmocka_unit_test(configurations_are_read_or_refused),
        cmocka_unit_test(published_models_have_their_sizes),
    };
    return cmocka_run_group_tests_name("model", tests, NULL, NULL);
}
