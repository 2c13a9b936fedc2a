/* SPDX-License-Identifier: Apache-2.0 */
/* test_machine_turn.c - whose turn it is, and three users with hundreds of jobs on a virtual clock: never two
 * holders, nobody starves */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/machine/machine_turn.h"

enum { MINUTE = 60 * 1000, HOUR = 60 * MINUTE };

static struct machine_need need_of(int gpus, int cpus, int all_gpus, int all_cpus)
{
    struct machine_need n = {.gpus = gpus, .cpus = cpus};
    for (int i = 0; i < all_gpus; i++)
        machine_set_add(&n.any, i);
    for (int i = 0; i < all_cpus; i++)
        machine_set_add(&n.any, MACHINE_GPUS + i);
    return n;
}

/* --- the order, as a table ------------------------------------------------------------------- */

static const struct {
    const char *what;
    struct { char user; int arrived_min; } claims[4]; /* ids 1, 2, ... */
    const char *holders, *order;
} orders[] = {
    {"arrival, where nobody holds anything", {{'c', 3}, {'b', 2}, {'a', 1}}, "", "321"},
    {"... and where all do", {{'a', 2}, {'b', 1}}, "ab", "21"},
    {"who holds nothing goes first", {{'a', 1}, {'b', 2}}, "a", "21"},
    {"... however many leases others hold", {{'a', 1}, {'b', 2}, {'c', 3}}, "aac", "213"},
    {"the claims of one user keep their order", {{'a', 3}, {'a', 1}, {'b', 2}}, "a", "321"},
    {"equal times: by id", {{'a', 1}, {'b', 1}}, "", "12"},
};

static void test_order(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
        struct machine_claim claims[4];
        int64_t holders[4];
        struct machine_state m = {.claims = claims, .holders = holders};
        char order[8] = "";
        for (; m.nclaims < 4 && orders[i].claims[m.nclaims].user; m.nclaims++)
            claims[m.nclaims] = (struct machine_claim){.user = orders[i].claims[m.nclaims].user, .id = m.nclaims + 1,
                                                       .arrived_ms = orders[i].claims[m.nclaims].arrived_min * MINUTE};
        for (; orders[i].holders[m.nholders]; m.nholders++)
            holders[m.nholders] = orders[i].holders[m.nholders];
        machine_turn_sort(&m);
        for (int k = 0; k < m.nclaims; k++)
            order[k] = (char)('0' + claims[k].id);
        if (strcmp(order, orders[i].order) != 0)
            fail_msg("%s: %s instead of %s", orders[i].what, order, orders[i].order);
    }
}

/* --- what the claims before one keep ----------------------------------------------------------- */

static void test_left(void **state)
{
    (void)state;
    struct machine_set free = need_of(0, 0, 2, 4).any, left;
    struct machine_claim claims[3] = {{.user = 1, .id = 1, .need = need_of(4, 2, 8, 8)},
                                      {.user = 2, .id = 2, .need = need_of(0, 2, 8, 8)},
                                      {.user = 3, .id = 3, .need = need_of(0, 1, 8, 8)}};
    struct machine_state m = {.claims = claims, .nclaims = 3};
    machine_turn_sort(&m);
    assert_int_equal(machine_turn_left(&left, &m, &free, 1), 0);
    assert_int_equal(machine_set_gpus(&left), 2);
    assert_false(machine_turn_fits(&claims[0].need, &left));
    assert_int_equal(machine_turn_left(&left, &m, &free, 2), 1);
    assert_int_equal(machine_set_gpus(&left), 0); /* kept for the first, which has too few */
    assert_int_equal(machine_set_cpus(&left), 2);
    assert_true(machine_turn_fits(&claims[1].need, &left));
    assert_int_equal(machine_turn_left(&left, &m, &free, 3), 2);
    assert_false(machine_turn_fits(&claims[2].need, &left));
    assert_int_equal(machine_turn_left(&left, &m, &free, 9), -1);
}

