/* SPDX-License-Identifier: Apache-2.0 */
/* test_shrink_pace.c - a busy store is shrunk rarely, but not never; a quiet one at each check */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "db/shrink_pace.h"

/* One look each second, at each of which `rows` more are written: how many of `looks` may shrink it? */
static int allowed(struct shrink_pace *p, int looks, int64_t rows)
{
    int n = 0;
    for (int i = 0; i < looks; i++) {
        const int64_t now = p->rows + rows;
        n += shrink_pace_allows(p, now, p->looked_ms + 1000);
        p->rows = now;
    }
    return n;
}

static void quiet(void **state)
{
    (void)state;
    struct shrink_pace p = { .looked_ms = 5000 };
    assert_int_equal(allowed(&p, 20, 0), 20);
    assert_int_equal(allowed(&p, 20, SHRINK_BUSY_ROWS), 20);
}

static void busy(void **state)
{
    (void)state;
    struct shrink_pace p = { .looked_ms = 5000 };
    assert_int_equal(allowed(&p, SHRINK_BUSY_LOOKS - 1, 2500), 0);      /* a hundred short jobs a second */
    assert_int_equal(allowed(&p, 1, 2500), 1);
    assert_int_equal(allowed(&p, 100, 2500), 100 / SHRINK_BUSY_LOOKS);
    assert_int_equal(allowed(&p, 1, 0), 1);                             /* quiet again: at once */
}

/* By the time since the last look, however long, and without the rows that the caller has taken out. */
static void by_rate(void **state)
{
    (void)state;
    struct shrink_pace p = { .rows = 100000, .looked_ms = 5000 };
    assert_true(shrink_pace_allows(&p, 100000 + SHRINK_BUSY_ROWS / 10, 5100));
    p.rows = 100000 + SHRINK_BUSY_ROWS / 10;
    assert_false(shrink_pace_allows(&p, p.rows + SHRINK_BUSY_ROWS / 10 + 1, 5200));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(quiet), cmocka_unit_test(busy), cmocka_unit_test(by_rate) };
    return cmocka_run_group_tests_name("shrink pace", tests, NULL, NULL);
}
