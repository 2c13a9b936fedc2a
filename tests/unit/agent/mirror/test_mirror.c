/* SPDX-License-Identifier: Apache-2.0 */
/* test_mirror.c - checkpoints are copied there and back, completely or not at all */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/mirror/mirror.h"
#include "engine/base/err.h"
#include "engine/contract/manifest.h"
#include "engine/base/scratch.h"
#include "tests/unit/engine/contract/scratch_dir.h"

static char          dir[256], bad[512];
static struct mirror m;

static void put(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void in(char *out, const char *root, const char *name)
{
    snprintf(out, 600, "%.250s/%.300s", root, name);
}

/* A checkpoint of two files below `root`. */
static void save(const char *root, int64_t step, const char *text)
{
    static const char *const names[] = {"model.safetensors", "state.json", NULL};
    char step_dir[600], path[600], name[32];
    struct manifest made;
    struct err err = {0};
    snprintf(name, sizeof(name), "step-%08lld", (long long)step);
    in(step_dir, root, name);
    assert_int_equal(scratch_mkdirs(step_dir, &err), 0);
    for (int i = 0; names[i]; i++) {
        in(path, step_dir, names[i]);
        put(path, text);
    }
    assert_int_equal(manifest_write(&made, step_dir, step, names, &err), 0);
}

static bool there(int64_t step)
{
    char name[64], path[600];
    struct manifest found;
    snprintf(name, sizeof(name), "checkpoints/step-%08lld", (long long)step);
    in(path, m.there, name);
    return manifest_verify(&found, path, NULL) == 0;
}

static void note_bad(void *arg, const char *path, const char *reason)
{
    (void)arg;
    (void)reason;
    snprintf(bad, sizeof(bad), "%s", path);
}

static int make(void **state)
{
    (void)state;
    struct err err = {0};
    scratch_dir_create(dir, sizeof(dir), "mirror");
    m.keep = 2;
    in(m.here, dir, "job/checkpoints");
    in(m.there, dir, "drive/icons");
    in(m.job_dir, dir, "job");
    bad[0] = '\0';
    return mirror_open(&m, &err);
}

static int clean(void **state)
{
    (void)state;
    return scratch_remove(dir, NULL);
}

static void the_newest_is_copied_once(void **state)
{
    (void)state;
    struct mirror_copy done;
    struct err err = {0};
    assert_int_equal(mirror_push(&m, &done, &err), 0);
    for (int64_t step = 10; step <= 40; step += 10) {
        save(m.here, step, "weights");
        assert_int_equal(mirror_push(&m, &done, &err), 1);
        assert_int_equal(done.step, step);
        assert_int_equal(done.bytes, 14);
        assert_int_equal(mirror_push(&m, &done, &err), 0);
        assert_true(there(step));
    }
    assert_true(!there(20) && there(30)); /* keep: 2 */
}

static void a_run_that_went_back_is_followed(void **state)
{
    (void)state;
    struct mirror_copy done;
    struct err err = {0};
    char path[600];
    save(m.here, 10, "first");
    save(m.here, 20, "first");
    assert_int_equal(mirror_push(&m, &done, &err), 1);
    in(path, m.here, "step-00000020");
    assert_int_equal(scratch_remove(path, &err), 0);
    save(m.here, 15, "second");
    assert_int_equal(mirror_push(&m, &done, &err), 1);
    assert_true(there(15) && !there(20));
    /* and the same step with other bytes is another checkpoint */
    in(path, m.here, "step-00000015");
    assert_int_equal(scratch_remove(path, &err), 0);
    save(m.here, 15, "third");
    assert_int_equal(mirror_push(&m, &done, &err), 1);
    assert_int_equal(mirror_push(&m, &done, &err), 0);
}

static void what_is_damaged_here_does_not_arrive(void **state)
{
    (void)state;
    struct mirror_copy done;
    struct err err = {0};
    char path[600];
    save(m.here, 10, "weights");
    in(path, m.here, "step-00000010/model.safetensors");
    put(path, "weighty");
    assert_int_equal(mirror_push(&m, &done, &err), -1);
    assert_int_equal(err.code, ERR_DATA);
    assert_false(there(10));
}

static void a_new_machine_takes_the_newest_whole_one(void **state)
{
    (void)state;
    struct mirror_copy done;
    struct err err = {0};
    struct manifest found;
    char path[600];
    save(m.here, 10, "ten");
    assert_int_equal(mirror_push(&m, &done, &err), 1);
    save(m.here, 20, "twenty");
    assert_int_equal(mirror_push(&m, &done, &err), 1);
    assert_int_equal(mirror_pull(&m, &done, note_bad, NULL, &err), 0); /* nothing newer there */
    assert_int_equal(scratch_remove(m.here, &err), 0);
    assert_int_equal(mirror_open(&m, &err), 0);
    in(path, m.there, "checkpoints/step-00000020/state.json");
    assert_int_equal(truncate(path, 3), 0);
    assert_int_equal(mirror_pull(&m, &done, note_bad, NULL, &err), 1);
    assert_int_equal(done.step, 10);
    assert_non_null(strstr(bad, "step-00000020"));
    in(path, m.here, "step-00000010");
    assert_int_equal(manifest_verify(&found, path, &err), 0);
    assert_int_equal(mirror_pull(&m, &done, note_bad, NULL, &err), 0);
}

/* It is not "no checkpoint there": training would begin again. */
static void a_mirror_that_cannot_be_listed_is_an_error(void **state)
{
    struct mirror_copy done;
    struct err err = {0};
    char path[600];
    (void)state;
    in(path, m.there, "checkpoints");
    assert_int_equal(scratch_remove(path, &err), 0);
    put(path, "a file");
    assert_int_equal(mirror_pull(&m, &done, note_bad, NULL, &err), -1);
    assert_non_null(strstr(err.text, "cannot open the directory"));
}

static void read_text(char *out, size_t size, const char *root, const char *name)
{
    char path[600];
    in(path, root, name);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    size_t n = fread(out, 1, size - 1, f);
    out[n] = '\0';
    fclose(f);
}

static void history_goes_along_and_comes_back(void **state)
{
    (void)state;
    struct err err = {0};
    char path[600], text[200];
    assert_int_equal(mirror_inherit(&m, &err), 0);
    for (int attempt = 1; attempt <= 2; attempt++) {
        char name[64];
        snprintf(name, sizeof(name), "%d", attempt);
        in(path, m.job_dir, name);
        assert_int_equal(mkdir(path, 0700), 0);
        snprintf(name, sizeof(name), "%d/history.jsonl", attempt);
        in(path, m.job_dir, name);
        put(path, attempt == 1 ? "{\"a\":1}\n" : "{\"a\":2}\n");
    }
    in(path, m.here, "metrics.jsonl");
    put(path, "curve\n");
    assert_int_equal(mirror_rest(&m, &err), 0);
    read_text(text, sizeof(text), m.there, "history.jsonl");
    assert_string_equal(text, "{\"a\":1}\n{\"a\":2}\n");
    read_text(text, sizeof(text), m.there, "checkpoints/metrics.jsonl");
    assert_string_equal(text, "curve\n");

    in(m.job_dir, dir, "other");
    assert_int_equal(mkdir(m.job_dir, 0700), 0);
    assert_int_equal(mirror_inherit(&m, &err), 0);
    assert_int_equal(mirror_rest(&m, &err), 0);
    assert_int_equal(mirror_inherit(&m, &err), 0); /* not twice */
    assert_int_equal(mirror_rest(&m, &err), 0);
    read_text(text, sizeof(text), m.there, "history.jsonl");
    assert_string_equal(text, "{\"a\":1}\n{\"a\":2}\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_newest_is_copied_once, make, clean),
        cmocka_unit_test_setup_teardown(a_run_that_went_back_is_followed, make, clean),
        cmocka_unit_test_setup_teardown(what_is_damaged_here_does_not_arrive, make, clean),
        cmocka_unit_test_setup_teardown(a_new_machine_takes_the_newest_whole_one, make, clean),
        cmocka_unit_test_setup_teardown(a_mirror_that_cannot_be_listed_is_an_error, make, clean),
        cmocka_unit_test_setup_teardown(history_goes_along_and_comes_back, make, clean),
    };
    return cmocka_run_group_tests_name("mirror", tests, NULL, NULL);
}
