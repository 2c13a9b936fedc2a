/* SPDX-License-Identifier: Apache-2.0 */
/* test_prefetch.c - units are gathered in time, and no slot is overwritten while in use */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/dist/prefetch.h"

enum { MOST = 40 };

static int fetched[4 * MOST], fetches; /* units, in order */
static int holds[UNIT_SLOTS];          /* the actual content of a slot */

/* Computes with a unit; true if it was gathered, or on its way, before. */
static bool take(struct prefetch *t, int unit, int next)
{
    struct unit_fetch fetch[UNIT_SLOTS];
    const int n = prefetch_take(t, unit, next, fetch);
    bool ahead = true;
    assert_true(t->now >= 0 && t->now < t->slots);
    for (int i = 0; i < n; i++) {
        assert_true(fetch[i].slot >= 0 && fetch[i].slot < t->slots);
        assert_true(fetch[i].unit == unit || fetch[i].slot != t->now); /* not over what is in use */
        ahead &= fetch[i].unit != unit;
        holds[fetch[i].slot] = fetch[i].unit;
        fetched[fetches++] = fetch[i].unit;
    }
    assert_int_equal(holds[t->now], unit);
    return ahead;
}

/* Forward and back, once per micro-batch; returns how many units had to wait for a gather that
 * started only then. */
static int take_step(int slots, int units, int passes)
{
    struct prefetch t = prefetch_begin(slots);
    int late = 0;
    fetches = 0;
    holds[0] = holds[1] = -1;
    for (int k = 0; k < passes; k++) {
        for (int u = 0; u < units; u++)
            late += !take(&t, u, u + 1 < units ? u + 1 : -1);
        for (int u = units - 1; u >= 0; u--)
            late += !take(&t, u, u - 1);
    }
    return late;
}

static void the_next_unit_is_gathered_ahead(void **state)
{
    (void)state;
    for (int units = 1; units <= MOST; units++)
        assert_int_equal(take_step(2, units, 1), 1); /* no unit comes before the first */
    for (int units = 2; units <= MOST; units++)
        assert_int_equal(take_step(1, units, 1), 2 * units - 1);
}

/* Forward gathers each unit once; backward all but those still in the slots: of the three times
 * that fsdp sends a unit in a step (docs/DISTRIBUTED.md) these are two. */
static void gathered_units_are_not_gathered_again(void **state)
{
    (void)state;
    for (int slots = 1; slots <= UNIT_SLOTS; slots++)
        for (int units = slots; units <= MOST; units++) {
            take_step(slots, units, 1);
            assert_int_equal(fetches, 2 * units - slots);
            for (int i = 0; i < fetches; i++)
                assert_int_equal(fetched[i], i < units ? i : 2 * units - slots - 1 - i);
        }
}

/* Between passes too: the first unit is gathered when the next micro-batch begins. */
static void passes_follow_each_other(void **state)
{
    (void)state;
    for (int units = 2; units <= MOST; units++) {
        assert_int_equal(take_step(2, units, 2), 1);
        assert_int_equal(fetches, 2 * (2 * units - 2) - 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_next_unit_is_gathered_ahead),
        cmocka_unit_test(gathered_units_are_not_gathered_again),
        cmocka_unit_test(passes_follow_each_other),
    };
    return cmocka_run_group_tests_name("unit_turns", tests, NULL, NULL);
}
