/* SPDX-License-Identifier: Apache-2.0 */
/* test_text_encoder.c - a small Gemma of bf16 on disk: rows and masks, the instruction computed once, the digest
 *
 * The numbers of the authors' code are compared by `make golden` (tests/golden/gemma2).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/base/err.h"
#include "engine/files/safetensors.h"
#include "engine/text/caption_style.h"
#include "engine/text/gemma.h"
#include "engine/text/prompt.h"
#include "engine/text/text_encoder.h"
#include "engine/text/tokenizer.h"

#define TOKENIZER "tests/golden/tokenizer/tokenizer.json"
#define CHI       "Given a user prompt, generate an \"Enhanced prompt\":\nUser Prompt: "

enum { VOCAB = 900, HIDDEN = 32, WIDE = 48, LAYERS = 3, HEADS = 4, KV = 2, DIM = 8, ROWS = 24, TENSORS = 64 };

static char dir[64];
static struct err err;

struct made {
    struct st_writer *w;
    uint16_t         *kept[TENSORS];
    int               n;
    uint32_t          seed;
    enum st_dtype     dtype;
};

/* In [-1, 1) times `scale`, as bf16 or as the float of the same number. */
static void add(struct made *m, const char *name, int rows, int cols, float scale)
{
    const size_t n = (size_t)rows * (size_t)cols, size = st_dtype_size(m->dtype);
    unsigned char *x = malloc(n * size);
    assert_non_null(x);
    for (size_t i = 0; i < n; i++) {
        m->seed = m->seed * 1664525u + 1013904223u;
        const float value = ((float)(m->seed >> 8) / 8388608.0f - 1) * scale;
        uint32_t bits;
        memcpy(&bits, &value, sizeof(bits));
        bits &= 0xFFFF0000u;
        memcpy(x + i * size, (const char *)&bits + (4 - size), size);
    }
    const int64_t dim[] = {rows, cols};
    assert_int_equal(st_writer_add(m->w, name, m->dtype, cols > 1 ? 2 : 1, dim, x, &err), 0);
    m->kept[m->n++] = (uint16_t *)(void *)x;
}

static void add_layer(struct made *m, int layer)
{
    static const struct {
        const char *name;
        int         rows, cols;
    } all[] = {
        {"self_attn.q_proj", HEADS * DIM, HIDDEN}, {"self_attn.k_proj", KV * DIM, HIDDEN},
        {"self_attn.v_proj", KV * DIM, HIDDEN},    {"self_attn.o_proj", HIDDEN, HEADS * DIM},
        {"mlp.gate_proj", WIDE, HIDDEN},           {"mlp.up_proj", WIDE, HIDDEN},
        {"mlp.down_proj", HIDDEN, WIDE},           {"input_layernorm", HIDDEN, 1},
        {"post_attention_layernorm", HIDDEN, 1},   {"pre_feedforward_layernorm", HIDDEN, 1},
        {"post_feedforward_layernorm", HIDDEN, 1},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
        char name[96];
        snprintf(name, sizeof(name), "model.layers.%d.%s.weight", layer, all[i].name);
        add(m, name, all[i].rows, all[i].cols, 0.5f);
    }
}

static const char *in_dir(const char *name)
{
    static char path[128];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    return path;
}

static void put_text(const char *name, const char *text, size_t n)
{
    FILE *f = fopen(in_dir(name), "w");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, n, f), n);
    fclose(f);
}

static void put_weights(enum st_dtype dtype)
{
    struct made m = {.seed = 3, .dtype = dtype};
    int64_t bytes;
    assert_int_equal(st_writer_create(&m.w, &err), 0);
    add(&m, "model.embed_tokens.weight", VOCAB, HIDDEN, 1);
    for (int i = 0; i < LAYERS; i++)
        add_layer(&m, i);
    add(&m, "model.norm.weight", HIDDEN, 1, 0.5f);
    FILE *f = fopen(in_dir("model.safetensors"), "w");
    assert_non_null(f);
    assert_int_equal(st_writer_write(m.w, fileno(f), &bytes, &err), 0);
    fclose(f);
    st_writer_destroy(m.w);
    while (m.n > 0)
        free(m.kept[--m.n]);
}

static int make_model(void **state)
{
    static const char config[] =
        "{\"model_type\":\"gemma2\",\"vocab_size\":900,\"hidden_size\":32,\"intermediate_size\":48,"
        "\"num_hidden_layers\":3,\"num_attention_heads\":4,\"num_key_value_heads\":2,\"head_dim\":8,"
        "\"query_pre_attn_scalar\":6,\"sliding_window\":9,\"attn_logit_softcapping\":5.0}";
    static char text[100000];
    (void)state;
    strcpy(dir, "/tmp/test_text_encoder.XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    put_text("config.json", config, strlen(config));
    FILE *f = fopen(TOKENIZER, "r");
    assert_non_null(f);
    const size_t n = fread(text, 1, sizeof(text), f);
    fclose(f);
    put_text("tokenizer.json", text, n);
    put_weights(ST_BF16);
    return 0;
}

static int remove_model(void **state)
{
    static const char *const files[] = {"config.json", "tokenizer.json", "model.safetensors"};
    (void)state;
    for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++)
        unlink(in_dir(files[i]));
    return rmdir(dir);
}

