/* SPDX-License-Identifier: Apache-2.0 */
/* test_dir_identity.c - a directory that is removed, renamed or replaced is detected, and found again */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/dir_identity.h"
#include "engine/base/err.h"

struct place {
    char                root[PATH_MAX], home[PATH_MAX + 8], inner[PATH_MAX + 16], text[2 * PATH_MAX];
    struct dir_identity d;
};

/* A directory home/inner in a new one, which is the working directory from then on. */
static int enter(void **state)
{
    struct place *p = calloc(1, sizeof(*p));
    char dir[] = "/tmp/dir_identity.XXXXXX";
    *state = p;
    assert_non_null(mkdtemp(dir));
    assert_non_null(realpath(dir, p->root));
    snprintf(p->home, sizeof(p->home), "%s/home", p->root);
    snprintf(p->inner, sizeof(p->inner), "%s/inner", p->home);
    assert_int_equal(chdir(p->root), 0);
    assert_int_equal(mkdir("home", 0700), 0);
    assert_int_equal(mkdir("home/inner", 0700), 0);
    return dir_identity_open(&p->d, p->inner, NULL);
}

static int leave(void **state)
{
    static const char *const dirs[] = {"home/inner", "home", "other/inner", "other", "inner", "x (deleted)"};
    struct place *p = *state;
    dir_identity_close(&p->d);
    for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++)
        if (rmdir(dirs[i]) < 0)
            unlink(dirs[i]);
    int rc = chdir("/") | rmdir(p->root);
    free(p);
    return rc;
}

/* Looks twice; the text. */
static const char *second_look(struct place *p)
{
    assert_false(dir_identity_gone(&p->d, p->inner));
    assert_true(dir_identity_gone(&p->d, p->inner));
    assert_false(dir_identity_here(&p->d, p->inner));
    dir_identity_text(p->text, sizeof(p->text), &p->d, p->inner);
    return strncmp(p->text, "was moved to ", 13) == 0 && strncmp(p->text + 13, p->root, strlen(p->root)) == 0
               ? p->text + 13 + strlen(p->root)
               : p->text;
}

static void an_unchanged_one_is_here(void **state)
{
    struct place *p = *state;
    for (int i = 0; i < 10; i++)
        assert_false(dir_identity_gone(&p->d, p->inner));
}

static void a_removed_one_is_gone(void **state)
{
    assert_int_equal(rmdir("home/inner"), 0);
    assert_string_equal(second_look(*state), "was removed");
}

static void a_removed_one_is_not_taken_for_its_successor(void **state)
{
    assert_int_equal(rmdir("home/inner"), 0);
    assert_int_equal(mkdir("home/inner", 0700), 0);
    assert_string_equal(second_look(*state), "was removed, and another one is in its place");
}

static void a_renamed_one_is_found(void **state)
{
    assert_int_equal(rename("home/inner", "inner"), 0);
    assert_string_equal(second_look(*state), "/inner");
}

static void one_in_a_renamed_parent_is_found(void **state)
{
    assert_int_equal(rename("home", "other"), 0);
    assert_int_equal(mkdir("home", 0700), 0);
    assert_int_equal(mkdir("home/inner", 0700), 0);
    assert_string_equal(second_look(*state), "/other/inner, and another one is in its place");
}

static void a_name_may_look_like_the_kernels_note(void **state)
{
    assert_int_equal(rename("home/inner", "x (deleted)"), 0);
    assert_string_equal(second_look(*state), "/x (deleted)");
}

static void a_file_in_its_place_is_none(void **state)
{
    assert_int_equal(rename("home", "other"), 0);
    FILE *f = fopen("home", "we");
    assert_non_null(f);
    fclose(f);
    assert_string_equal(second_look(*state), "/other/inner");
}

static void moved_away_and_back_between_two_looks_is_the_same(void **state)
{
    struct place *p = *state;
    for (int i = 0; i < 5; i++) {
        assert_int_equal(rename("home", "other"), 0);
        assert_false(dir_identity_gone(&p->d, p->inner));
        assert_int_equal(rename("other", "home"), 0);
        assert_false(dir_identity_gone(&p->d, p->inner));
    }
}

static void a_link_to_where_it_is_now_is_the_same(void **state)
{
    struct place *p = *state;
    assert_int_equal(rename("home", "other"), 0);
    assert_int_equal(symlink("other", "home"), 0);
    for (int i = 0; i < 5; i++)
        assert_false(dir_identity_gone(&p->d, p->inner));
}

/* The errors of a file system that does not answer: here a loop of links. */
static void an_error_tells_nothing(void **state)
{
    struct place *p = *state;
    assert_int_equal(rename("home", "other"), 0);
    assert_int_equal(symlink("home", "home"), 0);
    for (int i = 0; i < 5; i++)
        assert_false(dir_identity_gone(&p->d, p->inner));
}

/* As after a remount, or where inodes are renumbered: the descriptor decides. */
static void new_numbers_of_the_same_are_the_same(void **state)
{
    struct place *p = *state;
    p->d.ino++;
    p->d.dev++;
    for (int i = 0; i < 5; i++)
        assert_false(dir_identity_gone(&p->d, p->inner));
    assert_int_equal(rename("home", "other"), 0);
    assert_string_equal(second_look(p), "/other/inner");
}

static void only_directories_are_opened(void **state)
{
    struct dir_identity d;
    struct err err = {0};
    (void)state;
    assert_int_equal(dir_identity_open(&d, "/proc/version", &err), -1);
    assert_string_equal(err.text, "cannot open the directory /proc/version: Not a directory");
    assert_int_equal(d.fd, -1);
    dir_identity_close(&d);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, enter, leave)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(an_unchanged_one_is_here),
        CASE(a_removed_one_is_gone),
        CASE(a_removed_one_is_not_taken_for_its_successor),
        CASE(a_renamed_one_is_found),
        CASE(one_in_a_renamed_parent_is_found),
        CASE(a_name_may_look_like_the_kernels_note),
        CASE(a_file_in_its_place_is_none),
        CASE(moved_away_and_back_between_two_looks_is_the_same),
        CASE(a_link_to_where_it_is_now_is_the_same),
        CASE(an_error_tells_nothing),
        CASE(new_numbers_of_the_same_are_the_same),
        CASE(only_directories_are_opened),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
