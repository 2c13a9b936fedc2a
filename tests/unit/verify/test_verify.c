/* SPDX-License-Identifier: Apache-2.0 */
/* test_verify.c - golden cases pass; wrong, damaged or missing ones fail */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/base/err.h"
#include "engine/files/safetensors.h"
#include "engine/vae/vae_config.h"
#include "tests/unit/engine/contract/scratch_dir.h"
#include "tests/verify/verify_internal.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define GOLDEN "tests/golden/sana/"
#define LUMINA "tests/golden/lumina/"

static char dir[256];

static int dir_make(void **state)
{
    (void)state;
    scratch_dir_create(dir, sizeof(dir), "verify");
    return 0;
}

static int dir_remove(void **state)
{
    (void)state;
    return rmdir(dir);
}

static void golden_cases_pass(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int         tensors;
    } rows[] = {
        {GOLDEN "tiny-base", 68}, {GOLDEN "tiny-qknorm", 76}, {GOLDEN "tiny-rect", 68},
        {GOLDEN "tiny-adamw-5steps", 145}, {GOLDEN "tiny-came-5steps", 241},
        {LUMINA "v1_gqa_8x8", 441}, {LUMINA "v2_mha_ragged", 451},
        {LUMINA "v3_noqknorm_16ch", 72}, {LUMINA "v4_repo_init", 291},
        {LUMINA "v5_gqa_widerange", 94}, {LUMINA "v6_wide_proc", 81},
        {"tests/golden/lora/all-alpha", 55},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char path[300];
        struct verify_result r;
        struct err err = {0};
        snprintf(path, sizeof(path), "%s.json", rows[i].name);
        if (verify_case(&r, path, NULL, &err) < 0)
            fail_msg("%s: %s", rows[i].name, err.text);
        assert_int_equal(r.tensors, rows[i].tensors);
        if (r.failed)
            fail_msg("%s: %s off by %g", rows[i].name, r.worst, r.error);
    }
}

/* Damage to a good case. */
struct damage {
    const char *json_path[4]; /* path of a value in the JSON ... */
    const char *json_value;   /* ... that is replaced by this; "" = removed */
    const char *tensor;       /* this tensor, or with "[0]" its first element ... */
    double      factor;       /* ... is multiplied */
    const char *says;         /* the error, or the worst tensor */
    int         fails;        /* 1: compares badly; 0: cannot be run; -1: passes */
};

static void damage_json(const struct damage *d, const char *golden, const char *to)
{
    json_t *config = json_load_file(golden, 0, NULL), *at = config;
    assert_non_null(config);
    for (int i = 0; i < 4 && d->json_path[i]; i++) {
        if (i < 3 && d->json_path[i + 1]) {
            if (!json_object_get(at, d->json_path[i]))
                json_object_set_new(at, d->json_path[i], json_object());
            at = json_object_get(at, d->json_path[i]);
        } else if (d->json_value[0]) {
            json_object_set_new(at, d->json_path[i], json_loads(d->json_value, JSON_DECODE_ANY, NULL));
        } else {
            json_object_del(at, d->json_path[i]);
        }
    }
    assert_int_equal(json_dump_file(config, to, 0), 0);
    json_decref(config);
}

/* Copies the golden tensors, one of them multiplied. A factor of 0 omits it. */
static void damage_tensors(const struct damage *d, const char *golden, const char *to)
{
    struct st_file *f = NULL;
    struct st_writer *w = NULL;
    struct err err = {0};
    float *own = NULL;
    FILE *file = fopen(to, "wb");
    assert_non_null(file);
    assert_int_equal(st_open(&f, golden, &err), 0);
    assert_int_equal(st_writer_create(&w, &err), 0);
    for (int i = 0; i < st_len(f); i++) {
        const struct st_tensor *t = st_at(f, i);
        const void *data = t->data;
        const size_t len = strlen(t->name);
        if (d->tensor && strncmp(t->name, d->tensor, len) == 0 &&
            (!d->tensor[len] || strcmp(d->tensor + len, "[0]") == 0)) {
            if (d->factor == 0)
                continue;
            data = own = malloc(t->bytes);
            st_to_float(own, t, t->count, &err);
            for (size_t k = 0; k < (d->tensor[len] ? 1 : t->count); k++)
                own[k] *= (float)d->factor;
        }
        assert_int_equal(st_writer_add(w, t->name, t->dtype, t->ndim, t->dim, data, &err), 0);
    }
    assert_int_equal(st_writer_write(w, fileno(file), NULL, &err), 0);
    fclose(file);
    st_writer_destroy(w);
    st_close(f);
    free(own);
}

