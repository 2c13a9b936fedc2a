/* SPDX-License-Identifier: Apache-2.0 */
/* test_adapter.c - files of diffusers and peft, old and new; refusals */
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/base/err.h"
#include "engine/contract/lora_config.h"
#include "engine/files/safetensors.h"
#include "engine/model/layout.h"
#include "engine/model/model.h"
#include "engine/weights/adapter.h"
#include "tests/unit/engine/contract/scratch_dir.h"

#define Q0 "transformer_blocks.0.attn1.to_q"
#define Q1 "transformer_blocks.1.attn1.to_q"

static char dir[256], file[300];
static struct err err;
static const float numbers[256];

struct row {
    const char *name;
    int64_t     rows, cols; /* cols 0: one dimension */
};

static int make(void **state)
{
    (void)state;
    scratch_dir_create(dir, sizeof(dir), "adapter");
    return 0;
}

static int clear(void **state)
{
    (void)state;
    unlink(file);
    return rmdir(dir);
}

/* A file with these tensors, of zeros, and this JSON text in its header. */
static void write_file(const char *name, const struct row *rows, const char *notes)
{
    struct st_writer *w;
    int64_t bytes;
    unlink(file);
    snprintf(file, sizeof(file), "%s/%s", dir, name);
    const int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_int_equal(st_writer_create(&w, &err), 0);
    if (notes)
        assert_int_equal(st_writer_meta(w, "lora_adapter_metadata", notes, &err), 0);
    for (; rows->name; rows++) {
        const int64_t dim[] = {rows->rows, rows->cols};
        assert_int_equal(st_writer_add(w, rows->name, ST_F32, rows->cols ? 2 : 1, dim, numbers, &err), 0);
    }
    assert_int_equal(st_writer_write(w, fd, &bytes, &err), 0);
    st_writer_destroy(w);
    close(fd);
}

static struct lora_config read_config(void)
{
    struct adapter *a;
    err = (struct err){0};
    if (adapter_open(&a, file, 2, &err) < 0)
        fail_msg("%s", err.text);
    const struct lora_config c = *adapter_config(a);
    adapter_close(a);
    return c;
}

static void refused(const char *why)
{
    struct adapter *a;
    err = (struct err){0};
    assert_int_equal(adapter_open(&a, file, 2, &err), -1);
    if (!strstr(err.text, why))
        fail_msg("%s", err.text);
}

static double scale(const struct lora_config *c, int block)
{
    return lora_config_scale(c, block, LORA_SELF_Q);
}

static void near(double a, double b)
{
    assert_true(fabs(a - b) < 1e-9);
}

static void alpha_is_in_the_header(void **state)
{
    const struct row rows[] = {{"transformer." Q0 ".lora_A.weight", 2, 8}, {"transformer." Q0 ".lora_B.weight", 8, 2},
                               {"transformer." Q1 ".lora_A.weight", 4, 8}, {"transformer." Q1 ".lora_B.weight", 8, 4},
                               {NULL, 0, 0}};
    (void)state;
    write_file("a", rows, "{\"transformer.r\":2,\"transformer.lora_alpha\":6}");
    struct lora_config c = read_config();
    near(scale(&c, 0), 3);
    near(scale(&c, 1), 1.5);
    assert_int_equal(c.targets, 1u << LORA_SELF_Q);
    write_file("a", rows, "{\"transformer.lora_alpha\":6,\"transformer.alpha_pattern\":{\"1.attn1.to_q\":20}}");
    c = read_config();
    near(scale(&c, 0), 3);
    near(scale(&c, 1), 5);
    write_file("a", rows, "{\"transformer.lora_alpha\":6,\"transformer.use_rslora\":true}");
    c = read_config();
    near(scale(&c, 1), 3);
    write_file("a", rows, NULL); /* as diffusers takes it */
    c = read_config();
    near(scale(&c, 0), 1);
    near(scale(&c, 1), 1);
}

static void older_names_are_read(void **state)
{
    const struct row rows[] = {{"transformer." Q0 ".lora.down.weight", 2, 8},
                               {"transformer." Q0 ".lora.up.weight", 8, 2}, {"transformer." Q0 ".alpha", 1, 0},
                               {NULL, 0, 0}};
    const struct row peft[] = {{"base_model.model." Q0 ".lora_A.weight", 2, 8},
                               {"base_model.model." Q0 ".lora_B.weight", 8, 2}, {NULL, 0, 0}};
    (void)state;
    write_file("a", rows, NULL);
    struct lora_config c = read_config();
    assert_int_equal(lora_config_rank(&c, 0, LORA_SELF_Q), 2);
    assert_int_equal(lora_config_rank(&c, 1, LORA_SELF_Q), 0);
    near(scale(&c, 0), 0); /* the tensor's alpha, which is 0 here */
    write_file("a", peft, NULL);
    c = read_config();
    near(scale(&c, 0), 1);
}

