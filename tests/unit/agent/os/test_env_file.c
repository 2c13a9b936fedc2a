/* SPDX-License-Identifier: Apache-2.0 */
/* test_env_file.c - an environment in a file, and the resulting environment of a node's ranks */
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

#include "agent/os/env_file.h"
#include "engine/base/err.h"

static char dir[] = "/tmp/jobctl-env-file-XXXXXX", path[300];

static int setup(void **state)
{
    (void)state;
    if (!mkdtemp(dir))
        return -1;
    snprintf(path, sizeof(path), "%s/env", dir);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(dir);
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    struct err err = {0};
    struct buf out = {NULL, 0, 0}, in = {NULL, 0, 0};
    struct stat st;
    assert_int_equal(env_file_put(&out, "A", "one\ntwo = three"), 0);
    assert_int_equal(env_file_put(&out, "EMPTY", ""), 0);
    assert_int_equal(env_file_put(&out, "HF_TOKEN", NULL), 0);
    assert_int_equal(env_file_put(&out, "BAD", "\xff"), 0);
    assert_int_equal(env_file_write(dir, ENV_FILE, &out, &err), 0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(env_file_read(&in, dir, ENV_FILE, &err), 0);

    const char *at = env_file_next(&in, NULL);
    assert_string_equal(at, "A=one\ntwo = three");
    assert_string_equal(at = env_file_next(&in, at), "EMPTY=");
    assert_string_equal(at = env_file_next(&in, at), "HF_TOKEN");
    assert_string_equal(at = env_file_next(&in, at), "BAD=\xff");
    assert_null(env_file_next(&in, at));
    json_t *values = env_file_values(&in), *want = json_pack("{s:s, s:s}", "A", "one\ntwo = three", "EMPTY", "");
    assert_true(json_equal(values, want));
    json_decref(values);
    json_decref(want);
    buf_fini(&out);
    buf_fini(&in);
}

static void what_is_not_whole_is_refused(void **state)
{
    (void)state;
    struct err err = {0};
    struct buf in = {NULL, 0, 0};
    assert_null(env_file_next(&in, NULL));
    assert_int_equal(env_file_read(&in, dir, "nothing", &err), -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    fputs("A=1", f);
    fclose(f);
    err = (struct err){0};
    assert_int_equal(env_file_read(&in, dir, ENV_FILE, &err), -1);
    assert_int_equal(err.code, ERR_DATA);
    buf_fini(&in);
    unlink(path);
    assert_int_equal(symlink("/etc/passwd", path), 0);
    assert_int_equal(env_file_read(&in, dir, ENV_FILE, &err), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(what_is_not_whole_is_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
