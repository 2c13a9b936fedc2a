/* SPDX-License-Identifier: Apache-2.0 */
/* test_fit.c - each row is a machine's memory and a spec: the chosen micro-batch, and why */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "engine/base/err.h"
#include "engine/contract/lora_config.h"
#include "engine/contract/train_spec.h"
#include "engine/model/device_memory.h"
#include "engine/optim/fit_advice.h"
#include "engine/optim/fit_shape.h"

#define EXCHANGE_SLACK ((int64_t)9 << 20) /* more than buffers of ranks on the CPU */
#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

static const struct model_config config = {
    .depth = 8, .hidden = 64, .heads = 2, .linear_head_dim = 8, .patch = 1, .mlp_hidden = 160,
    .qk_norm = true, .y_norm = true, .y_norm_scale = 0.3f, .y_norm_eps = 1e-5f,
    .latent_channels = 3, .caption_channels = 6, .caption_len = 5, .caption_dropout = 0.1f};
static const struct optim_config adamw = {OPTIM_ADAMW, {0.9, 0.999, 0}, {1e-8, 0}, 0.01, 1, 1, 0};

/* Bytes that must be free so that micro-batches of `micro` are planned to the limit. */
static int64_t room_for(int micro, bool again)
{
    const struct memory_ask ask = {.model = config, .limits = {micro, 8, 8, 5, again},
                                   .optim = adamw, .ranks = 1};
    struct memory_plan p;
    assert_int_equal(memory_plan(&p, &ask, NULL), 0);
    return (p.total / FIT_PERCENT + 1) * 100;
}

static const struct row {
    const char *what;
    int         global, micro;         /* micro 0: auto */
    enum recompute again;
    bool        reproducible;
    int         ranks;
    int         room_micro;            /* there is room for this micro-batch; 0 = less than for 1,
                                          -1 = unknown */
    bool        room_again;            /* ... if blocks are computed again */
    int         most;                  /* it was too much before */
    int         want;
    bool        want_again, want_fits;
    const char *why, *why_again;
} rows[] = {
    {"everything fits", 16, 0, RECOMPUTE_AUTO, false, 1, 16, false, 0, 16, false, true,
     "a rank's whole share of the step", "the batch fits without it"},
    {"in equal parts", 100, 0, RECOMPUTE_AUTO, false, 1, 45, false, 0, 34, false, true,
     "the most that fits into 85 %", "the batch fits without it"},
    {"one at a time", 16, 0, RECOMPUTE_AUTO, false, 1, 1, false, 0, 1, false, true,
     "the most that fits", "the batch fits without it"},
    {"not even one without", 16, 0, RECOMPUTE_AUTO, false, 1, 1, true, 0, 1, true, true,
     "the most that fits", "without it one sample does not fit"},
    {"never, says the spec", 16, 0, RECOMPUTE_OFF, false, 1, 1, true, 0, 1, false, false,
     "does not fit", "set by train.grad_checkpointing"},
    {"always, says the spec", 16, 0, RECOMPUTE_ON, false, 1, 4, true, 0, 4, true, true,
     "the most that fits", "set by train.grad_checkpointing"},
    {"nothing fits", 16, 0, RECOMPUTE_AUTO, false, 1, 0, false, 0, 1, true, false, "does not fit",
     "one sample does not fit"},
    {"a given one fits", 16, 4, RECOMPUTE_AUTO, false, 1, 4, false, 0, 4, false, true,
     "set by train.batch.micro", "the batch fits without it"},
    {"a given one fits again", 16, 4, RECOMPUTE_AUTO, false, 1, 4, true, 0, 4, true, true,
     "set by train.batch.micro", "without it the micro-batch does not fit"},
    {"a given one does not", 16, 16, RECOMPUTE_AUTO, false, 1, 1, false, 0, 16, false, false,
     "does not fit", "the batch does not fit with it either"},
    {"a rank's share", 16, 0, RECOMPUTE_AUTO, false, 3, -1, false, 0, 6, false, true,
     "a rank's whole share", "the batch fits without it"},
    {"a given one of a rank", 16, 8, RECOMPUTE_AUTO, false, 4, -1, false, 0, 4, false, true,
     "set by train.batch.micro, limited to a rank's share", "the batch fits without it"},
    {"reproducible", 16, 0, RECOMPUTE_AUTO, true, 4, -1, false, 0, 2, false, true,
     "an eighth of the batch", "the batch fits without it"},
    {"unknown room", 16, 0, RECOMPUTE_AUTO, false, 1, -1, false, 0, 16, false, true,
     "a rank's whole share", "the batch fits without it"},
    {"it was too much", 16, 0, RECOMPUTE_AUTO, false, 1, 16, false, 4, 4, false, true,
     "the run ran out of memory with larger ones", "the batch fits without it"},
    {"a given one was too much", 16, 8, RECOMPUTE_AUTO, false, 1, 16, false, 4, 4, false, true,
     "the run ran out of memory with larger ones", "the batch fits without it"},
};

