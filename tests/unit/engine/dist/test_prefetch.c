/* SPDX-License-Identifier: Apache-2.0 */
/* test_prefetch.c - units come to their turn in time, and none is written over while it is computed
 * with */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/dist/prefetch.h"

enum { MOST = 40 };

static int fetched[4 * MOST], fetches; /* units, in their order */
static int holds[UNIT_SLOTS];          /* what a slot really has */

/* A unit's turn; true when it was there, or on its way, before. */
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

/* Forward and back, as often as a rank has micro-batches; how many turns had to wait for a fetch from its
 * beginning. */
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

static void the_next_unit_is_fetched_ahead(void **state)
{
    (void)state;
    for (int units = 1; units <= MOST; units++)
        assert_int_equal(take_step(2, units, 1), 1); /* nothing comes before the first */
    for (int units = 2; units <= MOST; units++)
        assert_int_equal(take_step(1, units, 1), 2 * units - 1);
}

/* Forward each once; back all but those that the way out has left: of the three times that fsdp sends a unit
 * in a step (docs/DISTRIBUTED.md) these are two. */
static void nothing_is_fetched_that_is_there(void **state)
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

/* Between passes too: the first unit is there when the next micro-batch begins. */
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
        cmocka_unit_test(the_next_unit_is_fetched_ahead),
        cmocka_unit_test(nothing_is_fetched_that_is_there),
        cmocka_unit_test(passes_follow_each_other),
    };
    return cmocka_run_group_tests_name("unit_turns", tests, NULL, NULL);
}
