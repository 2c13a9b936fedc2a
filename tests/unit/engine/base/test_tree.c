/* SPDX-License-Identifier: Apache-2.0 */
/* test_tree.c - a tree is measured and removed; the targets of links stay; see engine/base/tree.h */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/tree.h"
#include "engine/base/err.h"
#include "tests/unit/engine/contract/scratch_dir.h"

static char root[256];
static int at;

static bool there(const char *name)
{
    return faccessat(at, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static void write_file(const char *name, size_t bytes)
{
    int fd = openat(at, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    for (size_t i = 0; i < bytes; i += 4096) {
        const char block[4096] = {1};
        assert_int_equal(write(fd, block, sizeof(block)), sizeof(block));
    }
    close(fd);
}

static int up(void **state)
{
    (void)state;
    scratch_dir_create(root, sizeof(root), "tree");
    return (at = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) >= 0 ? 0 : -1;
}

static int down(void **state)
{
    (void)state;
    close(at);
    return rmdir(root);
}

static void all_of_it_goes_and_was_counted(void **state)
{
    (void)state;
    assert_int_equal(mkdirat(at, "job", 0700) | mkdirat(at, "job/1", 0700) | mkdirat(at, "job/1/a", 0700), 0);
    write_file("job/1/a/log", 40960);
    write_file("job/1/log", 8192);
    write_file("beside", 4096);
    const int64_t bytes = tree_bytes(at, "job");
    assert_true(bytes >= 40960 + 8192 && bytes < 40960 + 8192 + 64 * 1024);
    assert_int_equal(tree_remove(at, "job", NULL), 0);
    assert_false(there("job"));
    assert_true(there("beside"));
    assert_int_equal(tree_remove(at, "beside", NULL), 0); /* a file is a small tree */
}

static void nothing_there_is_nothing_to_do(void **state)
{
    struct err err = {.code = ERR_NONE};
    (void)state;
    assert_int_equal(tree_bytes(at, "none"), 0);
    assert_int_equal(tree_remove(at, "none", &err), 0);
    assert_int_equal(err.code, ERR_NONE);
}

static void a_link_goes_and_what_it_leads_to_stays(void **state)
{
    (void)state;
    assert_int_equal(mkdirat(at, "precious", 0700) | mkdirat(at, "job", 0700), 0);
    write_file("precious/weights", 40960);
    assert_int_equal(symlinkat("../precious", at, "job/dir") | symlinkat("../precious/weights", at, "job/file") |
                     symlinkat("nowhere", at, "job/broken") | symlinkat("precious", at, "link"), 0);
    assert_true(tree_bytes(at, "job") < 40960);
    assert_true(tree_bytes(at, "link") < 40960);
    assert_int_equal(tree_remove(at, "job", NULL), 0);
    assert_int_equal(tree_remove(at, "link", NULL), 0);
    assert_false(there("job") || there("link"));
    assert_true(there("precious/weights"));
    assert_int_equal(tree_remove(at, "precious", NULL), 0);
}

static void what_is_too_deep_stays_and_is_told(void **state)
{
    char path[3 * (TREE_DEPTH + 8)] = "d";
    struct err err = {.code = ERR_NONE};
    (void)state;
    for (int i = 0; i < TREE_DEPTH + 4; i++) {
        assert_int_equal(mkdirat(at, path, 0700), 0);
        strcat(path, "/d");
    }
    write_file("d/file", 4096);
    assert_int_equal(tree_remove(at, "d", &err), -1);
    assert_int_equal(err.code, ERR_SYSTEM);
    assert_true(there("d"));
    assert_false(there("d/file")); /* what can go is gone */
    for (char *slash; (slash = strrchr(path, '/')); unlinkat(at, path, AT_REMOVEDIR))
        *slash = '\0';
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(all_of_it_goes_and_was_counted, up, down),
        cmocka_unit_test_setup_teardown(nothing_there_is_nothing_to_do, up, down),
        cmocka_unit_test_setup_teardown(a_link_goes_and_what_it_leads_to_stays, up, down),
        cmocka_unit_test_setup_teardown(what_is_too_deep_stays_and_is_told, up, down),
    };
    return cmocka_run_group_tests_name("tree", tests, NULL, NULL);
}
