/* SPDX-License-Identifier: Apache-2.0 */
/* test_phase_times.c - usual durations by batch size, up to the bound of the table, and across attempts */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/monitor/phase_times.h"

static const uint64_t MS = 1000000;

static uint64_t square(unsigned side)
{
    return (uint64_t)side << 32 | side;
}

/* Bins are powers of the square root of two, so a value comes back at most 42 % larger. */
static void assert_about(int64_t ms, int64_t want)
{
    assert_in_range(ms, want, want * 3 / 2);
}

static void sizes_have_times_of_their_own(void **state)
{
    (void)state;
    struct phase_times *t = calloc(1, sizeof(*t));
    assert_int_equal(phase_times_usual_ms(t, square(32), PHASE_FORWARD), 0);
    phase_times_add(t, square(32), PHASE_FORWARD, 100 * MS);
    phase_times_add(t, square(64), PHASE_FORWARD, 1600 * MS);
    phase_times_add(t, square(64), PHASE_DATA, 10 * MS);
    phase_times_add(t, square(32), FLIGHT_PHASES, 9000 * MS); /* ignored */
    assert_about(phase_times_usual_ms(t, square(32), PHASE_FORWARD), 100);
    assert_about(phase_times_usual_ms(t, square(64), PHASE_FORWARD), 1600);
    assert_about(phase_times_usual_ms(t, square(96), PHASE_FORWARD), 1600); /* of all sizes */
    assert_about(phase_times_usual_ms(t, square(32), PHASE_DATA), 10);      /* likewise */
    assert_int_equal(t->more, 2);
    free(t);
}

/* More sizes than the table has room for, seen or read: they count for all sizes only. */
static void a_full_table_stays_within_its_bound(void **state)
{
    (void)state;
    struct {
        struct phase_times times;
        struct phase_times_size behind[4];
    } *seen = calloc(1, sizeof(*seen)), *learned = calloc(1, sizeof(*learned)), *nothing = calloc(1, sizeof(*nothing));
    json_t *old = json_object();
    for (unsigned side = 1; side <= PHASE_TIMES_SIZES + 3; side++) {
        char name[40];
        phase_times_add(&seen->times, square(side), PHASE_FORWARD, side < PHASE_TIMES_SIZES ? MS : 500 * MS);
        snprintf(name, sizeof(name), "%ux%u", side, side);
        json_object_set_new(old, name, json_pack("{s:f}", flight_phase_name(PHASE_FORWARD), (double)side));
    }
    phase_times_read(&learned->times, old);
    assert_int_equal(seen->times.more, PHASE_TIMES_SIZES - 1);
    assert_int_equal(learned->times.more, PHASE_TIMES_SIZES - 1);
    assert_memory_equal(seen->behind, nothing->behind, sizeof(seen->behind));
    assert_memory_equal(learned->behind, nothing->behind, sizeof(learned->behind));
    assert_about(phase_times_usual_ms(&seen->times, square(PHASE_TIMES_SIZES - 1), PHASE_FORWARD), 1);
    assert_about(phase_times_usual_ms(&seen->times, square(PHASE_TIMES_SIZES), PHASE_FORWARD), 500);
    assert_int_equal(phase_times_usual_ms(&learned->times, square(PHASE_TIMES_SIZES - 1), PHASE_FORWARD),
                     PHASE_TIMES_SIZES - 1);
    json_decref(old);
    free(seen);
    free(learned);
    free(nothing);
}

/* What one attempt learned, the next one knows; the longer time of both counts. */
static void times_outlive_an_attempt(void **state)
{
    (void)state;
    struct phase_times *t = calloc(1, sizeof(*t)), *next = calloc(1, sizeof(*next));
    phase_times_add(t, square(32), PHASE_FORWARD, 100 * MS);
    phase_times_add(t, square(64), PHASE_FORWARD, 1600 * MS);
    json_t *learned = phase_times_json(t);
    assert_non_null(json_object_get(json_object_get(learned, "32x32"), flight_phase_name(PHASE_FORWARD)));
    assert_null(json_object_get(learned, flight_phase_name(PHASE_DATA)));
    json_object_set_new(learned, "8x", json_object());
    json_object_set_new(learned, flight_phase_name(PHASE_DATA), json_integer(-5));
    json_object_set_new(learned, flight_phase_name(PHASE_OPTIMIZER), json_real(1e9));
    phase_times_read(next, learned);
    assert_int_equal(next->more, 2);
    for (unsigned side = 32; side <= 96; side += 32)
        assert_int_equal(phase_times_usual_ms(next, square(side), PHASE_FORWARD),
                         phase_times_usual_ms(t, square(side), PHASE_FORWARD));
    assert_int_equal(phase_times_usual_ms(next, 0, PHASE_DATA), 0);
    assert_int_equal(phase_times_usual_ms(next, 0, PHASE_OPTIMIZER), 0);
    phase_times_add(next, square(32), PHASE_FORWARD, 3 * MS);
    assert_about(phase_times_usual_ms(next, square(32), PHASE_FORWARD), 100);
    phase_times_add(next, square(32), PHASE_FORWARD, 400 * MS);
    assert_about(phase_times_usual_ms(next, square(32), PHASE_FORWARD), 400);
    json_decref(learned);
    free(t);
    free(next);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_have_times_of_their_own),
        cmocka_unit_test(a_full_table_stays_within_its_bound),
        cmocka_unit_test(times_outlive_an_attempt),
    };
    return cmocka_run_group_tests_name("phase_times", tests, NULL, NULL);
}
