/* SPDX-License-Identifier: Apache-2.0 */
/* test_clock_jump.c - a wall clock that is set, a machine that sleeps, and clocks that merely run */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "engine/base/clock_jump.h"

static struct clock_reading now;

static void pass_ms(int64_t ms)
{
    now.wall_ms += ms;
    now.mono_ms += ms;
    now.boot_ms += ms;
}

static void suspend_ms(int64_t ms)
{
    now.wall_ms += ms;
    now.boot_ms += ms;
}

static struct clock_jump begin(void)
{
    now = (struct clock_reading){.wall_ms = 1700000000000, .mono_ms = 5000, .boot_ms = 65000};
    return clock_jump_of(&now);
}

static void clocks_that_run_tell_nothing(void **state)
{
    struct clock_jump c = begin();
    struct clock_change change;
    (void)state;
    for (int i = 0; i < 1000000; i++) {
        pass_ms(1000);
        assert_false(clock_jump_look(&c, &now, &change));
    }
}

static void a_jump_is_told_once_with_its_size(void **state)
{
    static const int64_t jumps[] = {2000, -2000, 3600000, -3600000, 1700000000000, -1700000000000};
    struct clock_jump c = begin();
    struct clock_change change;
    (void)state;
    for (size_t i = 0; i < sizeof(jumps) / sizeof(jumps[0]); i++) {
        pass_ms(1000);
        now.wall_ms += jumps[i];
        assert_true(clock_jump_look(&c, &now, &change));
        assert_int_equal(change.jump_ms, jumps[i]);
        assert_int_equal(change.suspended_ms, 0);
        pass_ms(1000);
        assert_false(clock_jump_look(&c, &now, &change));
    }
}

static void small_steps_add_up(void **state)
{
    struct clock_jump c = begin();
    struct clock_change change;
    (void)state;
    now.wall_ms += 1500;
    assert_false(clock_jump_look(&c, &now, &change));
    now.wall_ms -= 1500;
    assert_false(clock_jump_look(&c, &now, &change));
    now.wall_ms += 1500;
    assert_false(clock_jump_look(&c, &now, &change));
    now.wall_ms += 1500;
    assert_true(clock_jump_look(&c, &now, &change));
    assert_int_equal(change.jump_ms, 3000);
}

static void a_suspended_machine_is_no_jump(void **state)
{
    struct clock_jump c = begin();
    struct clock_change change;
    (void)state;
    suspend_ms(7200000);
    assert_true(clock_jump_look(&c, &now, &change));
    assert_int_equal(change.jump_ms, 0);
    assert_int_equal(change.suspended_ms, 7200000);
    assert_false(clock_jump_look(&c, &now, &change));
}

static void both_at_once_are_told_apart(void **state)
{
    struct clock_jump c = begin();
    struct clock_change change;
    (void)state;
    suspend_ms(60000);
    now.wall_ms -= 90000;
    assert_true(clock_jump_look(&c, &now, &change));
    assert_int_equal(change.jump_ms, -90000);
    assert_int_equal(change.suspended_ms, 60000);
}

static void the_sentence_has_the_size(void **state)
{
    static const struct {
        struct clock_change change;
        const char         *text;
    } rows[] = {
        {{.jump_ms = 35000},
         "the wall clock was set forward by 35 s; deadlines, back-off and max_duration do not depend on it; times "
         "shown earlier use the old clock"},
        {{.jump_ms = -3660000},
         "the wall clock was set back by 1 h 1 min; deadlines, back-off and max_duration do not depend on it; "
         "times shown earlier use the old clock"},
        {{.suspended_ms = 125000},
         "the machine was suspended for 2 min 5 s; limits for hangs and silence do not count this time, max_duration "
         "does"},
        {{.suspended_ms = 190800000, .jump_ms = 2000},
         "the machine was suspended for 2 d 5 h; limits for hangs and silence do not count this time, max_duration "
         "does. Also, the wall clock was set forward by 2 s; deadlines, back-off and max_duration do not depend on it; "
         "times shown earlier use the old clock"},
    };
    char text[400];
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        clock_jump_text(text, sizeof(text), &rows[i].change);
        assert_string_equal(text, rows[i].text);
    }
    clock_jump_text(text, 20, &rows[3].change);
    assert_string_equal(text, "the machine was sus");
}

static void the_clocks_of_this_machine_agree(void **state)
{
    struct clock_reading r = clock_read();
    struct clock_jump c = clock_jump_of(&r);
    (void)state;
    assert_true(r.boot_ms >= r.mono_ms);
    assert_true(c.ahead_ms > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clocks_that_run_tell_nothing),   cmocka_unit_test(a_jump_is_told_once_with_its_size),
        cmocka_unit_test(small_steps_add_up),             cmocka_unit_test(a_suspended_machine_is_no_jump),
        cmocka_unit_test(both_at_once_are_told_apart),    cmocka_unit_test(the_sentence_has_the_size),
        cmocka_unit_test(the_clocks_of_this_machine_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