/* Runs the case `golden` with each damage in turn: its JSON, and its files with these suffixes. */
static void run_damaged(const struct damage *rows, size_t count, const char *golden, const char *const *suffixes)
{
    char from[300], to[300];
    for (size_t i = 0; i < count; i++) {
        struct verify_result r;
        struct err err = {0};
        for (int k = 0; suffixes[k]; k++) {
            snprintf(from, sizeof(from), "%s.%s", golden, suffixes[k]);
            snprintf(to, sizeof(to), "%s/case.%s", dir, suffixes[k]);
            damage_tensors(&rows[i], from, to);
        }
        snprintf(from, sizeof(from), "%s.json", golden);
        snprintf(to, sizeof(to), "%s/case.json", dir);
        damage_json(&rows[i], from, to);
        const int rc = verify_case(&r, to, NULL, &err);
        const int want = rows[i].fails == 0 ? -1 : 0;
        if (rc != want || (rc == 0 && (r.failed > 0) != (rows[i].fails > 0)))
            fail_msg("row %zu: %d, %d failed, worst %s \"%s\"", i, rc, r.failed, r.worst, err.text);
        if (rows[i].fails >= 0 && !strstr(rc < 0 ? err.text : r.worst, rows[i].says))
            fail_msg("row %zu: worst %s \"%s\"", i, r.worst, err.text);
    }
    unlink(to);
    for (int k = 0; suffixes[k]; k++) {
        snprintf(to, sizeof(to), "%s/case.%s", dir, suffixes[k]);
        unlink(to);
    }
}

static const char *const one_file[] = {"safetensors", NULL};

static void damaged_cases_fail(void **state)
{
    (void)state;
    const struct damage rows[] = {
        {{NULL}, "", NULL, 0, "", -1},
        {{NULL}, "", "out.model", 1.00002, "out.model", 1},
        {{NULL}, "", "out.model", NAN, "out.model", 1},
        {{NULL}, "", "out.model[0]", NAN, "out.model", 1},
        {{NULL}, "", "loss.per_sample[0]", NAN, "loss.per_sample", 1},
        {{NULL}, "", "grad.blocks.0.attn.qkv.weight[0]", NAN, "grad.blocks.0.attn.qkv.weight", 1},
        {{NULL}, "", "act.blocks.1.attn", 1.0001, "act.blocks.1.attn", 1},
        {{NULL}, "", "loss.per_sample", 1.00001, "loss.per_sample", 1},
        {{NULL}, "", "grad.blocks.0.attn.qkv.weight", 1.0001, "grad.blocks.0.attn.qkv.weight", 1},
        {{NULL}, "", "loss.t_model", 1.01, "loss.t_model", 1},
        {{NULL}, "", "blocks.1.mlp.depth_conv.conv.weight", 1.01, "", 1},
        {{"tolerance", "out.model"}, "1e-3", "out.model", 1.00002, "", -1},
        {{NULL}, "", "blocks.0.attn.qkv.weight", 0, "blocks.0.attn.qkv.weight is missing", 0},
        {{NULL}, "", "in.mask", 0, "in.mask is missing", 0},
        {{NULL}, "", "grad.final_layer.linear.bias", 0, "is missing", 0},
        {{"model", "qk_norm"}, "true", NULL, 0, "q_norm.weight is missing", 0},
        {{"model", "depth"}, "1", NULL, 0, "is not part of this configuration", 0},
        {{"model", "hidden_size"}, "96", NULL, 0, "does not have the shape", 0},
        {{"model", "attn_type"}, "\"flash\"", NULL, 0, "model.attn_type", 0},
        {{"model"}, "", NULL, 0, "\"model\"", 0},
        {{"vae", "vae_latent_dim"}, "16", NULL, 0, "shapes", 0},
        {{"train", "optimizer", "type"}, "\"Lion\"", NULL, 0, "Lion", 0},
    };
    run_damaged(rows, ARRAY_LEN(rows), GOLDEN "tiny-base", one_file);
}