static void each_row(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const struct row *r = &rows[i];
        const struct train_spec spec = {
            .model = config, .optim = adamw, .batch_global = r->global,
            .batch_micro = r->micro ? r->micro : r->reproducible ? r->global / 8 : r->global,
            .micro_auto = r->micro == 0, .recompute = r->again, .reproducible = r->reproducible};
        const int64_t room = r->room_micro < 0 ? 0
                             : r->room_micro   ? room_for(r->room_micro, r->room_again)
                                               : 1000;
        const struct fit_ask ask = {.spec = &spec, .height = 8, .width = 8, .text = 5,
                                    .ranks = r->ranks, .room = {room, room},
                                    .micro_most = r->most};
        struct fit f;
        struct err err = {0};
        if (fit_choose(&f, &ask, &err) < 0)
            fail_msg("%s: %s", r->what, err.text);
        if (f.micro != r->want || f.recompute != r->want_again || f.fits != r->want_fits ||
            !strstr(f.micro_why, r->why) || !strstr(f.recompute_why, r->why_again))
            fail_msg("%s: micro %d (%s), again %d (%s), fits %d", r->what, f.micro, f.micro_why,
                     f.recompute, f.recompute_why, f.fits);
        assert_true((f.plan.again > 0.2) == r->want_again);
        assert_int_equal(f.most, strcmp(r->what, "a given one does not") == 0 ? 1 : 0);
        if (f.fits && f.budget > 0)
            assert_true(f.plan.total <= f.budget && f.budget <= room);
    }
}

/* One sample at a time was too much: its blocks are computed again, room or not. */
static void after_one_sample_was_too_much(void **state)
{
    (void)state;
    struct train_spec spec = {.model = config, .optim = adamw, .batch_global = 4, .batch_micro = 4,
                              .micro_auto = true};
    const struct fit_ask ask = {.spec = &spec, .height = 8, .width = 8, .text = 5, .ranks = 1,
                                .room = {1 << 30, 1 << 30}, .micro_most = 1, .recompute = true};
    struct fit f;
    assert_int_equal(fit_choose(&f, &ask, NULL), 0);
    assert_true(f.micro == 1 && f.recompute && strstr(f.recompute_why, "one sample at a time"));
    spec.recompute = RECOMPUTE_OFF;
    assert_int_equal(fit_choose(&f, &ask, NULL), 0);
    assert_false(f.recompute);
}

/* Bytes that must be free for four ranks that share the state so. */
static int64_t room_to_share(enum sharing how)
{
    const struct memory_ask ask = {.model = config, .limits = {4, 8, 8, 5}, .optim = adamw,
                                   .ranks = 4, .sharing = how};
    struct memory_plan p;
    assert_int_equal(memory_plan(&p, &ask, NULL), 0);
    return (p.total / FIT_PERCENT + 1) * 100 * 4;
}

