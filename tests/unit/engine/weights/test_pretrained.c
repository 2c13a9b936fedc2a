/* SPDX-License-Identifier: Apache-2.0 */
/* test_pretrained.c - presets have the released sizes; weights are compared with a model before it exists */
#include <jansson.h>
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
#include "engine/contract/train_spec.h"
#include "engine/files/safetensors.h"
#include "engine/model/layout.h"
#include "engine/model/model.h"
#include "engine/weights/pretrained.h"
#include "engine/weights/weights_summary.h"

static char file[64];
static struct err err;

static struct model_config config_of(const char *model)
{
    struct train_spec s;
    json_t *job = json_pack("{s:{s:i, s:{s:s, s:s}, s:o}}", "train", "steps", 1, "data", "path", "/d", "encoders",
                            "features", "model", json_loads(model, 0, NULL));
    err = (struct err){0};
    assert_int_equal(train_spec_parse(&s, job, &err), 0);
    json_decref(job);
    s.model.latent_channels = s.model.family == MODEL_SANA ? 32 : 4;
    s.model.caption_channels = s.model.family == MODEL_SANA ? 2304 : 2048;
    s.model.caption_len = 300;
    return s.model;
}

static void presets_have_the_parameters_of_the_released_models(void **state)
{
    static const struct {
        const char *preset;
        int64_t     params;
        const char *model;
    } rows[] = {
        {"sana-600m", 591747872, "Sana 0.6B"},          {"sana-1600m", 1604462752, "Sana 1.6B"},
        {"sana-2400m", 2383669152, NULL},               {"sana-3200m", 3162875552, NULL},
        {"sana-4800m", 4721288352, NULL},               {"sana-1.5-1600m", 1604641952, "Sana-1.5 1.6B"},
        {"sana-1.5-4800m", 4721825952, "Sana-1.5 4.8B"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        char text[64];
        struct layout *l;
        struct weights_summary s;
        snprintf(text, sizeof(text), "{\"preset\":\"%s\"}", rows[i].preset);
        const struct model_config cfg = config_of(text);
        assert_int_equal(model_layout_make(&l, &cfg, &err), 0);
        assert_int_equal(layout_params(l), rows[i].params);
        layout_destroy(l);
        weights_summary_of_config(&s, &cfg);
        assert_int_equal(s.model != NULL, rows[i].model != NULL);
        if (s.model) {
            assert_string_equal(s.model, rows[i].model);
            assert_string_equal(s.preset, rows[i].preset);
        }
    }
}

/* --- a file of a small model ---------------------------------------------------------------- */

static float *numbers_of(const struct tensor *t)
{
    float *x = malloc(t->count * sizeof(*x));
    assert_non_null(x);
    for (size_t i = 0; i < t->count; i++)
        x[i] = (float)(i % 1000) + (float)t->offset;
    return x;
}

static int write_all(struct st_writer *w)
{
    int64_t bytes;
    strcpy(file, "/tmp/test_pretrained.XXXXXX");
    const int fd = mkstemp(file);
    assert_true(fd >= 0);
    const int rc = st_writer_write(w, fd, &bytes, &err);
    close(fd);
    return rc;
}

/* A Next-DiT's tensors, without one (or NULL). */
static void put_lumina(const struct model_config *cfg, const char *without)
{
    struct layout *l;
    struct st_writer *w;
    float *kept[256];
    int n = 0;
    assert_int_equal(model_layout_make(&l, cfg, &err), 0);
    assert_int_equal(st_writer_create(&w, &err), 0);
    for (int i = 0; i < layout_len(l); i++) {
        const struct tensor *t = layout_at(l, i);
        if (without && strcmp(t->name, without) == 0)
            continue;
        kept[n] = numbers_of(t);
        assert_int_equal(st_writer_add(w, t->name, ST_F32, t->ndim, t->dim, kept[n++], &err), 0);
    }
    assert_int_equal(write_all(w), 0);
    st_writer_destroy(w);
    while (n > 0)
        free(kept[--n]);
    layout_destroy(l);
}

static struct pretrained *open_file(void)
{
    struct pretrained *p = NULL;
    err = (struct err){0};
    assert_int_equal(pretrained_open(&p, file, &err), 0);
    return p;
}

static void every_range_of_every_tensor_is_read(void **state)
{
    struct layout *l;
    const struct model_config cfg = config_of("{\"preset\":\"lumina-tiny\"}");
    (void)state;
    put_lumina(&cfg, NULL);
    struct pretrained *p = open_file();
    assert_int_equal(pretrained_match(p, &cfg, true, &err), 0);
    assert_int_equal(model_layout_make(&l, &cfg, &err), 0);
    assert_int_equal(pretrained_found(p)->matched, layout_len(l));
    for (int i = 0; i < layout_len(l); i++) {
        const struct tensor *t = layout_at(l, i);
        const size_t from = t->count / 3, to = t->count - t->count / 5;
        float *x = malloc(t->count * sizeof(*x));
        assert_true(pretrained_read(p, i, from, to, x));
        for (size_t k = from; k < to; k++)
            assert_true(x[k - from] == (float)(k % 1000) + (float)t->offset);
        free(x);
    }
    layout_destroy(l);
    pretrained_close(p);
    unlink(file);
}

static void sizes_that_only_data_tells_come_from_the_file(void **state)
{
    struct model_config cfg = config_of("{\"preset\":\"lumina-tiny\"}");
    (void)state;
    put_lumina(&cfg, NULL);
    struct pretrained *p = open_file();
    cfg.latent_channels = cfg.caption_channels = cfg.caption_len = 0;
    assert_int_equal(pretrained_match(p, &cfg, true, &err), 0);
    cfg.caption_channels = 7; /* and are compared when it has told them */
    assert_int_equal(pretrained_match(p, &cfg, true, &err), -1);
    assert_non_null(strstr(err.text, "cap_embedder.0.weight, [2048] instead of [7]"));
    pretrained_close(p);
    unlink(file);
}

static void another_family_is_told(void **state)
{
    const struct model_config lumina = config_of("{\"preset\":\"lumina-tiny\"}"),
                              sana = config_of("{\"preset\":\"sana-600m\"}");
    (void)state;
    put_lumina(&lumina, NULL);
    struct pretrained *p = open_file();
    assert_int_equal(pretrained_match(p, &sana, false, &err), -1);
    assert_non_null(strstr(err.text, "this is Lumina-Next (depth 2, 64 channels, qk_norm), the spec says Sana 0.6B "
                           "(sana-600m: depth 28, 1152 channels)"));
    pretrained_close(p);
    unlink(file);
}

static void what_is_missing_is_drawn_only_if_asked(void **state)
{
    const struct model_config cfg = config_of("{\"preset\":\"lumina-tiny\"}");
    float x[4];
    char text[PRETRAINED_TEXT];
    (void)state;
    put_lumina(&cfg, "pad_token");
    struct pretrained *p = open_file();
    assert_int_equal(pretrained_match(p, &cfg, true, &err), -1);
    assert_non_null(strstr(err.text, "1 missing: pad_token; weights_strict: false"));
    err = (struct err){0};
    assert_int_equal(pretrained_match(p, &cfg, false, &err), 0);
    assert_false(pretrained_read(p, 0, 0, 1, x));
    assert_true(pretrained_read(p, 1, 0, 1, x));
    assert_true(pretrained_left_out(text, p));
    assert_non_null(strstr(text, "1 tensors of the model are not in it and are drawn at random: pad_token"));
    pretrained_close(p);
    unlink(file);
}

/* diffusers writes wq twice; after its own training the two may differ. */
static void copies_of_queries_are_equal_or_refused(void **state)
{
    const struct model_config cfg = config_of("{\"preset\":\"lumina-tiny\"}");
    const int64_t dim[] = {64, 64};
    static float x[2][64 * 64];
    (void)state;
    for (int differ = 0; differ < 2; differ++) {
        struct st_writer *w;
        x[1][4095] = (float)differ;
        assert_int_equal(st_writer_create(&w, &err), 0);
        assert_int_equal(st_writer_add(w, "layers.0.attn1.to_q.weight", ST_F32, 2, dim, x[0], &err), 0);
        assert_int_equal(st_writer_add(w, "layers.0.attn2.to_q.weight", ST_F32, 2, dim, x[1], &err), 0);
        assert_int_equal(write_all(w), 0);
        st_writer_destroy(w);
        struct pretrained *p = open_file();
        assert_int_equal(pretrained_match(p, &cfg, false, &err), differ ? -1 : 0);
        if (differ)
            assert_non_null(strstr(err.text, "attn1.to_q.weight and layers.0.attn2.to_q.weight differ"));
        else
            assert_int_equal(pretrained_found(p)->matched, 1);
        pretrained_close(p);
        unlink(file);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(presets_have_the_parameters_of_the_released_models),
        cmocka_unit_test(every_range_of_every_tensor_is_read),
        cmocka_unit_test(sizes_that_only_data_tells_come_from_the_file),
        cmocka_unit_test(another_family_is_told),
        cmocka_unit_test(copies_of_queries_are_equal_or_refused),
        cmocka_unit_test(what_is_missing_is_drawn_only_if_asked),
    };
    return cmocka_run_group_tests_name("test_pretrained", tests, NULL, NULL);
}
