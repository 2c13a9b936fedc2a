/* SPDX-License-Identifier: Apache-2.0 */
/* test_straggler.c - pages of ranks that take their steps together; one of them is slow, or none */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/monitor/straggler.h"

enum { RANKS = 3 };

static struct straggler *s;
static struct flight_page page[RANKS];
static int64_t now;
static const char *const *nodes;

static int up(void **state)
{
    (void)state;
    now = 1000;
    nodes = NULL;
    memset(page, 0, sizeof(page));
    for (int i = 0; i < RANKS; i++)
        page[i].pid = 7;
    return straggler_create(&s, RANKS, NULL);
}

static int down(void **state)
{
    (void)state;
    straggler_destroy(s);
    return 0;
}

/* All do a step: rank r needs forward[r] ms for its own work, the others wait for the slowest. */
static bool steps(int n, const int forward[RANKS], int data_of_rank_2)
{
    bool changed = false;
    for (int k = 0; k < n; k++) {
        int longest = 0;
        for (int r = 0; r < RANKS; r++) {
            int own = forward[r] + (r == 2 ? data_of_rank_2 : 0);
            longest = own > longest ? own : longest;
        }
        for (int r = 0; r < RANKS; r++) {
            int own = forward[r] + (r == 2 ? data_of_rank_2 : 0);
            page[r].phase_ns[PHASE_FORWARD] += (uint64_t)forward[r] * 1000000;
            page[r].phase_ns[PHASE_DATA] += (uint64_t)(r == 2 ? data_of_rank_2 : 0) * 1000000;
            page[r].wait_ns += (uint64_t)(longest - own) * 1000000;
            page[r].step_phase += 1 << 8;
        }
        now += longest;
        changed = straggler_look(s, page, nodes, now) || changed;
    }
    return changed;
}

/* Of the event. */
static const char *text(void)
{
    static char out[300];
    json_t *body = straggler_body(s);
    snprintf(out, sizeof(out), "%s", json_string_value(json_object_get(body, "text")));
    json_decref(body);
    return out;
}

static void equal_ranks_are_not_compared_too_closely(void **state)
{
    (void)state;
    assert_false(steps(400, (const int[]){50, 52, 54}, 0));
    assert_string_equal(text(), "");
}

/* Ranks are counted over all nodes: whoever is to look at the slow one must know which machine it is on. */
static void with_several_nodes_its_node_is_named(void **state)
{
    (void)state;
    nodes = (const char *const[]){"gpu1", "gpu1", "gpu2"};
    assert_true(steps(300, (const int[]){50, 51, 75}, 0));
    assert_string_equal(text(),
                        "rank 2 on gpu2 is a straggler: without it a step would take 32 % less; its own "
                        "work takes 75.0 ms, that of the next slowest rank 51.0 ms, mostly in "
                        "forward");
    nodes = (const char *const[]){"", "", ""};
    assert_false(steps(300, (const int[]){50, 51, 75}, 0));
    assert_null(strstr(text(), " on "));
}

static void a_slow_rank_is_named_with_its_phase(void **state)
{
    (void)state;
    assert_true(steps(300, (const int[]){50, 51, 50}, 25));
    assert_string_equal(text(),
                        "rank 2 is a straggler: without it a step would take 32 % less; its own "
                        "work takes 75.0 ms, that of the next slowest rank 51.0 ms, mostly in "
                        "data");
    json_t *body = straggler_body(s);
    assert_int_equal(json_integer_value(json_object_get(body, "rank")), 2);
    assert_true(json_real_value(json_array_get(json_object_get(body, "wait_ms"), 0)) > 24);
    json_decref(body);
    assert_true(steps(400, (const int[]){50, 51, 50}, 0)); /* and is quick again */
    assert_string_equal(text(), "");
}

static void one_slow_moment_is_nothing(void **state)
{
    (void)state;
    assert_false(steps(105, (const int[]){50, 50, 50}, 0));
    assert_false(steps(60, (const int[]){50, 90, 50}, 0)); /* about one window */
    assert_false(steps(300, (const int[]){50, 50, 50}, 0));
}

static void a_restart_begins_anew(void **state)
{
    (void)state;
    assert_true(steps(300, (const int[]){50, 51, 50}, 25));
    straggler_begin(s);
    assert_string_equal(text(), "");
    memset(page, 0, sizeof(page));
    assert_false(straggler_look(s, page, nodes, now)); /* nobody has attached */
    for (int i = 0; i < RANKS; i++)
        page[i].pid = 8;
    assert_false(steps(300, (const int[]){50, 50, 50}, 0));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, up, down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(equal_ranks_are_not_compared_too_closely),
        TEST(a_slow_rank_is_named_with_its_phase),
        TEST(with_several_nodes_its_node_is_named),
        TEST(one_slow_moment_is_nothing),
        TEST(a_restart_begins_anew),
    };
    return cmocka_run_group_tests_name("straggler", tests, NULL, NULL);
}