/* parallel: auto shares no more than it must, and says why; a word of the spec stands. */
static void the_state_is_shared_as_far_as_it_must(void **state)
{
    (void)state;
    const int64_t all = room_to_share(SHARING_DDP), some = room_to_share(SHARING_ZERO1),
                  least = room_to_share(SHARING_FSDP);
    const struct {
        enum parallel said;
        int64_t       room;
        int           ranks;
        bool          device;
        enum sharing  want;
        bool          fits;
        const char   *why;
    } cases[] = {
        {PARALLEL_AUTO, all, 4, false, SHARING_DDP, true, "each rank has memory for everything"},
        {PARALLEL_AUTO, all - 1000, 4, false, SHARING_ZERO1, true, "ddp needs"},
        {PARALLEL_AUTO, some, 4, false, SHARING_ZERO1, true, "ddp needs"},
        {PARALLEL_AUTO, some - 1000, 4, false, SHARING_FSDP, true, "ddp needs"},
        {PARALLEL_AUTO, least, 4, false, SHARING_FSDP, true, "ddp needs"},
        {PARALLEL_AUTO, least - 1000, 4, false, SHARING_FSDP, false, "ddp needs"},
        {PARALLEL_AUTO, least, 1, false, SHARING_DDP, true, "one rank"},
        {PARALLEL_AUTO, 1000, 4, true, SHARING_FSDP, false, "ddp needs"},
        {PARALLEL_AUTO, 1 << 30, 4, true, SHARING_DDP, true, "each rank has memory for everything"},
        {PARALLEL_AUTO, 0, 4, false, SHARING_DDP, true, "not known"},
        {PARALLEL_FSDP, all, 4, false, SHARING_FSDP, true, "set by train.parallel"},
        {PARALLEL_DDP, least, 4, false, SHARING_DDP, false, "set by train.parallel"},
    };
    assert_true(all > some + 1000 && some > least + 1000);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const struct train_spec spec = {.model = config, .optim = adamw, .batch_global = 16,
                                        .batch_micro = 4, .recompute = RECOMPUTE_OFF,
                                        .parallel = cases[i].said};
        const struct fit_ask ask = {.spec = &spec, .height = 8, .width = 8, .text = 5,
                                    .ranks = cases[i].ranks, .device = cases[i].device,
                                    .room = {cases[i].room, cases[i].room}};
        struct fit f;
        assert_int_equal(fit_choose_sharing(&f, &ask, NULL), 0);
        if (f.sharing != cases[i].want || f.fits != cases[i].fits ||
            !strstr(f.sharing_why, cases[i].why))
            fail_msg("case %zu: %s (%s), fits %d", i, fit_sharing_name(f.sharing), f.sharing_why, f.fits);
    }
}

/* A run of many sizes that ran out of memory: no more pixels than that of any, so that the smallest
 * says how many samples there are at once. */
static void after_some_pixels_were_too_much(void **state)
{
    (void)state;
    const struct train_spec spec = {.model = config, .optim = adamw, .batch_global = 8,
                                    .batch_micro = 8, .recompute = RECOMPUTE_OFF};
    struct fit_ask ask = {.spec = &spec, .height = 8, .width = 8, .text = 5, .ranks = 1,
                          .room = {1 << 30, 1 << 30}};
    struct fit whole, f;
    assert_int_equal(fit_choose(&whole, &ask, NULL), 0);
    ask.pixels_most = 3 * 64;
    ask.pixels_least = 48;
    assert_int_equal(fit_choose(&f, &ask, NULL), 0);
    assert_int_equal(f.micro, 4);
    assert_string_equal(f.micro_why, "the run ran out of memory with larger ones");
    assert_int_equal(model_limits_pixels(&f.plan.limits), 3 * 64);
    assert_true(f.plan.total < whole.plan.total);
    ask.pixels_least = 4; /* very small ones: as many as ever, in the same memory */
    assert_int_equal(fit_choose(&f, &ask, NULL), 0);
    assert_int_equal(f.micro, 8);
    assert_string_equal(f.micro_why, "set by train.batch.micro");
    assert_int_equal(model_limits_pixels(&f.plan.limits), 3 * 64);
}

