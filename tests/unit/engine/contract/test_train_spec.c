/* SPDX-License-Identifier: Apache-2.0 */
/* test_train_spec.c - the table of keys is consistent; JSON becomes a struct or an error */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "engine/base/err.h"
#include "engine/contract/train_spec.h"

static void every_row_is_consistent(void **state)
{
    (void)state;
    int rows = 0;
    for (const struct spec_field *f = train_spec_fields(); f->path; f++, rows++) {
        assert_non_null(f->help);
        if (f->type == FIELD_INT || f->type == FIELD_NUMBER || f->type == FIELD_NUMBERS)
            assert_true(f->min < f->max);
        assert_int_equal(f->type == FIELD_ENUM || f->type == FIELD_NUMBERS, f->choices != NULL);
        if (f->def) {
            json_t *v = json_loads(f->def, JSON_DECODE_ANY, NULL);
            assert_non_null(v);
            json_decref(v);
        }
        const char *dot = strrchr(f->path, '.');
        if (dot) { /* the row of its map comes before it */
            int found = 0;
            for (const struct spec_field *g = train_spec_fields(); g < f; g++)
                found += g->type == FIELD_MAP && strlen(g->path) == (size_t)(dot - f->path) &&
                         memcmp(g->path, f->path, (size_t)(dot - f->path)) == 0;
            assert_int_equal(found, 1);
        }
    }
    assert_true(rows > 40);
}

static int parse(struct train_spec *s, const char *text, struct err *err)
{
    json_t *job = json_loads(text, 0, NULL);
    assert_non_null(job);
    int rc = train_spec_parse(s, job, err);
    json_decref(job);
    return rc;
}

static void the_shortest_spec_gets_every_default(void **state)
{
    (void)state;
    struct train_spec s;
    struct err err = {0};
    assert_int_equal(parse(&s, "{\"train\":{\"data\":{\"path\":\"/d\"},\"steps\":7}}", &err), 0);
    assert_string_equal(s.data_path, "/d");
    assert_int_equal(s.steps, 7);
    assert_int_equal(s.model.depth, 2);
    assert_int_equal(s.model.hidden, 64);
    assert_int_equal(s.model.mlp_hidden, 160);
    assert_int_equal(s.model.latent_channels, 48);
    assert_int_equal(s.batch_global, 16);
    assert_int_equal(s.batch_micro, 16);
    assert_true(s.optim.beta[1] == 0.999 && s.optim.eps[0] == 1e-8);
    assert_int_equal(s.checkpoint_every_steps, 500);
    assert_int_equal(s.checkpoint_keep, 3);
    assert_string_equal(s.checkpoint_dir, "");
    assert_string_equal(s.resume, "latest");
    assert_true(s.sample_after && !s.sample_before);
}

static void keys_override_a_preset(void **state)
{
    (void)state;
    struct train_spec s;
    struct err err = {0};
    assert_int_equal(parse(&s,
                           "{\"train\":{\"data\":{\"path\":\"/d\",\"encoders\":\"features\"},"
                           "\"steps\":7,\"model\":{\"preset\":\"sana-600m\",\"depth\":3,"
                           "\"hidden\":\"auto\",\"weights\":\"/w\"},\"optimizer\":{\"type\":\"came\"},"
                           "\"schedule\":{\"type\":\"cosine\",\"warmup\":2}},"
                           "\"checkpoint\":{\"every\":{\"seconds\":30},\"keep\":2,\"dir\":\"/c\"},"
                           "\"resume\":\"none\"}",
                           &err),
                     0);
    assert_int_equal(s.model.depth, 3);
    assert_int_equal(s.model.hidden, 1152);
    assert_int_equal(s.model.mlp_hidden, 2880);
    assert_int_equal(s.model.latent_channels, 0);
    assert_int_equal(s.optim.type, OPTIM_CAME);
    assert_true(s.optim.beta[2] == 0.9999 && s.optim.eps[0] == 1e-30);
    assert_int_equal(s.schedule.type, SCHEDULE_COSINE);
    assert_int_equal(s.checkpoint_every_steps, 0);
    assert_true(s.checkpoint_every_s == 30);
    assert_string_equal(s.checkpoint_dir, "/c");
    assert_string_equal(s.resume, "none");
    assert_string_equal(s.weights, "/w");
    assert_true(s.weights_strict);
    assert_false(s.sample_after);
}

