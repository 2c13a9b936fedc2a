/* SPDX-License-Identifier: Apache-2.0 */
/* test_integrity.c - a damaged store or row is reported, with what to do */
#include "db/attempts.h"
#include "tests/unit/db/store_fixture.h"

static void not_a_store(void **state)
{
    (void)state;
    FILE *f = fopen(store_path, "w");
    assert_non_null(f);
    for (int i = 0; i < 100; i++)
        fputs("this is not a database at all\n", f);
    fclose(f);
    struct err err = { 0 };
    struct store *s = NULL;
    assert_int_equal(store_open(&s, store_path, &err), -1);
    assert_non_null(strstr(err.text, "jobs.db is damaged"));
    assert_non_null(strstr(err.text, "replaces it with its newest copy"));
}

static void seen(void *arg, const char *text)
{
    assert_non_null(strstr(text, "is damaged"));
    ++*(int *)arg;
}

/* An index of another table: the full check finds it, and the hook hears of it. */
static void a_damaged_store_is_told(void **state)
{
    (void)state;
    struct err err = { 0 };
    int told = 0;
    struct store *s = opened();
    insert(s, 1, "sana", "done");
    assert_int_equal(sqlite3_exec(store_handle(s), "PRAGMA writable_schema=ON; UPDATE sqlite_schema SET rootpage = "
                                  "(SELECT rootpage FROM sqlite_schema WHERE name='attempts_ended') WHERE "
                                  "name='jobs_by_name'", 0, 0, 0), SQLITE_OK);
    store_close(s);
    integrity_hook(seen, &told);
    assert_int_equal(store_open(&s, store_path, &err), 0);
    store_close(s);
    assert_int_equal(told, 0);
    assert_int_equal(store_open_checked(&s, store_path, INTEGRITY_FULL, &err), -1);
    assert_non_null(strstr(err.text, "replaces it with its newest copy"));
    assert_int_equal(told, 1);
    integrity_hook(NULL, NULL);
}

/* What is no text is shown as such, and the row is known as damaged. */
static void a_damaged_row_is_told(void **state)
{
    (void)state;
    struct err err = { 0 };
    struct store *s = opened();
    struct job_row row;
    insert(s, 1, "sana", "done");
    insert(s, 2, "s\303\266", "done");
    assert_int_equal(sqlite3_exec(store_handle(s), "UPDATE jobs SET name=x'ff61' WHERE id=1", 0, 0, 0), SQLITE_OK);
    assert_int_equal(jobs_get(&row, s, 1, &err), 0);
    assert_true(row.damaged);
    assert_string_equal(row.name, "?a");
    assert_non_null(strstr(row.reason, "damaged"));
    assert_int_equal(jobs_get(&row, s, 2, &err), 0);
    assert_false(row.damaged);
    store_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(not_a_store),
        STORE_CASE(a_damaged_store_is_told),
        STORE_CASE(a_damaged_row_is_told),
    };
    return cmocka_run_group_tests_name("integrity", tests, NULL, NULL);
}