/* Whose micro-batches are the same on any number of ranks; on GPUs not together with fsdp. */
static void a_reproducible_run(void **state)
{
    (void)state;
    struct train_spec spec = {.model = config, .optim = adamw, .batch_global = 16, .batch_micro = 4,
                              .recompute = RECOMPUTE_OFF, .parallel = PARALLEL_FSDP};
    struct fit_ask ask = {.spec = &spec, .height = 8, .width = 8, .text = 5, .ranks = 8};
    struct fit f;
    struct err err = {0};
    assert_int_equal(fit_choose_sharing(&f, &ask, &err), 0);
    assert_int_equal(f.micro, 2);
    spec.reproducible = true;
    assert_int_equal(fit_choose_sharing(&f, &ask, &err), 0);
    assert_int_equal(f.micro, 4);
    ask.device = true;
    spec.parallel = PARALLEL_AUTO;
    ask.room = (struct device_memory){1000, 1000};
    assert_int_equal(fit_choose_sharing(&f, &ask, NULL), 0);
    assert_int_equal(f.sharing, SHARING_FSDP);
}

/* Pictures take what the batch leaves: the micro-batch is that with one picture at a time. */
static void pictures_do_not_shrink_the_batch(void **state)
{
    (void)state;
    json_t *prompts = json_loads("[\"1\",\"2\",\"3\",\"4\",\"5\",\"6\",\"7\",\"8\"]", 0, NULL);
    struct train_spec spec = {.model = config, .optim = adamw, .batch_global = 16, .batch_micro = 16,
                              .micro_auto = true, .recompute = RECOMPUTE_OFF, .validate = {.prompts = prompts}};
    struct memory_ask one = {.model = config, .limits = {8, 8, 8, 5, false}, .optim = adamw, .ranks = 1, .pictures = 1};
    struct memory_plan p;
    assert_int_equal(memory_plan(&p, &one, NULL), 0);
    struct fit_ask ask = {.spec = &spec, .height = 8, .width = 8, .text = 5, .ranks = 1};
    ask.room.free = (p.total / FIT_PERCENT + 1) * 100;
    struct fit f;
    assert_int_equal(fit_choose(&f, &ask, NULL), 0);
    assert_int_equal(f.micro, 8);
    assert_int_equal(f.pictures, 1);
    assert_int_equal(f.plan.total, p.total);
    one.pictures = 4; /* eight do not fit */
    assert_int_equal(memory_plan(&p, &one, NULL), 0);
    spec.batch_micro = spec.batch_global = 8;
    ask.room.free = (p.total / FIT_PERCENT + 1) * 100;
    assert_int_equal(fit_choose(&f, &ask, NULL), 0);
    assert_int_equal(f.micro, 8);
    assert_int_equal(f.pictures, 4);
    ask.room.free = 1 << 30;
    assert_int_equal(fit_choose(&f, &ask, NULL), 0);
    assert_int_equal(f.pictures, 8);
    ask.height = ask.width = 48; /* 2,304 pixels: one by one */
    assert_int_equal(fit_choose(&f, &ask, NULL), 0);
    assert_int_equal(f.pictures, 1);
    json_decref(prompts);
}

/* The first changes that make it fit, from the nearest on, and what is planned with them. */
static void what_would_fit(void **state)
{
    (void)state;
    struct train_spec spec = {.model = config, .optim = adamw, .batch_global = 8, .batch_micro = 8,
                              .recompute = RECOMPUTE_OFF, .parallel = PARALLEL_DDP};
    struct fit_ask ask = {.spec = &spec, .height = 8, .width = 8, .text = 5, .ranks = 1};
    struct fit_advice out[FIT_ADVICE];
    int64_t least;
    ask.room.free = room_for(2, false);
    const int n = fit_advise(out, &least, &ask, NULL);
    assert_true(n >= 1);
    assert_string_equal(out[0].change, "train.batch.micro: auto");
    for (int i = 0; i < n; i++)
        assert_true(out[i].total <= ask.room.free / 100 * FIT_PERCENT && least <= out[i].total);
    spec.optim.ema = 0.9;
    ask.room.free = room_for(1, true) * 7 / 8; /* less than AdamW and the average need */
    assert_int_equal(fit_advise(out, &least, &ask, NULL), 1);
    assert_string_equal(out[0].change, "train.batch.micro: auto, train.grad_checkpointing: auto, train.optimizer.type: came, "
                                       "train.ema: 0");
    ask.room.free = 1000;
    assert_int_equal(fit_advise(out, &least, &ask, NULL), 0);
    assert_true(least > 1000 && least < INT64_MAX);
}