static const struct wrong {
    const char *train; /* added to a block with a good data.path and steps */
    const char *says;  /* how the sentence begins */
} wrongs[] = {
    {"\"stepz\":1", "train.stepz: unknown key"},
    {"\"model\":{\"hiden\":1}", "train.model.hiden: unknown key"},
    {"\"model\":7", "train.model: expected a map"},
    {"\"model\":{\"hidden\":\"big\"}", "train.model.hidden: expected a whole number or auto"},
    {"\"model\":{\"hidden\":1.5}", "train.model.hidden: expected a whole number"},
    {"\"model\":{\"hidden\":0}", "train.model.hidden: 0 is out of range"},
    {"\"model\":{\"hidden\":96,\"heads\":5}", "train.model.heads: 5 does not divide"},
    {"\"model\":{\"hidden\":80,\"heads\":5}", "train.model.linear_head_dim: 32 does not divide"},
    {"\"model\":{\"preset\":\"huge\"}", "train.model.preset: expected one of tiny|"},
    {"\"model\":{\"family\":\"lumina\"}", "train.model.family: preset tiny belongs to the family sana"},
    {"\"model\":{\"preset\":\"lumina-tiny\",\"kv_heads\":3}", "train.model.kv_heads: 3 does not divide"},
    {"\"model\":{\"preset\":\"lumina-tiny\",\"heads\":32}", "train.model.heads: 32 heads with model.hidden 64"},
    {"\"lora\":{\"alpha\":1}", "train.lora.rank: missing"},
    {"\"lora\":{\"rank\":4}", "train.lora: train.model.weights is missing"},
    {"\"lora\":{\"rank\":4,\"targets\":[]}", "train.lora.targets: empty"},
    {"\"lora\":{\"rank\":4,\"targets\":[7]}", "train.lora.targets: entry 1 is not text"},
    {"\"lora\":{\"rank\":4,\"targets\":[\"to_x\"]}", "train.lora.targets: no layer ends with to_x"},
    {"\"lora\":{\"rank\":4},\"model\":{\"preset\":\"lumina-tiny\",\"weights\":\"/w\"}",
     "train.lora: not supported for Lumina-Next"},
    {"\"config\":\"x.yaml\"", "train.config: jobctl submit reads this file"},
    {"\"parallel\":\"zero3\"", "train.parallel: "},
    {"\"precision\":\"fp8\"", "train.precision: expected one of fp32|bf16|auto"},
    {"\"caption_dropout\":1.5", "train.caption_dropout: 1.5 is out of range"},
    {"\"caption_dropout\":0,\"sample\":{\"cfg\":3}", "train.sample.cfg: guidance needs"},
    {"\"sample\":{\"before\":1}", "train.sample.before: expected true or false"},
    {"\"validate\":{\"steps\":3}", "train.validate.prompts: missing; name texts to draw"},
    {"\"validate\":{\"prompts\":[]}", "train.validate.prompts: missing; name texts to draw"},
    {"\"validate\":{\"prompts\":[1]}", "train.validate.prompts: entry 1 is not text"},
    {"\"validate\":{\"prompts\":[\"x\"],\"every\":{\"seconds\":3}}", "train.validate.every: expected steps"},
    {"\"validate\":{\"prompts\":[\"x\"],\"every\":{\"steps\":0}}", "train.validate.every: expected steps"},
    {"\"validate\":{\"prompts\":[\"x\"]},\"caption_dropout\":0", "train.validate.guidance: needs caption_dropout"},
    {"\"optimizer\":{\"betas\":[0.9]}", "train.optimizer.betas: expected a list of 2-3"},
    {"\"optimizer\":{\"betas\":[0.9,\"x\"]}", "train.optimizer.betas: entry 2 is not"},
    {"\"optimizer\":{\"betas\":[0.9,1]}", "train.optimizer.betas: each must be below 1"},
    {"\"optimizer\":{\"betas\":[0.9,0.9,0.9]}", "train.optimizer.betas: adamw takes 2"},
    {"\"batch\":{\"global\":4,\"micro\":8}", "train.batch.micro: 8 is more than"},
    {"\"schedule\":{\"warmup\":8}", "train.schedule.warmup: 8 steps are more"},
};