static void peft_keeps_its_config_beside(void **state)
{
    const struct row rows[] = {{"base_model.model." Q0 ".lora_A.weight", 2, 8},
                               {"base_model.model." Q0 ".lora_B.weight", 8, 2}, {NULL, 0, 0}};
    char config[300];
    (void)state;
    write_file("adapter_model.safetensors", rows, NULL);
    snprintf(config, sizeof(config), "%s/adapter_config.json", dir);
    FILE *f = fopen(config, "we");
    fputs("{\"r\":2,\"lora_alpha\":8}", f);
    fclose(f);
    const struct lora_config c = read_config();
    unlink(config);
    near(scale(&c, 0), 4);
}

static void others_are_refused_by_name(void **state)
{
    const struct row halves[] = {{"transformer." Q0 ".lora_A.weight", 2, 8}, {NULL, 0, 0}};
    const struct row shapes[] = {{"transformer." Q0 ".lora_A.weight", 2, 8}, {"transformer." Q0 ".lora_B.weight", 8, 3},
                                 {NULL, 0, 0}};
    const struct row deep[] = {{"transformer.transformer_blocks.2.attn1.to_q.lora_A.weight", 2, 8}, {NULL, 0, 0}};
    const struct row text[] = {{"text_encoder.layers.0.lora_A.weight", 2, 8}, {NULL, 0, 0}};
    const struct row dora[] = {{"transformer." Q0 ".lora_magnitude_vector", 8, 0}, {NULL, 0, 0}};
    const struct row none[] = {{NULL, 0, 0}};
    (void)state;
    write_file("a", halves, NULL);
    refused("has no counterpart");
    write_file("a", shapes, NULL);
    refused("do not have shapes [r, in] and [out, r]");
    write_file("a", deep, NULL);
    refused("belongs to block 2, but the model has 2 blocks");
    write_file("a", text, NULL);
    refused("text_encoder.layers.0.lora_A.weight is not a low-rank adapter");
    write_file("a", dora, NULL);
    refused("DoRA");
    write_file("a", none, NULL);
    refused("no tensors");
    write_file("a", halves, "[]");
    refused("is not a JSON object");
}

static void what_is_written_is_read(void **state)
{
    struct model_config m = {
        .family = MODEL_SANA, .depth = 2, .hidden = 64, .heads = 2, .patch = 1, .mlp_hidden = 160,
        .latent_channels = 8, .caption_channels = 16, .caption_len = 3, .linear_head_dim = 32,
        .lora = {.rank = 4, .alpha = 6, .targets = 1u << LORA_SELF_Q | 1u << LORA_MLP_IN, .exceptions = 2,
                 .exception = {{-1, LORA_CROSS_OUT, 2, 5}, {1, LORA_SELF_Q, 3, 6}}}};
    struct layout *l;
    struct adapter *a;
    (void)state;
    m.lora.targets |= 1u << LORA_CROSS_OUT;
    assert_int_equal(model_layout_make(&l, &m, &err), 0);
    float *weights = layout_alloc(l), *again = layout_alloc(l);
    for (int i = 0; i < layout_len(l); i++)
        for (size_t k = 0; k < layout_at(l, i)->count; k++)
            weights[layout_at(l, i)->offset + k] = (float)(i + 1) + 0.001f * (float)k;
    unlink(file);
    snprintf(file, sizeof(file), "%s/" ADAPTER_FILE, dir);
    const int fd = open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(adapter_write(fd, &m.lora, 2, l, weights, &err), 0);
    close(fd);
    assert_int_equal(adapter_open(&a, dir, 2, &err), 0);
    assert_int_equal(adapter_read(a, l, again, &err), 0);
    assert_memory_equal(again, weights, layout_floats(l) * sizeof(float));
    for (int b = 0; b < 2; b++)
        for (int k = 0; k < LORA_MODULES; k++) {
            assert_int_equal(lora_config_rank(adapter_config(a), b, (enum lora_module)k),
                             lora_config_rank(&m.lora, b, (enum lora_module)k));
            near(lora_config_scale(adapter_config(a), b, (enum lora_module)k),
                 lora_config_scale(&m.lora, b, (enum lora_module)k));
        }
    adapter_close(a);
    free(weights);
    free(again);
    layout_destroy(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alpha_is_in_the_header),
        cmocka_unit_test(older_names_are_read),
        cmocka_unit_test(peft_keeps_its_config_beside),
        cmocka_unit_test(others_are_refused_by_name),
        cmocka_unit_test(what_is_written_is_read),
    };
    return cmocka_run_group_tests(tests, make, clear);
}