/* Only what exceeds all of the memory is refused: not what exceeds what is free, or a given micro-batch that the run
 * would lower by itself. */
static void what_can_never_fit(void **state)
{
    (void)state;
    struct train_spec spec = {.model = config, .optim = adamw, .batch_global = 8, .batch_micro = 8,
                              .recompute = RECOMPUTE_AUTO, .parallel = PARALLEL_DDP, .memory_check = true};
    struct fit_ask ask = {.spec = &spec, .height = 8, .width = 8, .text = 5, .ranks = 1};
    const int64_t least = room_for(1, true) / 100 * FIT_PERCENT;
    struct err err = {0};
    ask.room = (struct device_memory){1000, least + 4096};
    assert_int_equal(fit_refuse(&ask, &err), 0);
    ask.room.total = least - 4096;
    assert_int_equal(fit_refuse(&ask, &err), -1);
    assert_int_equal(err.code, ERR_USAGE);
    assert_non_null(strstr(err.text, "train.model: "));
    assert_non_null(strstr(err.text, ", this machine has "));
    assert_non_null(strstr(err.text, "train.optimizer.type: came"));
    assert_non_null(strstr(err.text, "train.memory_check: false"));
    ask.room.total = 1000;
    err = (struct err){0};
    assert_int_equal(fit_refuse(&ask, &err), -1);
    assert_non_null(strstr(err.text, "; use a smaller model or resolution "
                                     "(train.memory_check: false starts the run anyway)"));
    ask.neighbours = 2; /* two ranks have half of it each */
    ask.ranks = 4;
    ask.room.total = 2 * least + 4 * EXCHANGE_SLACK;
    assert_int_equal(fit_refuse(&ask, &err), 0);
    ask.neighbours = 4;
    assert_int_equal(fit_refuse(&ask, &err), -1);
    spec.memory_check = false;
    assert_int_equal(fit_refuse(&ask, &err), 0);
    spec.memory_check = true;
    ask.room.total = 0; /* unknown */
    assert_int_equal(fit_refuse(&ask, &err), 0);
}

/* The average of a model that is large beside its activations. */
static void what_is_refused_says_what_would_fit(void **state)
{
    (void)state;
    struct train_spec spec = {.model = config, .optim = adamw, .batch_global = 1, .batch_micro = 1,
                              .recompute = RECOMPUTE_ON, .parallel = PARALLEL_DDP, .memory_check = true};
    spec.model.hidden = 512;
    spec.model.mlp_hidden = 1280;
    spec.optim.ema = 0.9;
    struct memory_ask m = {.model = spec.model, .limits = {1, 8, 8, 5, true}, .optim = spec.optim, .device = true,
                           .ranks = 1};
    struct memory_plan with, without;
    assert_int_equal(memory_plan(&with, &m, NULL), 0);
    m.optim.ema = 0;
    assert_int_equal(memory_plan(&without, &m, NULL), 0);
    const int64_t total = without.total / FIT_PERCENT * 100 + 4096;
    assert_true(total < with.total);
    const struct fit_ask ask = {.spec = &spec, .height = 8, .width = 8, .text = 5, .ranks = 1, .device = true,
                                .room = {0, total}};
    struct err err = {0};
    assert_int_equal(fit_refuse(&ask, &err), -1);
    assert_non_null(strstr(err.text, "MiB, this GPU has "));
    assert_non_null(strstr(err.text, "with train.ema: 0 the plan needs "));
    assert_non_null(strstr(err.text, "MiB, which fits"));
}

