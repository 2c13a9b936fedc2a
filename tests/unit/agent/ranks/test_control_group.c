/* SPDX-License-Identifier: Apache-2.0 */
/* test_control_group.c - which file is trusted, and when a whole group is killed; a directory simulates the group */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/base/tree.h"
#include "agent/ranks/control_group.h"
#include "engine/base/err.h"
#include "tests/unit/engine/contract/scratch_dir.h"

static char dir[256], group[300];

static int setup(void **state)
{
    (void)state;
    scratch_dir_create(dir, sizeof(dir), "group");
    snprintf(group, sizeof(group), "%s/jobctl-0123456789abcdef", dir);
    return mkdir(group, 0700);
}

static int teardown(void **state)
{
    (void)state;
    struct err err = {0};
    return tree_remove(AT_FDCWD, dir, &err);
}

static void put(const char *in, const char *name, const char *text)
{
    char path[400];
    snprintf(path, sizeof(path), "%s/%s", in, name);
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

/* A rank may write RUN_DIR/cgroup: what does not look like a group of ours is none. */
static void only_groups_of_ours_are_believed(void **state)
{
    (void)state;
    static const char *const others[] = {"", "/", "jobctl-0", "/sys/fs/cgroup/user.slice", "/jobctl-0/", "/jobctl-0/x"};
    static char path[CONTROL_GROUP_PATH];
    control_group_find(path, dir);
    assert_string_equal(path, "");
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        put(dir, "cgroup", others[i]);
        control_group_find(path, dir);
        assert_string_equal(path, "");
    }
    put(dir, "cgroup", group);
    control_group_find(path, dir);
    assert_string_equal(path, group);
    snprintf(path, sizeof(path), "%s/cgroup", dir);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    control_group_find(path, dir);
    assert_string_equal(path, "");
}

static bool was_killed(void)
{
    char path[400], text[8] = "";
    snprintf(path, sizeof(path), "%s/cgroup.kill", group);
    FILE *f = fopen(path, "re");
    assert_non_null(f);
    size_t n = fread(text, 1, sizeof(text) - 1, f);
    fclose(f);
    return n == 1 && text[0] == '1';
}

static void a_group_is_killed_only_if_all_of_it_is_known(void **state)
{
    (void)state;
    char below[400];
    pid_t pids[4];
    struct stat st;
    assert_int_equal(control_group_members(group, pids, 4), -1);
    put(group, "cgroup.procs", "11\n22\n33\n");
    put(group, "cgroup.kill", "");
    assert_int_equal(control_group_members(group, pids, 4), 3);
    assert_int_equal(pids[2], 33);
    assert_int_equal(control_group_members(group, pids, 2), 2);
    control_group_kill(group, 2);
    assert_false(was_killed());
    snprintf(below, sizeof(below), "%s/of another", group);
    assert_int_equal(mkdir(below, 0700), 0);
    if (stat(group, &st) == 0 && st.st_nlink == 3) { /* as in a cgroup; some file systems do not count */
        control_group_kill(group, 3);
        assert_false(was_killed());
    }
    assert_int_equal(rmdir(below), 0);
    control_group_kill(group, 3);
    assert_true(was_killed());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(only_groups_of_ours_are_believed, setup, teardown),
        cmocka_unit_test_setup_teardown(a_group_is_killed_only_if_all_of_it_is_known, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
