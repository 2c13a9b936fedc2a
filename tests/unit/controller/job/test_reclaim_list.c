/* SPDX-License-Identifier: Apache-2.0 */
/* test_reclaim_list.c - the jobs whose removal frees most, largest first, bounded */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "controller/job/reclaim_list.h"

#define GIB ((int64_t)1 << 30)

static void largest_first(void **state)
{
    (void)state;
    struct reclaim_item items[] = { { 3, 2 * GIB }, { 5, 0 }, { 7, 10 * GIB }, { 2, 2 * GIB } };
    char text[400];
    reclaim_list_text(text, sizeof(text), items, 4);
    assert_string_equal(text, "jobctl remove --checkpoints 7 2 3 would free 14.0 GiB (job 7: 10.0 GiB, job 2: 2.0 GiB, "
                              "job 3: 2.0 GiB)");
}

static void nothing_to_free(void **state)
{
    (void)state;
    struct reclaim_item items[] = { { 3, RECLAIM_LEAST - 1 } };
    char text[400] = "x";
    reclaim_list_text(text, sizeof(text), items, 1);
    assert_string_equal(text, "");
    reclaim_list_text(text, sizeof(text), items, 0);
    assert_string_equal(text, "");
}

/* The largest of many, and their sum, with the longest numbers: all fits into the text of a job. */
static void many(void **state)
{
    (void)state;
    struct reclaim_item items[100];
    char text[400];
    for (int i = 0; i < 100; i++)
        items[i] = (struct reclaim_item){ 9000000000000 + i, (i % 10 + 1) * 1023 * GIB };
    reclaim_list_text(text, sizeof(text), items, 100);
    assert_int_equal(items[RECLAIM_NAMED - 1].bytes, 10 * 1023 * GIB);
    assert_non_null(strstr(text, "--checkpoints 9000000000009 9000000000019 "));
    assert_null(strstr(text, "9000000000089"));
    assert_int_equal(text[strlen(text) - 1], ')');
}

/* The largest two whose paths fit, each whole. */
static void dirs(void **state)
{
    (void)state;
    char text[300], far[400];
    memset(far, 'x', sizeof(far) - 1);
    far[sizeof(far) - 1] = '\0';
    struct reclaim_dir found[] = { { 4, 30 * GIB, far }, { 1, RECLAIM_LEAST - 1, "/small" }, { 9, GIB, "/b" },
                                   { 7, 2 * GIB, "/a" }, { 8, GIB / 2, "/c" } };
    reclaim_list_dirs(text, sizeof(text), found, 5);
    assert_string_equal(text, "delete by hand what you no longer need: /a (job 7: 2.0 GiB), /b (job 9: 1.0 GiB)");
    reclaim_list_dirs(text, sizeof(text), found + 4, 1);
    assert_string_equal(text, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(largest_first), cmocka_unit_test(nothing_to_free),
                                        cmocka_unit_test(many), cmocka_unit_test(dirs) };
    return cmocka_run_group_tests_name("reclaim list", tests, NULL, NULL);
}