/* With weights to freeze, adapters come before more GPUs. */
static void adapters_of_a_gpu_may_fit(void **state)
{
    (void)state;
    struct train_spec spec = {.model = config, .optim = adamw, .batch_global = 1, .batch_micro = 1, .weights = "w.pth",
                              .recompute = RECOMPUTE_ON, .parallel = PARALLEL_DDP, .memory_check = true};
    spec.model.hidden = 512;
    spec.model.mlp_hidden = 1280;
    struct memory_ask m = {.model = spec.model, .limits = {1, 8, 8, 5, true}, .optim = adamw, .device = true,
                           .bf16 = true, .ranks = 1};
    m.model.lora = (struct lora_config){.rank = 16, .alpha = 16, .targets = lora_config_default()};
    struct memory_plan with;
    assert_int_equal(memory_plan(&with, &m, NULL), 0);
    struct fit_ask ask = {.spec = &spec, .height = 8, .width = 8, .text = 5, .ranks = 1, .device = true, .bf16 = true};
    struct fit_advice out[FIT_ADVICE];
    int64_t least;
    ask.room.free = (with.total / FIT_PERCENT + 1) * 100;
    assert_true(fit_advise(out, &least, &ask, NULL) >= 1);
    assert_string_equal(out[0].change, "train.lora: {rank: 16}");
    assert_int_equal(out[0].total, with.total);
    spec.weights[0] = '\0';
    for (int i = fit_advise(out, &least, &ask, NULL); i > 0; i--)
        assert_null(strstr(out[i - 1].change, "lora"));
}

/* What a spec alone says of the samples; `height` 0: nothing. */
static void sizes_from_the_spec(void **state)
{
    (void)state;
    static const struct {
        enum encoders encoders;
        int           resolution, patch;
        bool          multi_scale;
        int           channels, height, words;
    } cases[] = {
        {ENCODERS_SANA, 1024, 1, false, 1, 32, 1},      {ENCODERS_SANA, 1024, 1, true, 1, 24, 1},
        {ENCODERS_LUMINA, 1024, 2, false, 1, 128, 1},   {ENCODERS_LUMINA, 1000, 2, false, 1, 124, 1},
        {ENCODERS_SYNTHETIC, 512, 1, false, 32, 16, 7}, {ENCODERS_DCT_HASH, 64, 1, false, 48, 16, 7},
        {ENCODERS_DCT_HASH, 0, 1, false, 0, 0, 0},      {ENCODERS_FEATURES, 1024, 1, false, 0, 0, 0},
        {ENCODERS_SANA, 31, 1, false, 0, 0, 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const struct train_spec spec = {
            .encoders = cases[i].encoders, .resolution = cases[i].resolution, .multi_scale = cases[i].multi_scale,
            .dct_block = 4, .caption_words = 7, .caption_channels = 16, .model.patch = cases[i].patch};
        struct fit_shape s = {0};
        if (fit_shape(&s, &spec) != (cases[i].height > 0))
            fail_msg("case %zu", i);
        if (cases[i].height > 0 && (s.channels != cases[i].channels || s.height != cases[i].height ||
                                    s.width != s.height || s.words != cases[i].words))
            fail_msg("case %zu: %d x %d x %d, %d words", i, s.channels, s.height, s.width, s.words);
    }
}

static void sizes_that_no_model_has(void **state)
{
    (void)state;
    const struct train_spec spec = {.model = config, .optim = adamw, .batch_global = 4,
                                    .batch_micro = 4, .micro_auto = true};
    struct fit_ask ask = {.spec = &spec, .height = 0, .width = 8, .text = 5, .ranks = 1};
    struct fit f;
    struct err err = {0};
    assert_int_equal(fit_choose(&f, &ask, &err), -1);
    assert_int_equal(err.code, ERR_USAGE);
    ask.room.free = 1 << 30;
    assert_int_equal(fit_choose(&f, &ask, NULL), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_row),
        cmocka_unit_test(after_one_sample_was_too_much),
        cmocka_unit_test(the_state_is_shared_as_far_as_it_must),
        cmocka_unit_test(after_some_pixels_were_too_much),
        cmocka_unit_test(pictures_do_not_shrink_the_batch),
        cmocka_unit_test(what_would_fit),
        cmocka_unit_test(what_can_never_fit),
        cmocka_unit_test(what_is_refused_says_what_would_fit),
        cmocka_unit_test(adapters_of_a_gpu_may_fit),
        cmocka_unit_test(sizes_from_the_spec),
        cmocka_unit_test(a_reproducible_run),
        cmocka_unit_test(sizes_that_no_model_has),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
