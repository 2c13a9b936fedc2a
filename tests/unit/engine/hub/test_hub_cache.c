/* SPDX-License-Identifier: Apache-2.0 */
/* test_hub_cache.c - a hub cache made by another program: links, plain files, what is missing, its place */
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
#include "engine/base/scratch.h"
#include "engine/hub/hub_cache.h"
#include "tests/unit/engine/contract/scratch_dir.h"

#define COMMIT "0123456789abcdef0123456789abcdef01234567"
#define REPO   "models--me--x"

static char root[PATH_MAX / 2];

static void put(const char *path, const char *text)
{
    char whole[PATH_MAX], dir[PATH_MAX];
    snprintf(whole, sizeof(whole), "%s/hub/" REPO "/%s", root, path);
    snprintf(dir, sizeof(dir), "%.*s", (int)(strrchr(whole, '/') - whole), whole);
    assert_int_equal(scratch_mkdirs(dir, NULL), 0);
    FILE *f = fopen(whole, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void link_to(const char *blob, const char *path)
{
    char whole[PATH_MAX];
    put(path, "");
    snprintf(whole, sizeof(whole), "%s/hub/" REPO "/%s", root, path);
    assert_int_equal(unlink(whole), 0);
    assert_int_equal(symlink(blob, whole), 0);
}

static void expect_path(const char *name, const char *parts, const char *below)
{
    char path[PATH_MAX], want[PATH_MAX];
    struct err err = {0};
    if (hub_cache_open(path, name, parts, &err) < 0)
        fail_msg("%s: %s", name, err.text);
    snprintf(want, sizeof(want), "%s/hub/" REPO "/snapshots/" COMMIT "%s", root, below);
    assert_string_equal(path, want);
}

static void expect_missing(const char *name, const char *why)
{
    char path[PATH_MAX];
    struct err err = {0};
    assert_int_equal(hub_cache_open(path, name, "transformer", &err), -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    assert_non_null(strstr(err.text, why));
    assert_non_null(strstr(err.text, "run `jobctl fetch hf://me/"));
}

static void what_is_there_is_found(void **state)
{
    char path[PATH_MAX];
    (void)state;
    expect_missing("hf://me/x", "the commit of this revision");
    put("refs/main", COMMIT);
    put("refs/refs/pr/2", COMMIT "\n");
    expect_missing("hf://me/x", "a file of weights");
    put("blobs/a1", "weights");
    link_to("../../../blobs/a1", "snapshots/" COMMIT "/vae/m.safetensors");
    link_to("../../blobs/none", "snapshots/" COMMIT "/lost.safetensors");
    expect_path("hf://me/x/vae", "", "/vae");
    expect_path("hf://me/x@" COMMIT "/vae/m.safetensors", "", "/vae/m.safetensors");
    expect_path("hf://me/x@refs/pr/2", "transformer", "/vae"); /* the only weights */
    expect_missing("hf://me/x/lost.safetensors", "lost.safetensors");
    expect_missing("hf://me/x@v2", "the commit of this revision");
    expect_missing("hf://me/y", "the commit of this revision");
    put("snapshots/" COMMIT "/plain.pth", "a file, as where there are no links");
    expect_path("hf://me/x", "", "");
    assert_int_equal(hub_cache_open(path, "/some/file", "", NULL), 0);
    assert_string_equal(path, "/some/file");
}

static void the_place_of_the_cache(void **state)
{
    static const struct {
        const char *cache, *home, *xdg, *user, *want;
    } rows[] = {
        {"/c", "/h", "/x", "/u", "/c"},        {"", "/h", "/x", "/u", "/h/hub"},
        {NULL, NULL, "/x", "/u", "/x/huggingface/hub"}, {NULL, NULL, NULL, "/u", "/u/.cache/huggingface/hub"},
        {"~/c", NULL, NULL, "/u", "/u/c"},
    };
    char dir[PATH_MAX];
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        const char *const set[][2] = {{"HF_HUB_CACHE", rows[i].cache}, {"HF_HOME", rows[i].home},
                                      {"XDG_CACHE_HOME", rows[i].xdg}, {"HOME", rows[i].user}};
        for (size_t k = 0; k < 4; k++)
            set[k][1] ? setenv(set[k][0], set[k][1], 1) : unsetenv(set[k][0]);
        assert_int_equal(hub_cache_dir(dir, NULL), 0);
        assert_string_equal(dir, rows[i].want);
    }
}

static void when_it_is_offline(void **state)
{
    static const struct {
        const char *value;
        int         offline;
    } rows[] = {{"1", 1}, {"ON", 1}, {"yes", 1}, {"True", 1}, {"0", 0}, {"", 0}, {"no", 0}};
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        setenv("HF_HUB_OFFLINE", rows[i].value, 1);
        assert_int_equal(hub_cache_is_offline(), rows[i].offline);
    }
    unsetenv("HF_HUB_OFFLINE");
    assert_false(hub_cache_is_offline());
}

static int create(void **state)
{
    static const char *const names[] = {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "XDG_CACHE_HOME", "HF_HUB_OFFLINE",
                                        "TRANSFORMERS_OFFLINE"};
    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        unsetenv(names[i]);
    scratch_dir_create(root, sizeof(root), "test_hub_cache");
    return setenv("HF_HOME", root, 1);
}

static int destroy(void **state)
{
    (void)state;
    return scratch_dir_remove(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_there_is_found),
        cmocka_unit_test(the_place_of_the_cache),
        cmocka_unit_test(when_it_is_offline),
    };
    return cmocka_run_group_tests_name("test_hub_cache", tests, create, destroy);
}
