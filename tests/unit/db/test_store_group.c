/* SPDX-License-Identifier: Apache-2.0 */
/* test_store_group.c - a transaction is complete or has no effect, even if several writers share it */
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/db/store_fixture.h"

static void rollback_leaves_nothing(void **state)
{
    (void)state;
    struct err err = { 0 };
    struct store *s = opened();
    assert_int_equal(store_begin(s, &err), 0);
    insert(s, 1, "x", "pending");
    store_rollback(s);
    struct job_row row;
    assert_int_equal(jobs_get(&row, s, 1, &err), -1);
    store_close(s);
}

static bool stored(struct store *s, int64_t id)
{
    struct job_row row;
    return jobs_get(&row, s, id, NULL) == 0;
}

static void write_in_group(struct store *s, int64_t id, bool keep)
{
    struct err err = { 0 };
    assert_int_equal(store_join(s, &err), 0);
    insert(s, id, "x", "pending");
    if (keep)
        assert_int_equal(store_leave(s, &err), 0);
    else
        store_undo(s);
}

/* Three writers, one transaction: one of them takes back what it wrote, and the others are not affected. */
static void a_group(void **state)
{
    (void)state;
    struct err err = { 0 };
    struct store *s = opened(), *other = opened();      /* the other one sees what was committed */
    write_in_group(s, 1, true);
    write_in_group(s, 2, false);
    write_in_group(s, 3, true);
    assert_false(stored(other, 1));
    assert_int_equal(store_commit_group(s, &err), 0);
    assert_true(stored(other, 1));
    assert_false(stored(other, 2));
    assert_true(stored(other, 3));
    assert_int_equal(store_commit_group(s, &err), 0); /* nothing to do */
    store_close(other);
    store_close(s);
}

struct settling {
    struct store *store;
    int           calls;
};

static void settle(void *arg)
{
    struct settling *settling = arg;
    settling->calls++;
    store_commit_group(settling->store, NULL);
}

/* Nobody reads or joins what may still fail: whoever uses the store beside the group settles it first. */
static void a_group_is_settled(void **state)
{
    (void)state;
    struct err err = { 0 };
    struct store *s = opened(), *other = opened();
    struct settling settling = { .store = s };
    store_on_settle(s, settle, &settling);
    write_in_group(s, 1, true);
    assert_int_equal(settling.calls, 0);
    assert_true(stored(s, 1));          /* a reader */
    assert_int_equal(settling.calls, 1);
    assert_true(stored(other, 1));
    write_in_group(s, 2, true);
    insert(s, 3, "x", "pending");       /* a writer by itself */
    assert_int_equal(settling.calls, 2);
    assert_true(stored(other, 2));
    write_in_group(s, 4, true);
    assert_int_equal(store_begin(s, &err), 0);  /* another transaction */
    assert_int_equal(settling.calls, 3);
    assert_true(stored(other, 4));
    store_rollback(s);
    assert_true(stored(s, 4));
    store_close(other);
    store_close(s);
}

/* The process dies between its commits without closing: exactly the committed rows
 * remain. */
static void killed_writer(void **state)
{
    (void)state;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct err err = { 0 };
        struct store *s = NULL;
        if (store_open(&s, store_path, &err) < 0 || store_begin(s, &err) < 0)
            _exit(1);
        struct job_row row = some_job(1, "kept", "pending");
        if (jobs_insert(s, &row, "", "{}", &err) < 0 || store_commit(s, &err) < 0)
            _exit(1);
        store_begin(s, &err);
        row = some_job(2, "lost", "pending");
        jobs_insert(s, &row, "", "{}", &err);
        _exit(9);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(WEXITSTATUS(status), 9);
    struct err err = { 0 };
    struct store *s = opened();
    struct job_row row;
    assert_int_equal(jobs_get(&row, s, 1, &err), 0);
    assert_int_equal(jobs_get(&row, s, 2, &err), -1);
    store_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(rollback_leaves_nothing),
        STORE_CASE(a_group),
        STORE_CASE(a_group_is_settled),
        STORE_CASE(killed_writer),
    };
    return cmocka_run_group_tests_name("store_group", tests, NULL, NULL);
}