/* A claim for resources that others do not want is not held up by them. */
static void test_apart(void **state)
{
    (void)state;
    struct machine_set free = {{0}}, left;
    struct machine_claim claims[2] = {{.user = 1, .id = 1, .need = {.gpus = 2}},
                                      {.user = 2, .id = 2, .need = {.gpus = 1}}};
    struct machine_state m = {.claims = claims, .nclaims = 2};
    machine_set_add(&free, 0);
    machine_set_add(&free, 2);
    machine_set_add(&claims[0].need.any, 0);
    machine_set_add(&claims[0].need.any, 1);
    machine_set_add(&claims[1].need.any, 0);
    machine_set_add(&claims[1].need.any, 2);
    machine_turn_left(&left, &m, &free, 2);
    assert_false(machine_set_has(&left, 0));
    assert_true(machine_set_has(&left, 2));
    assert_true(machine_turn_fits(&claims[1].need, &left));
}

/* --- three users, hundreds of jobs -------------------------------------------------------------- */

enum { GPUS = 8, CPUS = 32, USERS = 3, JOBS = 900, WINDOW = 8 };

struct sim_job {
    int user;
    bool waits, runs;
    int64_t arrived_ms, ends_ms;
    int gpus, cpus;
    struct machine_set has;
};

static struct {
    struct sim_job jobs[JOBS];
    int njobs, left[USERS];
    struct machine_set free;
    int64_t now_ms, longest_ms[USERS];
    int64_t fed_ms[USERS], hunger_ms[USERS]; /* when a user last had or wanted nothing; the longest time since */
    uint32_t random;
} s;

static int draw(int n)
{
    s.random = s.random * 1664525U + 1013904223U;
    return (int)((s.random >> 8) % (uint32_t)n);
}

/* alice: a flood of short jobs for one GPU; bob: longer ones for one to four; carol: few for the whole machine. */
static void submit(int user)
{
    struct sim_job *j = &s.jobs[s.njobs++];
    *j = (struct sim_job){.user = user, .waits = true, .arrived_ms = s.now_ms};
    j->gpus = user == 0 ? 1 : user == 1 ? 1 + draw(4) : GPUS;
    j->cpus = user == 0 ? 1 + draw(4) : user == 1 ? draw(8) : CPUS;
    s.left[user]--;
}

static int waiting_of(int user)
{
    int n = 0;
    for (int i = 0; i < s.njobs; i++)
        n += s.jobs[i].user == user && s.jobs[i].waits;
    return n;
}

static void fill_windows(void)
{
    for (int u = 0; u < USERS; u++)
        while (s.left[u] > 0 && waiting_of(u) < (u == 2 ? 1 : WINDOW))
            submit(u);
}

static void release(struct sim_job *j)
{
    for (int i = 0; i < MACHINE_WORDS; i++) {
        assert_int_equal(s.free.bits[i] & j->has.bits[i], 0);
        s.free.bits[i] |= j->has.bits[i];
    }
    j->runs = false;
}

static void start(struct sim_job *j, const struct machine_set *left)
{
    int gpus = j->gpus, cpus = j->cpus;
    for (int r = 0; r < MACHINE_GPUS + CPUS; r++) {
        int *more = r < MACHINE_GPUS ? &gpus : &cpus;
        if (*more == 0 || !machine_set_has(left, r))
            continue;
        assert_true(machine_set_has(&s.free, r)); /* never two holders */
        machine_set_drop(&s.free, r);
        machine_set_add(&j->has, r);
        --*more;
    }
    assert_int_equal(gpus + cpus, 0);
    const int64_t waited = s.now_ms - j->arrived_ms;
    if (waited > s.longest_ms[j->user])
        s.longest_ms[j->user] = waited;
    j->waits = false;
    j->runs = true;
    j->ends_ms = s.now_ms + (j->user == 0 ? MINUTE + draw(2 * MINUTE) : 5 * MINUTE + draw(10 * MINUTE));
    if (draw(10) == 0)
        j->ends_ms = s.now_ms + draw(1000); /* killed */
}

