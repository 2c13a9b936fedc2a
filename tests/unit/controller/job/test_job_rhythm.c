/* SPDX-License-Identifier: Apache-2.0 */
/* test_job_rhythm.c - from when on the newest step of a job is too old */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "controller/job/job_rhythm.h"

enum { START = 1000000, S = 1000 };

static struct job_rhythm r;
static int64_t at;

/* So many steps are heard of, one after so many seconds. */
static void steps(int n, int64_t seconds)
{
    for (int i = 0; i < n; i++) {
        at += seconds * S;
        job_rhythm_step(&r, r.step + 1, at);
    }
}

static void begin(void)
{
    at = START;
    job_rhythm_begin(&r, at);
}

/* Not so long after the newest step, but a second later. */
static void is_old_after(int64_t seconds)
{
    assert_int_equal(job_rhythm_still_since(&r, at + seconds * S), 0);
    assert_int_equal(job_rhythm_still_since(&r, at + (seconds + 1) * S), at);
}

static void a_fast_job_has_thirty_seconds(void **state)
{
    (void)state;
    begin();
    steps(40, 1);
    is_old_after(30);
    job_rhythm_step(&r, r.step, at + 25 * S); /* the same step again */
    is_old_after(30);
    steps(1, 60);
    assert_int_equal(job_rhythm_still_since(&r, at), 0);
}

static void a_slow_one_has_ten_times_its_usual(void **state)
{
    (void)state;
    begin();
    steps(40, 20);
    is_old_after(200);
}

static void a_pause_in_between_is_not_usual(void **state)
{
    (void)state;
    begin();
    steps(40, 10);
    steps(1, 300); /* an evaluation */
    steps(30, 10);
    assert_int_equal(job_rhythm_still_since(&r, at + 140 * S), at);
}

static void the_start_fades_away(void **state)
{
    (void)state;
    begin();
    assert_int_equal(job_rhythm_still_since(&r, at + 3600 * S), 0); /* no step yet: nothing is known */
    steps(1, 20);
    is_old_after(200);
    steps(1, 10);
    is_old_after(190);
    steps(50, 1);
    is_old_after(30);
}

static void a_new_generation_begins_anew(void **state)
{
    (void)state;
    begin();
    steps(40, 1);
    job_rhythm_begin(&r, at + 5 * S);
    assert_int_equal(job_rhythm_still_since(&r, at + 600 * S), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fast_job_has_thirty_seconds),
        cmocka_unit_test(a_slow_one_has_ten_times_its_usual),
        cmocka_unit_test(a_pause_in_between_is_not_usual),
        cmocka_unit_test(the_start_fades_away),
        cmocka_unit_test(a_new_generation_begins_anew),
    };
    return cmocka_run_group_tests_name("job_rhythm", tests, NULL, NULL);
}
