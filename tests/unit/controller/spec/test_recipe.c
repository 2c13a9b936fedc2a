/* SPDX-License-Identifier: Apache-2.0 */
/* test_recipe.c - the configurations of NVlabs/Sana give their hyper-parameters; what is not supported is refused
 *
 * The table has the values of the repository's own files, read at commits 28af99f and a720258; make_file() writes them
 * under the keys that those files have.
 */
#include <jansson.h>
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

#include "controller/base/diagnostics.h"
#include "controller/spec/jobspec.h"
#include "engine/base/err.h"
#include "engine/contract/train_spec.h"
#include "tests/unit/engine/contract/scratch_dir.h"

static char dir[256];

struct theirs {
    const char *file, *model;
    int         size, multi_scale, norms;
    double      shift;
    const char *optimizer, *betas, *eps;
    double      lr, decay;
    int         warmup, batch;
    /* what they mean here */
    const char *preset;
    double      rate, eps1, eps2;
};

static const struct theirs table[] = {
    {"512ms/Sana_600M_img512", "SanaMS_600M_P1_D28", 512, 1, 0, 3, "CAMEWrapper", "[0.9, 0.999, 0.9999]",
     "[1.0e-30, 1.0e-16]", 1e-4, 0, 2000, 128, "sana-600m", 7.0710678118654752e-05, 1e-30, 1e-16},
    {"512ms/sample_dataset", "SanaMS_600M_P1_D28", 512, 0, 0, 1, "CAMEWrapper", "[0.9, 0.999, 0.9999]",
     "[1.0e-30, 1.0e-16]", 1e-4, 0, 2000, 128, "sana-600m", 7.0710678118654752e-05, 1e-30, 1e-16},
    {"1024ms/Sana_600M_img1024", "SanaMS_600M_P1_D28", 1024, 1, 0, 4, "CAMEWrapper", "[0.9, 0.999, 0.9999]",
     "[1.0e-30, 1.0e-16]", 1e-4, 0, 2000, 64, "sana-600m", 5e-5, 1e-30, 1e-16},
    {"1024ms/Sana_1600M_img1024", "SanaMS_1600M_P1_D20", 1024, 1, 0, 3, "CAMEWrapper", "[0.9, 0.999, 0.9999]",
     "[1.0e-30, 1.0e-16]", 1e-4, 0, 2000, 64, "sana-1600m", 5e-5, 1e-30, 1e-16},
    {"1024ms/Sana_1600M_img1024_AdamW", "SanaMS_1600M_P1_D20", 1024, 1, 0, 3, "AdamW", "[0.9, 0.999]", "1.0e-8", 1e-4,
     0.01, 2000, 64, "sana-1600m", 5e-5, 1e-8, 1e-16},
    {"sana1-5/Sana_1600M_1024px_allqknorm", "SanaMS_1600M_P1_D20", 1024, 1, 1, 3, "CAMEWrapper", "[0.9, 0.999, 0.9999]",
     "[1.0e-30, 1.0e-16]", 2e-5, 0, 2000, 2, "sana-1600m", 1.7677669529663689e-06, 1e-30, 1e-16},
    {"sana1-5/Sana_1600M_1024px_AdamW_fsdp", "SanaMS_1600M_P1_D20", 1024, 1, 1, 3, "AdamW", "[0.9, 0.999]", "1.0e-10",
     2e-5, 0, 1000, 32, "sana-1600m", 7.0710678118654757e-06, 1e-10, 1e-16},
};

static const char *truth(int on)
{
    return on ? "true" : "false";
}

