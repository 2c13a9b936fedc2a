/* SPDX-License-Identifier: Apache-2.0 */
/* test_dir_walk.c - all entries except the dots; an error is not the end of the directory */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/dir_walk.h"
#include "engine/base/err.h"

static DIR *make(char dir[32])
{
    char path[64];
    strcpy(dir, "/tmp/dir_walk.XXXXXX");
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/one", dir);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof(path), "%s/.two", dir);
    assert_int_equal(mkdir(path, 0700), 0);
    return opendir(dir);
}

static void drop(DIR *d, const char *dir)
{
    char path[64];
    closedir(d);
    snprintf(path, sizeof(path), "%s/one", dir);
    rmdir(path);
    snprintf(path, sizeof(path), "%s/.two", dir);
    rmdir(path);
    assert_int_equal(rmdir(dir), 0);
}

static void test_entries(void **state)
{
    char dir[32];
    struct err err = {0};
    struct dirent *e;
    int n = 0, rc;
    DIR *d = make(dir);
    (void)state;
    while ((rc = dir_walk_next(&e, d, dir, &err)) > 0)
        n += strcmp(e->d_name, "one") == 0 || strcmp(e->d_name, ".two") == 0 ? 1 : 100;
    assert_int_equal(rc, 0);
    assert_int_equal(n, 2);
    assert_int_equal(dir_walk_next(&e, NULL, dir, &err), 0);
    assert_int_equal(err.code, ERR_NONE);
    drop(d, dir);
}

/* The descriptor of the list leads to something that cannot be listed. */
static void test_error(void **state)
{
    char dir[32];
    struct err err = {0};
    struct dirent *e;
    DIR *d = make(dir);
    const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    (void)state;
    assert_true(dup2(null, dirfd(d)) >= 0);
    close(null);
    assert_int_equal(dir_walk_next(&e, d, "/some/where", &err), -1);
    assert_string_equal(err.text, "cannot read the directory /some/where: Not a directory");
    assert_int_equal(dir_walk_next(&e, d, "/some/where", NULL), -1);
    drop(d, dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_entries),
        cmocka_unit_test(test_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
