/* SPDX-License-Identifier: Apache-2.0 */
/* test_cache_store.c - shards of features: entries are found by key, and damage is detected */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/err.h"
#include "engine/base/scratch.h"
#include "engine/data/cache_store.h"
#include "tests/unit/engine/contract/scratch_dir.h"

static char dir[256];

static int make_dir(void **state)
{
    (void)state;
    scratch_dir_create(dir, sizeof(dir), "cache");
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    return scratch_remove(dir, NULL);
}

static const float numbers[] = {1, 1.0000001f, -2.5f, 3e-5f, 1e20f, 0, 7};

/* Entry i: 1 + i % 3 numbers. */
static struct cache_entry entry_of(int i)
{
    struct cache_entry e = {.x = numbers + i % 4, .n = 1 + (size_t)i % 3};
    digest_raw(e.key.byte, &i, sizeof(i));
    return e;
}

static void write_shard(const char *name, enum st_dtype dtype, int from, int to)
{
    struct cache_entry e[16];
    struct err err = {0};
    char path[300];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    mkdir(path, 0755);
    for (int i = from; i < to; i++)
        e[i - from] = entry_of(i);
    assert_int_equal(cache_shard_write(path, dtype, e, to - from, &err), 0);
}

static void path_of(char *path, size_t size, const char *name, int from, int to)
{
    struct cache_entry e[16];
    char file[CACHE_NAME];
    for (int i = from; i < to; i++)
        e[i - from] = entry_of(i);
    cache_shard_name(file, e, to - from);
    snprintf(path, size, "%s/%s/%s", dir, name, file);
}

static int bads;

static void on_bad(void *arg, const char *path, const char *why)
{
    (void)arg;
    assert_non_null(strstr(path, ".safetensors"));
    assert_true(why[0]);
    bads++;
}

static struct cache_store *open_store(const char *name, bool all)
{
    struct cache_store *s;
    struct err err = {0};
    char path[300];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    bads = 0;
    assert_int_equal(cache_store_open(&s, path, all, on_bad, NULL, &err), 0);
    return s;
}

static void finds_by_key(void **state)
{
    (void)state;
    write_shard("a", ST_F32, 0, 5);
    write_shard("a", ST_F32, 5, 9);
    write_shard("a", ST_F32, 3, 7); /* again */
    struct cache_store *s = open_store("a", true);
    struct err err = {0};
    for (int i = 0; i < 9; i++) {
        const struct cache_entry e = entry_of(i);
        const int64_t at = cache_store_find(s, &e.key);
        float x[3];
        assert_true(at >= 0);
        assert_int_equal(cache_store_count(s, at), e.n);
        assert_int_equal(cache_store_get(s, at, x, &err), 0);
        assert_memory_equal(x, e.x, e.n * sizeof(float));
    }
    const struct cache_entry other = entry_of(9);
    assert_int_equal(cache_store_find(s, &other.key), -1);
    assert_int_equal(bads, 0);
    cache_store_close(s);
}

/* Rounded to the nearest of two bytes less. */
static void stores_bf16(void **state)
{
    (void)state;
    write_shard("b", ST_BF16, 0, 4);
    struct cache_store *s = open_store("b", true);
    struct err err = {0};
    const struct cache_entry e = entry_of(2);
    float x[3];
    assert_int_equal(cache_store_get(s, cache_store_find(s, &e.key), x, &err), 0);
    assert_true(x[0] == -2.5f && x[1] > 2.98e-5f && x[1] < 3.02e-5f && x[2] > 0.996e20f && x[2] < 1.004e20f);
    assert_true(x[1] != 3e-5f);
    cache_store_close(s);
}

static void same_entries_same_bytes(void **state)
{
    char one[400], two[400];
    char a[2000], b[2000];
    (void)state;
    write_shard("c", ST_F32, 0, 5);
    write_shard("d", ST_F32, 0, 5);
    path_of(one, sizeof(one), "c", 0, 5);
    path_of(two, sizeof(two), "d", 0, 5);
    FILE *f = fopen(one, "r"), *g = fopen(two, "r");
    assert_true(f && g);
    const size_t n = fread(a, 1, sizeof(a), f);
    assert_int_equal(fread(b, 1, sizeof(b), g), n);
    assert_memory_equal(a, b, n);
    fclose(f);
    fclose(g);
}

static void put_byte(const char *path, long from_end)
{
    FILE *f = fopen(path, "r+");
    assert_non_null(f);
    fseek(f, -from_end, SEEK_END);
    const int was = fgetc(f);
    fseek(f, -from_end, SEEK_END);
    fputc(was ^ 1, f);
    fclose(f);
}

/* A flipped bit is seen when it is looked for, or when the entry is read: then the shard goes. */
static void notices_damage(void **state)
{
    char path[400];
    struct err err = {0};
    float x[3];
    (void)state;
    write_shard("e", ST_F32, 0, 5);
    write_shard("e", ST_F32, 5, 9);
    path_of(path, sizeof(path), "e", 0, 5);
    put_byte(path, 1); /* of the last digest */
    struct cache_store *s = open_store("e", true);
    assert_int_equal(bads, 1);
    const struct cache_entry good = entry_of(0), bad = entry_of(4), other = entry_of(8);
    assert_int_equal(cache_store_find(s, &bad.key), -1);
    assert_true(cache_store_find(s, &other.key) >= 0);
    cache_store_close(s);
    s = open_store("e", false);
    assert_int_equal(bads, 0);
    assert_int_equal(cache_store_get(s, cache_store_find(s, &good.key), x, &err), 0);
    assert_int_equal(cache_store_get(s, cache_store_find(s, &bad.key), x, &err), -1);
    assert_int_equal(err.code, ERR_SYSTEM);
    assert_non_null(strstr(err.text, "the next start encodes its samples again"));
    assert_int_equal(access(path, F_OK), -1);
    cache_store_close(s);
}

static void passes_over_other_files(void **state)
{
    char path[400];
    (void)state;
    write_shard("f", ST_F32, 0, 5);
    path_of(path, sizeof(path), "f", 0, 5);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(truncate(path, st.st_size - 1), 0);
    snprintf(path, sizeof(path), "%s/f/about.json", dir);
    FILE *f = fopen(path, "w");
    fputs("{}", f);
    fclose(f);
    struct cache_store *s = open_store("f", false);
    const struct cache_entry any = entry_of(0);
    assert_int_equal(bads, 1);
    assert_int_equal(cache_store_find(s, &any.key), -1);
    cache_store_close(s);
    s = open_store("none", false);
    assert_int_equal(cache_store_find(s, &any.key), -1);
    cache_store_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_by_key),         cmocka_unit_test(stores_bf16),
        cmocka_unit_test(same_entries_same_bytes), cmocka_unit_test(notices_damage),
        cmocka_unit_test(passes_over_other_files),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