static void make_file(const struct theirs *t, const char *more)
{
    char path[300];
    snprintf(path, sizeof(path), "%s/theirs.yaml", dir);
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    fprintf(f, "data: {data_dir: [x], image_size: %d, caption_proportion: {prompt: 1}, type: SanaWebDatasetMS}\n",
            t->size);
    fprintf(f, "model:\n  {model: %s, image_size: %d, mixed_precision: fp16, fp32_attention: true, load_from: ,\n"
            "   aspect_ratio_type: ASPECT_RATIO_%d, multi_scale: %s, attn_type: linear, ffn_type: glumbconv,\n"
            "   mlp_acts: [silu, silu, null], mlp_ratio: 2.5, use_pe: false, qk_norm: %s, cross_norm: %s,\n"
            "   class_dropout_prob: 0.1}\n", t->model, t->size, t->size, truth(t->multi_scale), truth(t->norms),
            truth(t->norms));
    fprintf(f, "text_encoder: {text_encoder_name: gemma-2-2b-it, y_norm: true, y_norm_scale_factor: 0.01,\n"
            "  model_max_length: 200, chi_prompt: ['Given a user prompt', 'User Prompt: ']}\n");
    fprintf(f, "scheduler: {predict_flow_v: true, noise_schedule: linear_flow, pred_sigma: false, flow_shift: %g,\n"
            "  weighting_scheme: logit_normal, logit_mean: 0.0, logit_std: 1.0, vis_sampler: flow_dpm-solver}\n", t->shift);
    fprintf(f, "train:\n  seed: 1\n  train_batch_size: %d\n  gradient_accumulation_steps: 1\n  grad_checkpointing: true\n"
            "  gradient_clip: 0.1\n  optimizer: {type: %s, betas: %s, eps: %s, lr: %g, weight_decay: %g}\n"
            "  lr_schedule: constant\n  lr_schedule_args: {num_warmup_steps: %d}\n  num_epochs: 100\n%s\n", t->batch,
            t->optimizer, t->betas, t->eps, t->lr, t->decay, t->warmup, more);
    fclose(f);
}

static const char *data = "path: ., encoders: features"; /* of the job */

/* The spec of a job that names it; NULL: `say` gets the first mistake. */
static json_t *read_job(const char *more, char say[600])
{
    char text[600];
    json_t *spec;
    struct diagnostics found;
    struct err err = {0};
    snprintf(text, sizeof(text), "train:\n  config: theirs.yaml\n  data: {%s}\n  steps: 9000\n%s", data, more);
    if (jobspec_parse(&spec, text, "job.yaml", dir, NULL, 0, &found, &err) < 0) {
        snprintf(say, 600, "%s", err.text);
        return NULL;
    }
    return spec;
}

static void fill(struct train_spec *s, const char *more)
{
    char say[600];
    json_t *spec = read_job(more, say);
    if (!spec)
        fail_msg("%s", say);
    struct err err = {0};
    if (train_spec_parse(s, spec, &err) < 0)
        fail_msg("%s", err.text);
    json_decref(spec);
}

static void near(double a, double b)
{
    if (!(fabs(a - b) <= 1e-12 * fabs(b)))
        fail_msg("%.17g is not %.17g", a, b);
}

static void the_repositorys_files_mean_the_same(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
        const struct theirs *t = &table[i];
        struct train_spec s;
        make_file(t, "");
        fill(&s, "");
        assert_int_equal(s.model.depth, strstr(t->model, "D28") ? 28 : 20);
        assert_int_equal(s.model.qk_norm, t->norms);
        assert_int_equal(s.model.cross_norm, t->norms);
        assert_int_equal(s.multi_scale, t->multi_scale);
        assert_int_equal(s.resolution, t->size);
        assert_int_equal(s.optim.type, strcmp(t->optimizer, "AdamW") == 0 ? OPTIM_ADAMW : OPTIM_CAME);
        near(s.schedule.lr, t->rate);
        near(s.optim.eps[0], t->eps1);
        near(s.optim.eps[1], t->eps2);
        near(s.optim.weight_decay, t->decay);
        near(s.optim.clip, 0.1);
        near(s.optim.ema, 0);
        near(s.flow_shift, t->shift);
        near(s.logit_std, 1);
        near((double)s.model.caption_dropout, (double)0.1f);
        assert_int_equal(s.schedule.warmup, t->warmup);
        assert_int_equal(s.batch_global, t->batch);
        assert_int_equal(s.recompute, RECOMPUTE_ON);
    }
}