static void an_error_begins_with_its_key(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(wrongs) / sizeof(wrongs[0]); i++) {
        char text[512];
        snprintf(text, sizeof(text), "{\"train\":{\"data\":{\"path\":\"/d\"},\"steps\":7,%s}}", wrongs[i].train);
        struct train_spec s = {.steps = 42};
        struct err err = {0};
        assert_int_equal(parse(&s, text, &err), -1);
        if (strncmp(err.text, wrongs[i].says, strlen(wrongs[i].says)) != 0)
            fail_msg("%s\n  gave:     %s\n  expected: %s", wrongs[i].train, err.text, wrongs[i].says);
        assert_int_equal(err.code, ERR_USAGE);
        assert_int_equal(s.steps, 42);
    }
}

static void a_missing_required_key_is_an_error(void **state)
{
    (void)state;
    static const char *const texts[][2] = {
        {"{}", "train: missing"},
        {"{\"train\":null}", "train: missing"},
        {"{\"train\":{\"steps\":1}}", "train.data.path: missing"},
        {"{\"train\":{\"steps\":1,\"data\":{\"encoders\":\"synthetic\"}}}",
         "train.data.resolution: required for synthetic samples; a multiple of 32 (32 x"},
        {"{\"train\":{\"steps\":1,\"data\":{\"encoders\":\"synthetic\",\"path\":\"x\"}}}",
         "train.data.path: synthetic samples have one size and no path"},
        {"{\"train\":{\"data\":{\"path\":\"/d\"}}}", "train.steps: missing"},
        {"{\"train\":{\"data\":{\"path\":\"/d\",\"resolution\":30},\"steps\":1}}",
         "train.data.resolution: 30 is not a multiple of 4"},
        {"{\"train\":{\"data\":{\"path\":\"/d\",\"multi_scale\":true},\"steps\":1}}",
         "train.data.multi_scale: needs data.resolution"},
        {"{\"train\":{\"data\":{\"path\":\"/d\",\"encoders\":\"features\"},\"steps\":1,"
         "\"sample\":{\"after\":true}}}",
         "train.sample.after: latents of other programs cannot be decoded to pictures"},
        {"{\"train\":{\"data\":{\"path\":\"/d\",\"vae\":\"/v\"},\"steps\":1}}",
         "train.data.vae: only with data.encoders: sana or lumina"},
        {"{\"train\":{\"data\":{\"path\":\"/d\",\"encoders\":\"features\",\"cache\":\"/c\"},\"steps\":1}}",
         "train.data.cache: only with data.encoders: sana or lumina"},
        {"{\"train\":{\"data\":{\"path\":\"/d\"},\"steps\":1},\"checkpoint\":{\"every\":5}}",
         "checkpoint.every: expected"},
        {"{\"train\":{\"data\":{\"path\":\"/d\"},\"steps\":1},\"checkpoint\":{\"keep\":0}}",
         "checkpoint.keep: expected"},
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct train_spec s;
        struct err err = {0};
        assert_int_equal(parse(&s, texts[i][0], &err), -1);
        if (strncmp(err.text, texts[i][1], strlen(texts[i][1])) != 0)
            fail_msg("%s\n  gave:     %s\n  expected: %s", texts[i][0], err.text, texts[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_is_consistent),
        cmocka_unit_test(the_shortest_spec_gets_every_default),
        cmocka_unit_test(keys_override_a_preset),
        cmocka_unit_test(an_error_begins_with_its_key),
        cmocka_unit_test(a_missing_required_key_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