static struct text_encoder *open_with(struct text_encoder_options o)
{
    struct text_encoder *e = NULL;
    err = (struct err){0};
    o.rows = o.rows ? o.rows : ROWS;
    text_encoder_open(&e, dir, &o, &err);
    assert_string_equal(err.text, "");
    return e;
}

struct rows {
    float y[ROWS * HIDDEN], mask[ROWS];
    bool  reused;
};

static void encode(struct rows *out, struct text_encoder *e, const char *caption)
{
    assert_int_equal(text_encoder_caption(e, caption, strlen(caption), out->y, out->mask, &out->reused, &err), 0);
}

static void assert_near(const struct rows *a, const struct rows *b)
{
    float most = 0, apart = 0;
    assert_memory_equal(a->mask, b->mask, sizeof(a->mask));
    for (int i = 0; i < ROWS * HIDDEN; i++) {
        const float d = a->y[i] - b->y[i];
        most = a->y[i] > most ? a->y[i] : most;
        apart = d > apart ? d : -d > apart ? -d : apart;
    }
    assert_true(most > 0.5f && apart < 2e-6f * most);
}

static const char *const captions[] = {"A cat sleeping", "", " two spaces", "x", "\xe4\xb8\xad\xe6\x96\x87",
                                       "a very long caption that has more words than there are rows for any of them, "
                                       "so that it is cut on the right where they end"};

enum { CAPTIONS = sizeof(captions) / sizeof(captions[0]) };

static void the_instruction_is_computed_once(void **state)
{
    struct rows once, each;
    struct text_encoder *e = open_with((struct text_encoder_options){.chi = CHI}),
                        *full = open_with((struct text_encoder_options){.chi = CHI, .no_prefix = true});
    int reused = 0;
    (void)state;
    for (int i = 0; i < CAPTIONS; i++) {
        encode(&once, e, captions[i]);
        encode(&each, full, captions[i]);
        assert_false(each.reused);
        assert_near(&once, &each);
        reused += once.reused;
    }
    assert_int_equal(reused, CAPTIONS);
    text_encoder_close(e);
    text_encoder_close(full);
}

/* Against one run over the whole padded prompt, as the authors' programs do it. */
static void rows_and_mask_are_the_authors(void **state)
{
    struct rows got;
    struct text_encoder *e = open_with((struct text_encoder_options){.chi = CHI, .no_prefix = true}),
                        *bare = open_with((struct text_encoder_options){0});
    struct tokenizer *t;
    struct prompt p;
    (void)state;
    assert_int_equal(tokenizer_open(&t, TOKENIZER, &err), 0);
    assert_int_equal(prompt_sana(&p, t, CHI, "A cat", 5, ROWS, &err), 0);
    encode(&got, e, "A cat");
    for (int i = 0; i < ROWS; i++)
        assert_true(got.mask[i] == p.mask[p.row[i]]);
    assert_true(got.mask[0] == 1 && got.mask[1] == 1 && got.mask[ROWS - 1] == 0);
    for (int i = 0; i < HIDDEN; i++)
        assert_true(got.y[(ROWS - 1) * HIDDEN + i] == 0);
    prompt_free(&p);
    tokenizer_close(t);
    /* The empty caption has rows of padding, equal to each other and unlike the first. */
    assert_int_equal(text_encoder_null(bare, got.y, got.mask, &err), 0);
    assert_true(got.mask[0] == 1 && got.mask[1] == 0);
    float apart = 0, first = 0;
    for (int i = 0; i < HIDDEN; i++) {
        apart += got.y[5 * HIDDEN + i] - got.y[6 * HIDDEN + i];
        first += got.y[i] - got.y[5 * HIDDEN + i];
    }
    assert_true(first != 0 && apart < 1e-4f && apart > -1e-4f);
    struct rows alone; /* the same caption without the rows of padding */
    encode(&alone, bare, "");
    for (int i = 0; i < HIDDEN; i++)
        assert_true(alone.y[i] - got.y[i] < 1e-5f && got.y[i] - alone.y[i] < 1e-5f);
    text_encoder_close(e);
    text_encoder_close(bare);
}

static void bf16_on_disk_is_as_the_same_numbers_in_floats(void **state)
{
    struct rows narrow, wide;
    struct text_encoder *e = open_with((struct text_encoder_options){.chi = CHI});
    (void)state;
    encode(&narrow, e, captions[0]);
    text_encoder_close(e);
    put_weights(ST_F32);
    e = open_with((struct text_encoder_options){.chi = CHI});
    encode(&wide, e, captions[0]);
    text_encoder_close(e);
    put_weights(ST_BF16);
    assert_near(&narrow, &wide);
}

