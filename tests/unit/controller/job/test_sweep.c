/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "controller/job/sweep.h"
#include "engine/base/err.h"

static struct sweep *make(const char *array, int max_parallel, const char *launch)
{
    struct err err = {0};
    json_t *spec = json_pack("{s:s, s:s, s:s}", "name", "a", "array", array, "launch", launch);
    if (max_parallel)
        json_object_set_new(spec, "max_parallel", json_integer(max_parallel));
    struct sweep *s = sweep_create(spec, &err);
    assert_non_null(s);
    json_decref(spec);
    return s;
}

static void members_start_one_by_one(void **state)
{
    (void)state;
    struct sweep *s = make("1,5-6", 2, "local");
    char text[200];
    sweep_text(text, sizeof(text), s);
    assert_string_equal(text, "");
    static const int order[] = {1, 5};
    for (int i = 0; i < 2; i++) {
        assert_true(sweep_may_start(s));
        assert_int_equal(sweep_next(s), order[i]);
        sweep_started(s, sweep_next(s));
    }
    assert_false(sweep_may_start(s));   /* max_parallel */
    assert_false(sweep_is_over(s));
    sweep_ended(s, RESULT_FAILED);
    assert_true(sweep_may_start(s));
    sweep_text(text, sizeof(text), s);
    assert_string_equal(text, "1 running, 1 failed, 1 not started");
    sweep_started(s, 6);
    sweep_ended(s, RESULT_SUCCEEDED);
    assert_false(sweep_may_start(s));   /* none is left */
    assert_false(sweep_is_over(s));
    sweep_ended(s, RESULT_SUCCEEDED);
    assert_true(sweep_is_over(s));
    assert_int_equal(sweep_left(s), 0);
    assert_int_equal(sweep_result(s), RESULT_FAILED);
    sweep_destroy(s);
}

static void a_sweep_succeeds_if_all_members_do(void **state)
{
    (void)state;
    static const struct { enum job_result a, b, is; } table[] = {
        {RESULT_SUCCEEDED, RESULT_SUCCEEDED, RESULT_SUCCEEDED}, {RESULT_SUCCEEDED, RESULT_CANCELLED, RESULT_CANCELLED},
        {RESULT_CANCELLED, RESULT_FAILED, RESULT_FAILED},
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct sweep *s = make("0-1", 0, "local");
        sweep_started(s, 0);
        sweep_started(s, 1);
        sweep_ended(s, table[i].a);
        sweep_ended(s, table[i].b);
        assert_int_equal(sweep_result(s), table[i].is);
        sweep_destroy(s);
    }
}

static void slurm_does_not_get_all_at_once(void **state)
{
    (void)state;
    static const struct { const char *launch; int given, most; } table[] = {
        {"local", 0, 1000}, {"slurm", 0, 64}, {"slurm", 3, 64}, {"slurm", 200, 200}, {"slurm", 5000, 1000}, {"ssh", 0, 2000},
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct sweep *s = make(strcmp(table[i].launch, "local") == 0 ? "0-999" : "0-1999", table[i].given,
                               table[i].launch);
        int n = 0;
        for (; sweep_may_start(s); n++) {
            sweep_started(s, sweep_next(s));
            sweep_attempt(s, 1);
        }
        assert_int_equal(n, table[i].most);
        sweep_destroy(s);
    }
}

/* Starts all that may start now, and returns how many. */
static int start_wave(struct sweep *s)
{
    int n = 0;
    for (; sweep_may_start(s); n++) {
        sweep_started(s, sweep_next(s));
        sweep_attempt(s, 1);
    }
    return n;
}

static void end_some(struct sweep *s, int n)
{
    for (int i = 0; i < n; i++) {
        sweep_attempt(s, -1);
        sweep_ended(s, RESULT_SUCCEEDED);
    }
}

/* Slurm limits an array by itself, so no other is beside one that it limits. */
static void waves_keep_to_max_parallel(void **state)
{
    (void)state;
    struct sweep *s = make("0-99", 3, "slurm");
    assert_int_equal(start_wave(s), 64);
    assert_int_equal(s->size, 64);
    assert_false(sweep_has_place(s));
    end_some(s, 62);
    assert_true(sweep_has_place(s));        /* for a member that restarts */
    assert_int_equal(start_wave(s), 0);
    end_some(s, 2);
    assert_int_equal(start_wave(s), 36);
    assert_int_equal(s->wave, 2);
    end_some(s, 36);
    assert_true(sweep_is_over(s));
    sweep_destroy(s);
}

/* Where the queue is no longer than max_parallel, it is filled again when half of it has ended. */
static void a_wave_without_limit_fills_the_queue(void **state)
{
    (void)state;
    struct sweep *s = make("0-149", 0, "slurm");
    assert_int_equal(start_wave(s), 64);
    end_some(s, 31);
    assert_int_equal(start_wave(s), 0);
    end_some(s, 1);
    assert_int_equal(start_wave(s), 32);
    end_some(s, 54);
    assert_int_equal(start_wave(s), 54);    /* the last ones */
    sweep_destroy(s);
}

static void a_member_that_is_not_stored_is_still_of_the_wave(void **state)
{
    (void)state;
    struct sweep *s = make("0-9", 2, "slurm");
    sweep_started(s, sweep_next(s));
    sweep_attempt(s, 1);
    sweep_started(s, sweep_next(s));
    sweep_withdraw(s, 1);
    assert_true(sweep_may_start(s));
    assert_int_equal(sweep_next(s), 1);
    assert_int_equal(start_wave(s), 9);
    assert_int_equal(s->wave, 1);
    sweep_destroy(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_start_one_by_one), cmocka_unit_test(a_sweep_succeeds_if_all_members_do),
        cmocka_unit_test(slurm_does_not_get_all_at_once), cmocka_unit_test(waves_keep_to_max_parallel),
        cmocka_unit_test(a_wave_without_limit_fills_the_queue),
        cmocka_unit_test(a_member_that_is_not_stored_is_still_of_the_wave),
    };
    return cmocka_run_group_tests_name("sweep", tests, NULL, NULL);
}