/* One look of the claim that looks next, as an agent does it; true if it started. */
static bool look(struct sim_job *j)
{
    static struct machine_claim claims[JOBS];
    static int64_t holders[JOBS];
    struct machine_state m = {.claims = claims, .holders = holders};
    struct machine_set left;
    for (int i = 0; i < s.njobs; i++) {
        const struct sim_job *k = &s.jobs[i];
        if (k->waits)
            claims[m.nclaims++] = (struct machine_claim){k->user, i, k->arrived_ms,
                                                         need_of(k->gpus, k->cpus, GPUS, CPUS)};
        if (k->runs)
            holders[m.nholders++] = k->user;
    }
    machine_turn_sort(&m);
    const struct machine_need need = need_of(j->gpus, j->cpus, GPUS, CPUS);
    assert_true(machine_turn_left(&left, &m, &s.free, j - s.jobs) >= 0);
    if (!machine_turn_fits(&need, &left))
        return false;
    start(j, &left);
    return true;
}

/* All who wait look in no particular order, until none of them gets anything. */
static void settle(void)
{
    bool any = true;
    while (any) {
        any = false;
        for (int i = 0, first = draw(s.njobs ? s.njobs : 1); i < s.njobs; i++) {
            struct sim_job *j = &s.jobs[(i + first) % s.njobs];
            any = (j->waits && look(j)) || any;
        }
    }
}

static void note_hunger(void)
{
    for (int u = 0; u < USERS; u++) {
        bool runs = waiting_of(u) == 0;
        for (int i = 0; i < s.njobs; i++)
            runs = runs || (s.jobs[i].user == u && s.jobs[i].runs);
        if (s.now_ms - s.fed_ms[u] > s.hunger_ms[u])
            s.hunger_ms[u] = s.now_ms - s.fed_ms[u];
        if (runs)
            s.fed_ms[u] = s.now_ms;
    }
}

static bool tick(void)
{
    int64_t next = INT64_MAX;
    for (int i = 0; i < s.njobs; i++)
        if (s.jobs[i].runs && s.jobs[i].ends_ms < next)
            next = s.jobs[i].ends_ms;
    if (next == INT64_MAX)
        return false;
    s.now_ms = next > s.now_ms ? next : s.now_ms;
    for (int i = 0; i < s.njobs; i++)
        if (s.jobs[i].runs && s.jobs[i].ends_ms <= s.now_ms)
            release(&s.jobs[i]);
    return true;
}

static void run_box(uint32_t seed, int alice, int bob, int carol)
{
    memset(&s, 0, sizeof(s));
    s.random = seed;
    s.left[0] = alice;
    s.left[1] = bob;
    s.left[2] = carol;
    s.free = need_of(0, 0, GPUS, CPUS).any;
    do {
        fill_windows();
        settle();
        note_hunger();
    } while (tick());
    for (int i = 0; i < s.njobs; i++)
        assert_false(s.jobs[i].waits || s.jobs[i].runs);
    assert_int_equal(s.njobs, alice + bob + carol);
}

static void test_three_users(void **state)
{
    (void)state;
    for (uint32_t seed = 1; seed <= 5; seed++) {
        run_box(seed, 600, 250, 20);
        /* At most the jobs of another user's window, which arrived before, of at most 15 minutes each. */
        for (int u = 0; u < USERS; u++) {
            assert_in_range(s.hunger_ms[u], 0, WINDOW * 15 * MINUTE);
            assert_in_range(s.longest_ms[u], 0, 2 * HOUR);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),        cmocka_unit_test(test_left),
        cmocka_unit_test(test_apart),        cmocka_unit_test(test_three_users),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
