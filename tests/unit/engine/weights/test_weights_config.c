/* SPDX-License-Identifier: Apache-2.0 */
/* test_weights_config.c - different models with the same tensors as a supported one are refused by name */
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
#include "engine/contract/train_config.h"
#include "engine/files/safetensors.h"
#include "engine/weights/pretrained.h"
#include "engine/weights/weights_config.h"
#include "engine/weights/weights_source.h"

#define ROWS(a) (sizeof(a) / sizeof((a)[0]))

static char dir[64], file[128], config[128];
static struct err err;

static void put_config(const char *text)
{
    FILE *f = fopen(config, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

/* A tensor that a Sana has, and another of three numbers. */
static void put_tensors(const char *name, const float x[3])
{
    static const int64_t dim[] = {1, 3};
    struct st_writer *w;
    int64_t bytes;
    FILE *f = fopen(file, "w");
    assert_non_null(f);
    assert_int_equal(st_writer_create(&w, &err), 0);
    assert_int_equal(st_writer_add(w, "x_embedder.proj.bias", ST_F32, 2, dim, x, &err), 0);
    assert_int_equal(st_writer_add(w, name, ST_F32, 2, dim, x, &err), 0);
    assert_int_equal(st_writer_write(w, fileno(f), &bytes, &err), 0);
    st_writer_destroy(w);
    fclose(f);
}

/* Also by the function that run, plan, submit, doctor, sample and selftest open weights with. */
static void says(const char *what, const struct model_config *cfg, const char *words)
{
    struct weights_source *w;
    struct pretrained *p = NULL;
    err = (struct err){0};
    assert_int_equal(weights_source_open(&w, file, "transformer", &err), 0);
    const int rc = weights_config_check(w, cfg, &err);
    weights_source_close(w);
    if ((rc < 0) != (words != NULL) || (words && (!strstr(err.text, words) || !strstr(err.text, dir))))
        fail_msg("%s: %s; expected: %s", what, rc < 0 ? err.text : "accepted", words ? words : "accepted");
    if (!cfg)
        assert_int_equal(pretrained_open(&p, file, &err), rc);
    pretrained_close(p);
}

#define SANA "{\"_class_name\":\"SanaTransformer2DModel\",\"_diffusers_version\":\"0.33.0\","

static void a_configuration_is_computed_or_refused(void **state)
{
    static const struct {
        const char *config, *words;
    } rows[] = {
        /* as released */
        {SANA "\"in_channels\":32,\"out_channels\":32,\"num_attention_heads\":70,\"attention_head_dim\":32,"
              "\"num_layers\":20,\"num_cross_attention_heads\":20,\"cross_attention_head_dim\":112,"
              "\"cross_attention_dim\":2240,\"caption_channels\":2304,\"mlp_ratio\":2.5,\"dropout\":0.0,"
              "\"attention_bias\":false,\"sample_size\":32,\"patch_size\":1,\"norm_elementwise_affine\":false,"
              "\"norm_eps\":1e-06,\"interpolation_scale\":null,\"guidance_embeds\":false,"
              "\"guidance_embeds_scale\":0.1,\"qk_norm\":null,\"timestep_scale\":1.0}", NULL},
        {SANA "\"qk_norm\":\"rms_norm_across_heads\",\"timestep_scale\":1,\"dropout\":0}", NULL},
        {"{\"_class_name\":\"LuminaNextDiT2DModel\",\"sample_size\":128,\"patch_size\":2,\"in_channels\":4,"
         "\"hidden_size\":2304,\"num_layers\":24,\"num_attention_heads\":32,\"num_kv_heads\":8,\"multiple_of\":256,"
         "\"ffn_dim_multiplier\":null,\"norm_eps\":1e-05,\"learn_sigma\":true,\"qk_norm\":true,"
         "\"cross_attention_dim\":2048,\"scaling_factor\":1.0}", NULL},
        {"{\"model_type\":\"another program's\"}", NULL},

        {SANA "\"interpolation_scale\":1.0}",
         "config.json: interpolation_scale is 1.0: position embeddings, which the models of 2K and 4K pixels have, and "
         "jobctl does not support that; supported is null"},
        {SANA "\"interpolation_scale\":2.0}", "interpolation_scale is 2.0: position embeddings"},
        {SANA "\"guidance_embeds\":true}", "guidance_embeds is true: the guidance embedding of Sana-Sprint"},
        {SANA "\"timestep_scale\":1000.0}", "timestep_scale is 1000.0: the time scale of Sana-Sprint"},
        {SANA "\"dropout\":0.1}", "dropout is 0.1"},
        {SANA "\"attention_bias\":true}", "attention_bias is true"},
        {SANA "\"norm_elementwise_affine\":true}", "norm_elementwise_affine is true"},
        {SANA "\"norm_eps\":1e-05}", "norm_eps is"},
        {SANA "\"qk_norm\":\"layer_norm\"}", "qk_norm is \"layer_norm\""},
        {SANA "\"rope\":{\"theta\":1}}",
         "rope is {\"theta\":1}: jobctl does not know this key of SanaTransformer2DModel"},
        {"{\"_class_name\":\"LuminaNextDiT2DModel\",\"scaling_factor\":2.0}", "scaling_factor is 2.0"},
        {"{\"_class_name\":\"LuminaNextDiT2DModel\",\"interpolation_scale\":null}", "does not know this key"},
        {"{\"_class_name\":\"Lumina2Transformer2DModel\"}",
         "_class_name is Lumina2Transformer2DModel: Lumina-Image 2.0, which jobctl does not support; supported are "
         "SanaTransformer2DModel and LuminaNextDiT2DModel"},
        {"{\"_class_name\":\"SanaControlNetModel\"}", "a ControlNet of Sana"},
        {"{\"_class_name\":\"SanaVideoTransformer3DModel\"}", "Sana-Video"},
        {"{\"_class_name\":\"FluxTransformer2DModel\"}", "_class_name is FluxTransformer2DModel, which"},
        {"{\"interpolation_scale\":", "config.json:1:23: not JSON"},
        {"[]", "config.json: not a JSON object"},
    };
    (void)state;
    put_tensors("lm_head.weight", (const float[]){1, 2, 3});
    for (size_t i = 0; i < ROWS(rows); i++) {
        put_config(rows[i].config);
        says(rows[i].config, NULL, rows[i].words);
    }
    unlink(config);
}

static void heads_that_no_tensor_shows_are_those_of_the_spec(void **state)
{
    const struct model_config sana = {.linear_head_dim = 32, .heads = 20}, lumina = {.heads = 16};
    (void)state;
    put_tensors("lm_head.weight", (const float[]){1, 2, 3});
    put_config(SANA "\"attention_head_dim\":32,\"num_cross_attention_heads\":20}");
    says("the same", &sana, NULL);
    put_config(SANA "\"num_layers\":20}");
    says("left out", &sana, NULL);
    put_config(SANA "\"num_cross_attention_heads\":16}");
    says("heads", &sana, "config.json: num_cross_attention_heads is 16, the spec says model.heads: 20");
    put_config(SANA "\"attention_head_dim\":64}");
    says("size of a head", &sana, "attention_head_dim is 64, the spec says model.linear_head_dim: 32");
    put_config("{\"_class_name\":\"LuminaNextDiT2DModel\"}");
    says("heads of Lumina-Next", &lumina, "num_attention_heads is 32, the spec says model.heads: 16");
    unlink(config);
}

static void tensors_tell_too(void **state)
{
    static const struct {
        const char *name;
        float       x[3];
        const char *words;
    } rows[] = {
        {"pos_embed", {0, 0, 0}, NULL}, /* every .pth of the authors has it */
        {"pos_embed", {0, -0.0f, 0}, NULL},
        {"pos_embed", {0, 0, 1e-30f},
         "the tensor pos_embed is not zero: position embeddings, which the models of 2K and 4K pixels have"},
        {"patch_embed.pos_embed", {0, 1, 0}, "the tensor patch_embed.pos_embed is not zero"},
        {"cfg_embedder.mlp.0.bias", {0, 0, 0}, "cfg_embedder.mlp.0.bias is the guidance embedding of Sana-Sprint"},
        {"time_embed.guidance_embedder.linear_1.bias", {0, 0, 0}, "of Sana-Sprint"},
        {"logvar_linear.weight", {0, 0, 0}, "the variance of Sana-Sprint"},
        {"controlnet.0.after_proj.bias", {0, 0, 0}, "is a ControlNet"},
        {"controlnet_blocks.0.bias", {0, 0, 0}, "is a ControlNet"},
        {"blocks.0.mlp.t_conv.weight", {0, 0, 0}, "Sana-Video"},
        {"transformer_blocks.0.ff.conv_temp.weight", {0, 0, 0}, "Sana-Video"},
        {"noise_refiner.0.attention.qkv.weight", {0, 0, 0}, "Lumina-Image 2.0"},
        {"blocks.0.attn.qkv.weight", {1, 2, 3}, NULL},
    };
    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        put_tensors(rows[i].name, rows[i].x);
        says(rows[i].name, NULL, rows[i].words);
    }
}

static int make(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/test_weights_config.XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    snprintf(file, sizeof(file), "%s/a.safetensors", dir);
    snprintf(config, sizeof(config), "%s/config.json", dir);
    return 0;
}

static int clear(void **state)
{
    (void)state;
    unlink(file);
    return rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_configuration_is_computed_or_refused),
        cmocka_unit_test(heads_that_no_tensor_shows_are_those_of_the_spec),
        cmocka_unit_test(tensors_tell_too),
    };
    return cmocka_run_group_tests_name("weights_config", tests, make, clear);
}
