/* SPDX-License-Identifier: Apache-2.0 */
/* test_run_dir.c - the lock of a directory, and the fence that keeps every agent out */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/os/run_dir.h"
#include "engine/base/err.h"
#include "tests/unit/engine/contract/scratch_dir.h"

static char dir[256];

static int setup(void **state)
{
    (void)state;
    scratch_dir_create(dir, sizeof(dir), "run");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    static const char *const files[] = { RUN_DIR_LOCK, RUN_DIR_FENCED, RUN_DIR_IDENTITY };
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        char path[600];
        snprintf(path, sizeof(path), "%s/%s", dir, files[i]);
        unlink(path);
    }
    return rmdir(dir);
}

static void lock_and_fence(void **state)
{
    (void)state;
    struct err err = { 0 };
    int fd = run_dir_lock(dir, &err);
    assert_true(fd >= 0);
    assert_int_equal(run_dir_lock(dir, &err), -1);
    assert_int_equal(err.code, ERR_CONFLICT);
    assert_false(run_dir_fenced(dir));
    assert_int_equal(run_dir_fence(dir, "so it is", NULL), 0);
    char why[8];
    run_dir_fence_why(why, sizeof(why), dir);
    assert_string_equal(why, "so it i"); /* what fits */
    assert_true(run_dir_fenced(dir));
    assert_int_equal(run_dir_held(dir), 1);
    close(fd);
    assert_int_equal(run_dir_held(dir), 0);
    assert_int_equal(run_dir_held("/nowhere/at all"), -1);
    fd = run_dir_lock(dir, NULL);
    assert_true(fd >= 0);
    close(fd);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = { CASE(lock_and_fence) };
    return cmocka_run_group_tests_name("run_dir", tests, NULL, NULL);
}