static void damaged_lumina_cases_fail(void **state)
{
    (void)state;
    const struct damage rows[] = {
        {{NULL}, "", NULL, 0, "", -1},
        {{NULL}, "", "param.layers.0.attention.gate", 1.001, "", 1},
        {{NULL}, "", "param.final_layer.linear.bias", 1.001, "", 1},
        {{NULL}, "", "out.0", 1.0001, "out.0", 1},
        {{NULL}, "", "out.1", NAN, "out.1", 1},
        {{NULL}, "", "mid.xt.1", 1.0001, "mid.xt.1", 1},
        {{NULL}, "", "act.layers.1", 1.0001, "act.layers.1 of picture", 1},
        {{NULL}, "", "loss.per_sample", 1.00001, "loss.per_sample", 1},
        {{NULL}, "", "loss.mean", 1.00001, "loss.mean", 1},
        {{NULL}, "", "grad.layers.0.attention.wk.weight", 1.0001, "attention.wk.weight", 1},
        {{"total_grad_norm_fp64"}, "2.6642", NULL, 0, "total_grad_norm_fp64", 1},
        {{"tolerance", "out.0"}, "0", NULL, 0, "out.0", 1},
        {{"tolerance", "out.0"}, "1e-2", "out.0", 1.0001, "", -1},
        {{NULL}, "", "param.pad_token", 0, "param.pad_token is missing", 0},
        {{NULL}, "", "in.x0.1", 0, "in.x0.1 is missing", 0},
        {{NULL}, "", "in.cap_mask", 0, "in.cap_mask is missing", 0},
        {{NULL}, "", "in.cap_feats", 0, "nothing to check", 0},
        {{NULL}, "", "grad.x_embedder.bias", 0, "grad.x_embedder.bias is missing", 0},
        {{"model", "qk_norm"}, "true", NULL, 0, "q_norm.weight is missing", 0},
        {{"model", "n_layers"}, "1", NULL, 0, "is not part of this configuration", 0},
        {{"model", "n_kv_heads"}, "2", NULL, 0, "does not have the shape", 0},
        {{"model", "in_channels"}, "4", NULL, 0, "does not have shape [4, H, W]", 0},
        {{"model", "cap_feat_dim"}, "48", NULL, 0, "does not have shape [B, L, 48]", 0},
        {{"prediction"}, "\"noise\"", NULL, 0, "prediction is noise", 0},
        {{"loss_weight"}, "\"snr\"", NULL, 0, "loss_weight is snr", 0},
        {{"train", "more5", "hyper"}, "{}", NULL, 0, "run more5: hyper.lr is missing", 0},
    };
    run_damaged(rows, ARRAY_LEN(rows), LUMINA "v3_noqknorm_16ch", one_file);
}

static void damaged_lumina_runs_fail(void **state)
{
    (void)state;
    static const char *const files[] = {"safetensors", "train5.safetensors", NULL};
    const struct damage rows[] = {
        {{NULL}, "", NULL, 0, "", -1},
        {{NULL}, "", "final.param.layers.0.attention.wq.weight", 1.001,
         "train5.final.param.layers.0.attention.wq.weight", 1},
        {{NULL}, "", "final.ema.x_embedder.weight", 1.001, "train5.final.ema.x_embedder.weight", 1},
        {{NULL}, "", "train.loss[0]", NAN, "train5.train.loss", 1},
        {{NULL}, "", "final.ema.x_embedder.weight[0]", NAN, "train5.final.ema.x_embedder.weight",
         1},
        {{NULL}, "", "train.loss", 1.00001, "train5.train.loss", 1},
        {{NULL}, "", "train.grad_norm", 1.0001, "train5.train.grad_norm", 1},
        {{NULL}, "", "step2.in.t", 1.01, "", 1},
        {{"train", "train5", "hyper", "wd"}, "0.1", NULL, 0, "train5.final", 1},
        {{"train", "train5", "hyper", "ema_decay"}, "0.9", NULL, 0, "train5.final.ema", 1},
        {{"train", "train5", "hyper", "lr"}, "1.1e-4", NULL, 0, "train5", 1},
        {{"train", "train5", "hyper", "lr"}, "", NULL, 0, "run train5: hyper.lr is missing", 0},
        {{"train", "train5", "hyper", "warmup"}, "9", NULL, 0, "hyper.warmup is not a setting", 0},
        {{"train", "train5", "hyper", "steps"}, "6", NULL, 0, "step5.in.cap_feats is missing", 0},
        {{NULL}, "", "step2.in.t", 0, "run train5: tensor step2.in.t is missing", 0},
        {{NULL}, "", "final.ema.pad_token", 0, "run train5: tensor final.ema.pad_token is miss", 0},
    };
    run_damaged(rows, ARRAY_LEN(rows), LUMINA "v4_repo_init", files);
}

