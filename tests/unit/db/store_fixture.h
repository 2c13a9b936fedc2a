/* SPDX-License-Identifier: Apache-2.0 */
/* store_fixture.h - a store in a private directory, and rows for it */
#ifndef TESTS_UNIT_DB_STORE_FIXTURE_H
#define TESTS_UNIT_DB_STORE_FIXTURE_H

#include <math.h>
#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "db/jobs.h"
#include "db/stmt.h"
#include "db/store.h"
#include "engine/base/err.h"
#include "tests/unit/engine/contract/scratch_dir.h"

#define STORE_CASE(name) cmocka_unit_test_setup_teardown(name, store_setup, store_teardown)

static char store_dir[256], store_path[300];

static inline int store_setup(void **state)
{
    (void)state;
    scratch_dir_create(store_dir, sizeof(store_dir), "store");
    snprintf(store_path, sizeof(store_path), "%s/jobs.db", store_dir);
    return 0;
}

static inline int store_teardown(void **state)
{
    (void)state;
    return scratch_dir_remove(store_dir);
}

static inline struct store *opened(void)
{
    struct err err = { 0 };
    struct store *s = NULL;
    if (store_open(&s, store_path, &err) < 0)
        fail_msg("%s", err.text);
    return s;
}

/* The first column of the first row. */
static inline int64_t number(struct store *s, const char *sql)
{
    sqlite3_stmt *st = NULL;
    assert_int_equal(sqlite3_prepare_v2(store_handle(s), sql, -1, &st, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(st), SQLITE_ROW);
    const int64_t n = sqlite3_column_int64(st, 0);
    sqlite3_finalize(st);
    return n;
}

static inline void run(struct store *s, const char *sql)
{
    assert_int_equal(sqlite3_exec(store_handle(s), sql, NULL, NULL, NULL), SQLITE_OK);
}

static inline struct job_row some_job(int64_t id, const char *name, const char *state)
{
    struct job_row row = { .id = id, .np = -1, .step = -1, .steps = -1, .exit_code = -1,
                           .retry_of = -1, .submitted_ms = 1000 + id, .started_ms = -1,
                           .ended_ms = -1, .loss = NAN, .samples_per_s = NAN };
    snprintf(row.name, sizeof(row.name), "%s", name);
    snprintf(row.state, sizeof(row.state), "%s", state);
    snprintf(row.after, sizeof(row.after), "[]");
    return row;
}

static inline void insert(struct store *s, int64_t id, const char *name, const char *state)
{
    struct err err = { 0 };
    struct job_row row = some_job(id, name, state);
    if (jobs_insert(s, &row, "name: x", "{}", &err) < 0)
        fail_msg("%s", err.text);
}

#endif