static void the_digest_tells_every_option(void **state)
{
    static const struct text_encoder_options options[] = {
        {.chi = NULL}, {.chi = CHI}, {.rows = ROWS - 1}, {.diffusers = true}, {.chi = CHI, .no_prefix = true}};
    char text[5][DIGEST_TEXT];
    (void)state;
    for (int i = 0; i < 5; i++) {
        struct text_encoder *e = open_with(options[i]);
        assert_int_equal(text_encoder_digest(e, text[i], &err), 0);
        text_encoder_close(e);
        for (int k = 0; k < i; k++)
            assert_int_equal(strcmp(text[i], text[k]) == 0, i == 4 && k == 1); /* no_prefix changes nothing */
    }
}

static void captions_are_changed_as_diffusers_does(void **state)
{
    static const char *const row[][2] = {
        {"  A Cat\t\n", "a cat"}, {"\xce\x9f\xce\x94\xce\x9f\xce\xa3", "\xce\xbf\xce\xb4\xce\xbf\xcf\x82"},
        {"\xc4\xb0x", "i\xcc\x87x"}, {"\xe3\x80\x80\xc3\x84\xe3\x80\x80", "\xc3\xa4"}, {" ", ""}, {"\xff", "\xff"}};
    struct rows a, b;
    (void)state;
    for (size_t i = 0; i < sizeof(row) / sizeof(*row); i++) {
        size_t n;
        char *text = caption_style_diffusers(row[i][0], strlen(row[i][0]), &n, &err);
        assert_non_null(text);
        assert_string_equal(text, row[i][1]);
        assert_int_equal(n, strlen(row[i][1]));
        free(text);
    }
    struct text_encoder *e = open_with((struct text_encoder_options){.diffusers = true});
    encode(&a, e, "  A CAT ");
    encode(&b, e, "a cat");
    assert_memory_equal(a.y, b.y, sizeof(a.y));
    text_encoder_close(e);
}

/* Lumina-Next's: no instruction, 256 rows, the input of the last layer. */
static void gemma_1_has_rows_of_its_own(void **state)
{
    static const char config[] =
        "{\"model_type\":\"gemma\",\"vocab_size\":900,\"hidden_size\":32,\"intermediate_size\":48,"
        "\"num_hidden_layers\":3,\"num_attention_heads\":4,\"num_key_value_heads\":2,\"head_dim\":8}";
    static float y[PROMPT_LUMINA_MAX * HIDDEN], mask[PROMPT_LUMINA_MAX];
    static char was[1000];
    struct text_encoder *e = NULL;
    bool reused = true;
    int n = 0;
    (void)state;
    FILE *f = fopen(in_dir("config.json"), "r");
    assert_non_null(f);
    const size_t size = fread(was, 1, sizeof(was), f);
    fclose(f);
    put_text("config.json", config, strlen(config));
    err = (struct err){0};
    assert_int_equal(text_encoder_open(&e, dir, &(struct text_encoder_options){.chi = CHI}, &err), 0);
    assert_int_equal(text_encoder_rows(e), PROMPT_LUMINA_MAX);
    assert_int_equal(text_encoder_caption(e, "A cat sleeping", 14, y, mask, &reused, &err), 0);
    assert_false(reused);
    while (n < PROMPT_LUMINA_MAX && mask[n] == 1)
        n++;
    assert_true(n > 1 && n < 16 && mask[PROMPT_LUMINA_MAX - 1] == 0);
    assert_true(y[(n - 1) * HIDDEN] != 0 && y[n * HIDDEN] == 0);
    text_encoder_close(e);
    put_text("config.json", was, size);
}

static void what_does_not_belong_together_is_refused(void **state)
{
    static const char config[] = "{\"model_type\":\"llama\"}";
    static char was[1000];
    struct text_encoder *e = NULL;
    const struct text_encoder_options o = {.rows = ROWS};
    (void)state;
    FILE *f = fopen(in_dir("config.json"), "r");
    assert_non_null(f);
    const size_t n = fread(was, 1, sizeof(was) - 1, f);
    fclose(f);
    put_text("config.json", config, strlen(config));
    err = (struct err){0};
    assert_int_equal(text_encoder_open(&e, dir, &o, &err), -1);
    assert_non_null(strstr(err.text, "\"model_type\" is llama, not gemma or gemma2"));
    was[strcspn(was, "3")] = '5'; /* hidden_size 52 */
    put_text("config.json", was, n);
    err = (struct err){0};
    assert_int_equal(text_encoder_open(&e, dir, &o, &err), -1);
    assert_non_null(strstr(err.text, "model.embed_tokens.weight does not have the size given by config.json"));
    was[strcspn(was, "5")] = '3';
    put_text("config.json", was, n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_instruction_is_computed_once),
        cmocka_unit_test(rows_and_mask_are_the_authors),
        cmocka_unit_test(bf16_on_disk_is_as_the_same_numbers_in_floats),
        cmocka_unit_test(the_digest_tells_every_option),
        cmocka_unit_test(captions_are_changed_as_diffusers_does),
        cmocka_unit_test(gemma_1_has_rows_of_its_own),
        cmocka_unit_test(what_does_not_belong_together_is_refused),
    };
    return cmocka_run_group_tests_name("test_text_encoder", tests, make_model, remove_model);
}