/* A case whose weights are drawn by a rule. */
static void damaged_rules_fail(void **state)
{
    (void)state;
    const struct damage rows[] = {
        {{NULL}, "", "gradsample.layers.0.attention.wo.weight", 1.0001, "attention.wo.weight", 1},
        {{"procedural", "seed"}, "107", NULL, 0, "procedural.first_values says", 0},
        {{"procedural", "seed"}, "", NULL, 0, "procedural.seed is missing", 0},
        {{"procedural", "tensors", "more"}, "{}", NULL, 0, "more is not part", 0},
        {{"procedural", "tensors", "pad_token"}, "{}", NULL, 0, "and scale for pad_token", 0},
        {{"model", "cap_feat_dim"}, "128", NULL, 0, "does not have shape", 0},
        {{"model", "n_kv_heads"}, "8", NULL, 0, "does not have the shape", 0},
    };
    run_damaged(rows, ARRAY_LEN(rows), LUMINA "v6_wide_proc", one_file);
}

static void every_comparison_is_printed(void **state)
{
    (void)state;
    char line[300];
    int lines = 0, ok = 0;
    struct verify_result r;
    struct err err = {0};
    FILE *each = tmpfile();
    assert_non_null(each);
    assert_int_equal(verify_case(&r, LUMINA "v3_noqknorm_16ch.json", each, &err), 0);
    rewind(each);
    while (fgets(line, sizeof(line), each)) {
        lines++;
        ok += strncmp(line, "ok     ", 7) == 0 && strstr(line, ", tolerance ") != NULL;
    }
    fclose(each);
    assert_int_equal(lines, r.tensors);
    assert_int_equal(ok, r.tensors);
}

/* Another schedule than the constant one: the case must list the rates it ran with. */
static void rates_of_other_schedules_are_listed(void **state)
{
    (void)state;
    static const struct {
        const char *schedule, *lrs; /* "" = removed */
        int         rc, failed;
        const char *says;
    } rows[] = {
        {"\"cosine\"", NULL, 0, 0, ""},
        {"\"cosine\"", "[1e-4, 1e-4, 1e-4, 1e-4]", -1, 0, "learning rate of step 4"},
        {"\"cosine\"", "", -1, 0, "learning rate of step 0"},
        {"\"cosine\"", "[1e-4, 1e-4, 1e-4, 1e-4, 2e-4]", 0, 1, ""},
        {"\"constant\"", "[1e-4, 1e-4, 2e-4, 1e-4, 1e-4]", -1, 0, "step 2 of the case ran"},
    };
    const struct damage no_tensor = {.tensor = "lrs", .factor = 0};
    char json[300], tensors[300];
    snprintf(json, sizeof(json), "%s/rates.json", dir);
    snprintf(tensors, sizeof(tensors), "%s/rates.safetensors", dir);
    damage_tensors(&no_tensor, GOLDEN "tiny-adamw-5steps.safetensors", tensors);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct verify_result r;
        struct err err = {0};
        json_t *config = json_load_file(GOLDEN "tiny-adamw-5steps.json", 0, NULL);
        json_t *c = json_object_get(config, "case");
        json_object_set_new(json_object_get(config, "train"), "lr_schedule",
                            json_loads(rows[i].schedule, JSON_DECODE_ANY, NULL));
        if (rows[i].lrs && rows[i].lrs[0])
            json_object_set_new(c, "lrs", json_loads(rows[i].lrs, 0, NULL));
        else if (rows[i].lrs)
            json_object_del(c, "lrs");
        assert_int_equal(json_dump_file(config, json, 0), 0);
        json_decref(config);
        const int rc = verify_case(&r, json, NULL, &err);
        if (rc != rows[i].rc || (rc == 0 && (r.failed > 0) != rows[i].failed) ||
            (rc < 0 && !strstr(err.text, rows[i].says)))
            fail_msg("row %zu: %d, %d failed, worst %s \"%s\"", i, rc, r.failed, r.worst, err.text);
    }
    unlink(json);
    unlink(tensors);
}

