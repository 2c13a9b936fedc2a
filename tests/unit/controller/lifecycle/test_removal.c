/* SPDX-License-Identifier: Apache-2.0 */
/* test_removal.c - a removal that the store cannot record removes nothing */
#include <errno.h>
#include <unistd.h>

#include "controller/base/daemon.h"
#include "controller/lifecycle/removal.h"
#include "controller/lifecycle/reserve.h"
#include "db/removed.h"
#include "tests/unit/db/store_fixture.h"

static struct daemon d;
static char reserve[300];

static int up(void **state)
{
    store_setup(state);
    memset(&d, 0, sizeof(d));
    snprintf(d.home.path, sizeof(d.home.path), "%s", store_dir);
    snprintf(reserve, sizeof(reserve), "%s/reserve", store_dir);
    assert_int_equal(dir_identity_open(&d.home.id, d.home.path, NULL), 0);
    d.store = opened();
    d.next_id = 1;
    return 0;
}

static int down(void **state)
{
    store_close(d.store);
    dir_identity_close(&d.home.id);
    return store_teardown(state);
}

/* The disk is full and stays full after the reserve was given up. */
static void a_full_disk_keeps_the_job(void **state)
{
    (void)state;
    char full[80];
    struct err err = { 0 };
    struct job_row job;
    struct removed_row row = { .job = 5, .name = "sana", .kept = true }, back;
    memset(row.checkpoints, 'c', sizeof(row.checkpoints) - 1); /* more than the store's free pages hold */
    insert(d.store, 5, "sana", "done");
    reserve_keep(&d.home);
    assert_true(d.home.reserved);
    assert_int_equal(access(reserve, F_OK), 0);
    snprintf(full, sizeof(full), "PRAGMA max_page_count=%lld", (long long)number(d.store, "PRAGMA page_count"));
    run(d.store, full);
    assert_int_equal(removal_begin(&d, &row, &err), -1);
    assert_non_null(strstr(err.text, "is full"));
    assert_non_null(strstr(err.text, "try again"));
    assert_int_equal(access(reserve, F_OK), -1);
    assert_false(d.home.reserved || removal_runs(&d, 5));
    assert_int_equal(jobs_get(&job, d.store, 5, NULL), 0);
    assert_int_equal(removed_get(&back, d.store, 5, NULL), -1);
    /* Without a reserve it is the same. */
    err = (struct err){ 0 };
    assert_int_equal(removal_begin(&d, &row, &err), -1);
    assert_non_null(strstr(err.text, "is full"));
    assert_int_equal(jobs_get(&job, d.store, 5, NULL), 0);
}

/* Another failure than a full disk does not cost the reserve. */
static void the_reserve_is_for_full_disks(void **state)
{
    (void)state;
    struct err err = { 0 };
    const struct removed_row row = { .job = 5, .name = "sana" };
    insert(d.store, 5, "sana", "done");
    reserve_keep(&d.home);
    run(d.store, "DROP TABLE removed");
    assert_int_equal(removal_begin(&d, &row, &err), -1);
    assert_null(strstr(err.text, "is full"));
    assert_int_equal(access(reserve, F_OK), 0);
    assert_true(d.home.reserved);
    const struct err full = { .errnum = ENOSPC };
    snprintf(d.home.path, sizeof(d.home.path), "%s/elsewhere", store_dir); /* the home was moved */
    assert_false(reserve_use(&d.home, &full));
    assert_int_equal(access(reserve, F_OK), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_full_disk_keeps_the_job, up, down),
        cmocka_unit_test_setup_teardown(the_reserve_is_for_full_disks, up, down),
    };
    return cmocka_run_group_tests_name("removal", tests, NULL, NULL);
}
