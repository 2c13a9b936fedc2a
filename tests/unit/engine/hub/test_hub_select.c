/* SPDX-License-Identifier: Apache-2.0 */
/* test_hub_select.c - which files of a repository are needed, and whether all exist */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "engine/base/text_append.h"
#include "engine/hub/hub_select.h"

enum { FILES = 24 };

/* Files separated by blanks. */
static int split(struct hub_file list[FILES], char *names)
{
    int n = 0;
    for (char *p = strtok(names, " "); p; p = strtok(NULL, " "))
        list[n++] = (struct hub_file){.path = p};
    return n;
}

/* What is wanted of them, separated by blanks; target and why of the rest. */
static void check(const char *files, const char *file, const char *parts, const char *wanted, const char *target,
                  const char *why)
{
    char names[800], got[800] = "", at[200], missing[200] = "";
    struct hub_file list[FILES];
    snprintf(names, sizeof(names), "%s", files);
    const int n = split(list, names);
    hub_select(list, n, file, parts);
    for (int i = 0; i < n; i++)
        if (list[i].wanted)
            text_append(got, sizeof(got), "%s%s", got[0] ? " " : "", list[i].path);
    assert_string_equal(got, wanted);
    hub_select_target(at, sizeof(at), list, n, file);
    assert_string_equal(at, target);
    assert_int_equal(hub_select_is_whole(list, n, file, parts, missing, sizeof(missing)), why == NULL);
    assert_string_equal(missing, why ? why : "");
}

#define PIPE "README.md model_index.json transformer/config.json transformer/d-00001-of-00002.safetensors " \
             "transformer/d-00002-of-00002.safetensors transformer/d.safetensors.index.json transformer/d.fp16.safetensors " \
             "transformer/d.bin vae/config.json vae/d.safetensors vae/d.fp16.safetensors tokenizer/tokenizer.json " \
             "tokenizer/tokenizer.model .cache/x.json"
#define SHARDS "transformer/config.json transformer/d-00001-of-00002.safetensors transformer/d-00002-of-00002.safetensors " \
               "transformer/d.safetensors.index.json"

static void a_pipeline(void **state)
{
    (void)state;
    check(PIPE, "", "transformer", "model_index.json " SHARDS, "", NULL);
    check(PIPE, "", "vae,tokenizer", "model_index.json vae/config.json vae/d.safetensors tokenizer/tokenizer.json "
          "tokenizer/tokenizer.model", "", NULL);
    check(PIPE, "", "", "model_index.json " SHARDS " vae/config.json vae/d.safetensors tokenizer/tokenizer.json "
          "tokenizer/tokenizer.model", "", NULL);
    check(PIPE, "vae", "transformer", "vae/config.json vae/d.safetensors", "vae", NULL);
    check(PIPE, "vae/d.fp16.safetensors", "", "vae/config.json vae/d.fp16.safetensors", "vae/d.fp16.safetensors", NULL);
    check(PIPE, "transformer/d.safetensors.index.json", "", SHARDS, "transformer/d.safetensors.index.json", NULL);
    check(PIPE, "va", "", "", "va", "va");
    check(PIPE, "", "tokenizer", "model_index.json tokenizer/tokenizer.json tokenizer/tokenizer.model", "", NULL);
}

static void a_plain_repository(void **state)
{
    (void)state;
    check("config.json model.safetensors model.fp16.safetensors pytorch_model.bin tokenizer.json onnx/model.json "
          "original/consolidated.pth", "", "transformer", "config.json model.safetensors tokenizer.json", "", NULL);
    check("pytorch_model-00001-of-00002.bin pytorch_model-00002-of-00002.bin pytorch_model.bin.index.json", "", "",
          "pytorch_model-00001-of-00002.bin pytorch_model-00002-of-00002.bin pytorch_model.bin.index.json", "", NULL);
    check("README.md checkpoints/Sana.pth asset/x.png", "", "transformer", "checkpoints/Sana.pth", "checkpoints", NULL);
    check("a/x.pth b/y.pth", "", "", "a/x.pth b/y.pth", "", NULL);
    check("x.pth y.pth", "", "", "x.pth y.pth", "", NULL);
    check("x.safetensors x.pth", "x.pth", "", "x.pth", "x.pth", NULL);
}

static void what_is_missing(void **state)
{
    (void)state;
    check("config.json", "", "", "config.json", "", "a file of weights");
    check("", "x.pth", "", "", "x.pth", "x.pth");
    check("d.safetensors.index.json", "", "", "d.safetensors.index.json", "", "the shards of d.safetensors.index.json");
    check("d-00001-of-00003.safetensors d.safetensors.index.json d-00003-of-00003.safetensors", "", "",
          "d-00001-of-00003.safetensors d.safetensors.index.json d-00003-of-00003.safetensors", "",
          "1 of the 3 shards of d.safetensors.index.json");
    check("d-1-of-3.safetensors d.safetensors.index.json e-00001-of-00001.safetensors", "", "",
          "d.safetensors.index.json", "", "the shards of d.safetensors.index.json");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pipeline),
        cmocka_unit_test(a_plain_repository),
        cmocka_unit_test(what_is_missing),
    };
    return cmocka_run_group_tests_name("test_hub_select", tests, NULL, NULL);
}
