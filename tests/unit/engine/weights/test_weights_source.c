/* SPDX-License-Identifier: Apache-2.0 */
/* test_weights_source.c - one file, shards, folders of a pipeline; what does not belong together is refused */
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
#include "engine/weights/tensor_view.h"
#include "engine/weights/weights_names.h"
#include "engine/weights/weights_source.h"
#include "engine/weights/weights_summary.h"

static char dir[64];
static struct err err;

static void path_of(char out[256], const char *name)
{
    snprintf(out, 256, "%s/%s", dir, name);
}

static void put(const char *name, const void *bytes, size_t n)
{
    char path[256];
    path_of(path, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
}

static void put_text(const char *name, const char *text)
{
    put(name, text, strlen(text));
}

/* A safetensors file of tensors of one number each; names end with NULL. */
static void put_tensors(const char *name, const char *const *tensor)
{
    char file[2048], *header = file + 8;
    size_t n = 0, len = 1;
    header[0] = '{';
    for (; tensor[n]; n++)
        len += (size_t)snprintf(header + len, 1024 - len,
                                "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[%zu,%zu]}", n ? "," : "",
                                tensor[n], 4 * n, 4 * n + 4);
    header[len++] = '}';
    const uint64_t length = len;
    memcpy(file, &length, 8);
    for (size_t i = 0; i < n; i++) {
        const float value = (float)i + 1;
        memcpy(header + len + 4 * i, &value, 4);
    }
    put(name, file, 8 + len + 4 * n);
}

#define TENSORS(...) (const char *const[]){__VA_ARGS__, NULL}

static void folder(const char *name)
{
    char path[256];
    path_of(path, name);
    assert_int_equal(mkdir(path, 0700), 0);
}

static struct weights_source *open_path(const char *name)
{
    char path[256];
    struct weights_source *w = NULL;
    err = (struct err){0};
    path_of(path, name);
    weights_source_open(&w, path, "transformer", &err);
    return w;
}

static void refused(const char *name, const char *says)
{
    struct weights_source *w = open_path(name);
    assert_null(w);
    if (!strstr(err.text, says))
        fail_msg("%s: %s", name, err.text);
}

static int make_dir(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/test_weights_source.XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
    static const char *const made[] = {"p/transformer/a.safetensors", "p/transformer", "p/model_index.json", "p",
                                       "a.safetensors", "b.safetensors", "c.safetensors", "m.index.json", "a.pth"};
    (void)state;
    for (size_t i = 0; i < sizeof(made) / sizeof(*made); i++) {
        char path[256];
        path_of(path, made[i]);
        remove(path);
    }
    return rmdir(dir);
}

static void one_file_gives_its_tensors_by_name(void **state)
{
    float value;
    (void)state;
    put_tensors("a.safetensors", TENSORS("b", "a"));
    struct weights_source *w = open_path("a.safetensors");
    assert_string_equal(err.text, "");
    assert_string_equal(weights_source_form(w), "safetensors");
    assert_int_equal(weights_source_len(w), 2);
    assert_string_equal(weights_source_at(w, 0)->name, "a");
    tensor_view_floats(&value, weights_source_find(w, "a"), 0, 1);
    assert_true(value == 2);
    assert_null(weights_source_find(w, "c"));
    weights_source_close(w);
}

static void an_index_joins_its_shards(void **state)
{
    (void)state;
    put_tensors("a.safetensors", TENSORS("x"));
    put_tensors("b.safetensors", TENSORS("y", "z"));
    put_text("m.index.json",
             "{\"weight_map\":{\"x\":\"a.safetensors\",\"y\":\"b.safetensors\",\"z\":\"b.safetensors\"}}");
    struct weights_source *w = open_path("m.index.json");
    assert_string_equal(err.text, "");
    assert_int_equal(weights_source_len(w), 3);
    assert_string_equal(weights_source_form(w), "safetensors, 2 shards");
    weights_source_close(w);
}

static void an_index_that_does_not_fit_its_shards_is_refused(void **state)
{
    static const char *const row[][2] = {
        {"{\"weight_map\":{\"x\":\"a.safetensors\"}}",
         "the index does not name: index and shards do not belong together"},
        {"{\"weight_map\":{\"x\":\"a.safetensors\",\"y\":\"a.safetensors\",\"q\":\"a.safetensors\"}}",
         "tensor q is not in a.safetensors, which the index names"},
        {"{\"weight_map\":{\"x\":\"lost.safetensors\"}}", "lost.safetensors"},
        {"{\"weight_map\":{\"x\":\"../a.safetensors\"}}", "the index names no file in its own directory for tensor x"},
        {"{\"weight_map\":{\"x\":3}}", "the index names no file in its own directory for tensor x"},
        {"{\"weight_map\":{\"x\":\"a.safetensors\",\"x\":\"b.safetensors\"}}", "not JSON: duplicate object key"},
        {"{\"weight_map\":{\"x\":\"a.safetensors\",\"y\":\"a.safetensors\",\"c\":\"c.safetensors\"}}",
         "tensor x occurs twice"},
        {"{\"_class_name\":\"Sana\"}", "a JSON file without \"weight_map\""},
        {"{\"weight_map\":", ":1:"},
    };
    (void)state;
    put_tensors("a.safetensors", TENSORS("x", "y"));
    put_tensors("c.safetensors", TENSORS("x", "c"));
    for (size_t i = 0; i < sizeof(row) / sizeof(*row); i++) {
        put_text("m.index.json", row[i][0]);
        refused("m.index.json", row[i][1]);
    }
}

static void a_pipeline_is_entered_and_a_choice_is_refused(void **state)
{
    (void)state;
    folder("p");
    refused("p", "no weights in this directory");
    put_text("p/model_index.json", "{}");
    refused("p", "no folder transformer");
    folder("p/transformer");
    put_tensors("p/transformer/a.safetensors", TENSORS("x"));
    struct weights_source *w = open_path("p");
    assert_string_equal(err.text, "");
    assert_non_null(strstr(weights_source_path(w), "p/transformer/a.safetensors"));
    weights_source_close(w);
    put_tensors("a.safetensors", TENSORS("x"));
    put_tensors("b.safetensors", TENSORS("y"));
    refused(".", "2 files end in .safetensors");
}

static void a_file_of_neither_form_is_refused_by_name(void **state)
{
    (void)state;
    put_text("a.pth", "PK\3\4 and nothing more");
    refused("a.pth", "a.pth: the zip archive is damaged or truncated");
    put_text("a.pth", "<html>no such page</html>");
    refused("a.pth", "a.pth: ");
    refused("lost.pth", "lost.pth");
}

static void names_tell_the_family_and_the_rows(void **state)
{
    struct weights_place p;
    (void)state;
    put_tensors("a.safetensors", TENSORS("proj_out.weight", "transformer_blocks.0.attn1.to_k.weight"));
    struct weights_source *w = open_path("a.safetensors");
    assert_int_equal(weights_names_tell(w), WEIGHTS_SANA_DIFFUSERS);
    weights_source_close(w);
    put_tensors("a.safetensors", TENSORS("blocks.0.attn.qkv.weight", "pos_embed"));
    w = open_path("a.safetensors");
    assert_int_equal(weights_names_tell(w), WEIGHTS_SANA);
    weights_source_close(w);
    put_tensors("a.safetensors", TENSORS("unet.conv_in.weight"));
    w = open_path("a.safetensors");
    assert_int_equal(weights_names_tell(w), WEIGHTS_NAMINGS);
    weights_source_close(w);
    assert_true(weights_names_map(&p, WEIGHTS_SANA_DIFFUSERS, "transformer_blocks.27.attn2.to_v.bias"));
    assert_string_equal(p.name, "blocks.27.cross_attn.kv_linear.bias");
    assert_int_equal(p.part, 1);
    assert_int_equal(p.parts, 2);
    assert_false(weights_names_map(&p, WEIGHTS_SANA_DIFFUSERS, "transformer_blocks..attn2.to_v.bias"));
    assert_false(weights_names_map(&p, WEIGHTS_SANA_DIFFUSERS, "proj_out.weight.scale"));
    assert_false(weights_names_map(&p, WEIGHTS_SANA_DIFFUSERS, "scale_shift_table.weight"));
}

static void a_summary_counts_what_a_model_takes(void **state)
{
    struct weights_summary s;
    (void)state;
    put_tensors("a.safetensors", TENSORS("x_embedder.proj.bias", "blocks.3.attn.q_norm.weight", "pos_embed", "extra"));
    struct weights_source *w = open_path("a.safetensors");
    weights_summary_make(&s, w);
    assert_int_equal(s.naming, WEIGHTS_SANA);
    assert_int_equal(s.depth, 4);
    assert_int_equal(s.hidden, 1);
    assert_true(s.qk_norm && !s.cross_norm && !s.model);
    assert_int_equal(s.taken, 2);
    assert_int_equal(s.optional, 1);
    assert_int_equal(s.dropped, 1);
    assert_int_equal(s.numbers, 2);
    assert_int_equal(s.of_type[ST_F32], 2);
    weights_source_close(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_file_gives_its_tensors_by_name, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(an_index_joins_its_shards, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(an_index_that_does_not_fit_its_shards_is_refused, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(a_pipeline_is_entered_and_a_choice_is_refused, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(a_file_of_neither_form_is_refused_by_name, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(names_tell_the_family_and_the_rows, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(a_summary_counts_what_a_model_takes, make_dir, remove_dir),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