static void the_jobs_own_keys_win(void **state)
{
    struct train_spec s;
    (void)state;
    make_file(&table[0], "  ema_update: true\n  ema_rate: 0.999\n  use_fsdp: true");
    fill(&s, "  batch: {global: 1024}\n  flow: {shift: 2}\n");
    near(s.schedule.lr, 2e-4);
    near(s.flow_shift, 2);
    near(s.optim.ema, 0.999);
    assert_int_equal(s.parallel, PARALLEL_FSDP);
    assert_int_equal(s.batch_global, 1024);
    fill(&s, "  optimizer: {lr: 3.0e-4}\n");
    near(s.schedule.lr, 3e-4);
    near(s.optim.clip, 0.1);
}

static void refused(const struct theirs *t, const char *more, const char *why)
{
    char say[600];
    make_file(t, more);
    json_t *spec = read_job("", say);
    if (spec)
        fail_msg("accepted; expected: %s", why);
    if (!strstr(say, why))
        fail_msg("%s", say);
}

static void others_are_refused_by_name(void **state)
{
    struct theirs t = table[0];
    (void)state;
    t.optimizer = "CAME8BitWrapper";
    refused(&t, "", "train.optimizer.type: 8-bit state is not supported");
    t = table[0];
    t.model = "SanaMS_600M_P1_D28, pe_interpolation: 1.0, cfg_embed: true";
    refused(&t, "", "model.cfg_embed: \"true\" is not supported: it would be the guidance embedding of Sana-Sprint; the "
                    "engine computes: false");
    t.model = "SanaMS_600M_P1_D28, timestep_norm_scale_factor: 1000.0";
    refused(&t, "", "model.timestep_norm_scale_factor: \"1000.0\" is not supported: it would be the time scale of");
    t.model = "SanaMSControlNet_600M_P1_D28";
    refused(&t, "", "model.model: supported are SanaMS_600M_P1_D28");
    refused(&table[0], "  skip_step: 7", "train.skip_step: jobctl does not know this key of NVlabs/Sana");
    refused(&table[0], "  auto_lr: {rule: linear}", "train.auto_lr.rule: \"linear\" is not supported; the engine computes: "
                                                    "sqrt");
    refused(&table[0], "\tx", "train.config: theirs.yaml:");
}

static void captions_that_the_job_encodes_need_their_instruction(void **state)
{
    struct train_spec s;
    (void)state;
    data = "path: ., encoders: sana, vae: ., text_encoder: .";
    refused(&table[0], "", "text_encoder.chi_prompt: the instruction is read from a file");
    data = "path: ., encoders: sana, vae: ., text_encoder: ., instruction: theirs.yaml";
    fill(&s, "");
    assert_int_equal(s.encode.text_rows, 200);
    assert_non_null(strstr(s.encode.instruction, "/theirs.yaml"));
    data = "path: ., encoders: sana, vae: ., text_encoder: ., instruction: theirs.yaml, text_rows: 100";
    fill(&s, "");
    assert_int_equal(s.encode.text_rows, 100);
    data = "path: ., encoders: features";
}

static int make(void **state)
{
    (void)state;
    scratch_dir_create(dir, sizeof(dir), "recipe");
    return 0;
}

static int clear(void **state)
{
    char path[300];
    (void)state;
    snprintf(path, sizeof(path), "%s/theirs.yaml", dir);
    unlink(path);
    return rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_repositorys_files_mean_the_same),
        cmocka_unit_test(the_jobs_own_keys_win),
        cmocka_unit_test(others_are_refused_by_name),
        cmocka_unit_test(captions_that_the_job_encodes_need_their_instruction),
    };
    return cmocka_run_group_tests(tests, make, clear);
}