static void a_missing_tensor_is_named(void **state)
{
    (void)state;
    struct verify_result r;
    char json[300];
    static const char *const texts[] = {"{\"model\": ", "[1, 2]", "{}"};
    struct err err = {0};
    assert_int_equal(verify_case(&r, "/nonexistent/case.json", NULL, &err), -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    struct err suffix = {0};
    assert_int_equal(verify_case(&r, GOLDEN "tiny-base.safetensors", NULL, &suffix), -1);
    snprintf(json, sizeof(json), "%s/alone.json", dir);
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        FILE *f = fopen(json, "w");
        assert_non_null(f);
        fputs(texts[i], f);
        fclose(f);
        struct err e = {0};
        assert_int_equal(verify_case(&r, json, NULL, &e), -1);
        assert_true(e.text[0] != 0);
        assert_true(i != 2 || strstr(e.text, "this JSON is not a case: it has neither a \"kind\" nor a \"model\""));
    }
    unlink(json);
}

static void expect_refused(const char *json, bool is_dcae, const char *words)
{
    struct vae_config c;
    struct err err = {0};
    json_t *config = json_loads(json, 0, NULL);
    assert_non_null(config);
    assert_int_equal(verify_vae_config(&c, is_dcae, config, &err), -1);
    if (!strstr(err.text, words))
        fail_msg("\"%s\" does not say \"%s\"", err.text, words);
    json_decref(config);
}

static void impossible_autoencoders_are_refused(void **state)
{
    (void)state;
    expect_refused("{}", true, "latent_channels");
    expect_refused("{\"latent_channels\": 4, \"width_list\": []}", true, "0 stages");
    expect_refused("{\"latent_channels\": 4, \"width_list\": [8, 8], \"depth_list\": [1]}", true, "2 stages");
    expect_refused("{\"latent_channels\": 4, \"width_list\": [8, 40], \"depth_list\": [1, 1], "
                   "\"block_type\": [\"ResBlock\", \"EViTS5_GLU\"]}", true, "not a multiple of 32");
    expect_refused("{\"latent_channels\": 4, \"width_list\": [8, 12], \"depth_list\": [1, 1], "
                   "\"block_type\": [\"ResBlock\", \"ResBlock\"]}", true, "shortcut");
    expect_refused("{\"latent_channels\": 4, \"width_list\": [8, 8], \"depth_list\": [1, 1], "
                   "\"block_type\": [\"ResBlock\", \"ViT\"]}", true, "is ViT");
    expect_refused("{\"latent_channels\": 3, \"width_list\": [8], \"depth_list\": [1], \"block_type\": [\"ResBlock\"]}",
                   true, "latent");
    expect_refused("{\"latent_channels\": 4, \"block_out_channels\": [10], \"layers_per_block\": 1, "
                   "\"norm_num_groups\": 4}", false, "groups");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_cases_pass),
        cmocka_unit_test(damaged_cases_fail),
        cmocka_unit_test(damaged_lumina_cases_fail),
        cmocka_unit_test(damaged_lumina_runs_fail),
        cmocka_unit_test(damaged_rules_fail),
        cmocka_unit_test(every_comparison_is_printed),
        cmocka_unit_test(rates_of_other_schedules_are_listed),
        cmocka_unit_test(a_missing_tensor_is_named),
        cmocka_unit_test(impossible_autoencoders_are_refused),
    };
    return cmocka_run_group_tests_name("verify", tests, dir_make, dir_remove);
}
