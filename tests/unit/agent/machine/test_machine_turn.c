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
    struct { char user; int since_min; double share; } held[3];
    struct { char user; double min; } used[3];
    int now_min;
    const char *order;
} orders[] = {
    {"arrival, where nobody has used anything", {{'a', 1}, {'b', 2}, {'c', 3}}, {{0}}, {{0}}, 5, "123"},
    {"whoever has used less goes first", {{'a', 1}, {'b', 2}}, {{0}}, {{'a', 30}, {'b', 2}}, 5, "21"},
    {"an unknown user has used nothing", {{'a', 1}, {'b', 2}}, {{0}}, {{'a', 0.5}}, 5, "21"},
    {"a lease that is held counts", {{'a', 1}, {'b', 2}}, {{'a', 0, 0.5}}, {{0}}, 20, "21"},
    {"... also one that has just begun", {{'a', 1}, {'b', 2}}, {{'a', 5, 0.25}}, {{0}}, 5, "21"},
    {"... less than a larger one", {{'a', 1}, {'b', 2}}, {{'a', 0, 0.25}, {'b', 0, 1}}, {{0}}, 20, "12"},
    {"the claims of one user keep their order", {{'a', 3}, {'a', 1}, {'b', 2}}, {{'a', 0, 1}}, {{0}}, 5, "321"},
    {"who has waited long goes first, whatever was used", {{'a', 1}, {'b', 20}}, {{0}}, {{'a', 500}}, 40, "12"},
    {"... the oldest first", {{'b', 5}, {'a', 1}, {'c', 39}}, {{0}}, {{'a', 500}}, 40, "213"},
    {"... but not while its user holds anything", {{'a', 1}, {'b', 20}}, {{'a', 0, 0.25}}, {{0}}, 40, "21"},
};

static void test_order(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
        struct machine_claim claims[4];
        struct machine_held held[3];
        struct machine_used used[3];
        struct machine_state m = {.claims = claims, .held = held, .used = used, .now_ms = orders[i].now_min * MINUTE};
        char order[8] = "";
        for (; m.nclaims < 4 && orders[i].claims[m.nclaims].user; m.nclaims++)
            claims[m.nclaims] = (struct machine_claim){.user = orders[i].claims[m.nclaims].user, .id = m.nclaims + 1,
                                                       .arrived_ms = orders[i].claims[m.nclaims].arrived_min * MINUTE};
        for (; m.nheld < 3 && orders[i].held[m.nheld].user; m.nheld++)
            held[m.nheld] = (struct machine_held){orders[i].held[m.nheld].user,
                                                  orders[i].held[m.nheld].since_min * MINUTE,
                                                  orders[i].held[m.nheld].share};
        for (; m.nused < 3 && orders[i].used[m.nused].user; m.nused++)
            used[m.nused] = (struct machine_used){orders[i].used[m.nused].user, orders[i].used[m.nused].min * MINUTE};
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

static void test_use(void **state)
{
    (void)state;
    assert_float_equal(machine_turn_share(2, 8, 1, 16), 0.25, 1e-9);
    assert_float_equal(machine_turn_share(0, 0, 4, 16), 0.25, 1e-9);
    assert_float_equal(machine_turn_share(3, 2, 0, 0), 1, 1e-9);
    assert_float_equal(machine_turn_decay(1000, MACHINE_TURN_HALF_MS), 500, 1e-6);
    assert_float_equal(machine_turn_decay(1000, -5), 1000, 1e-6);
}

/* --- three users, hundreds of jobs -------------------------------------------------------------- */

enum { GPUS = 8, CPUS = 32, USERS = 3, JOBS = 900, WINDOW = 8 };

struct sim_job {
    int user;
    bool waits, runs;
    int64_t arrived_ms, since_ms, ends_ms;
    int gpus, cpus;
    struct machine_set has;
};

static struct {
    struct sim_job jobs[JOBS];
    int njobs, left[USERS];
    struct machine_set free;
    struct machine_used used[USERS];
    int64_t used_at_ms[USERS], now_ms, longest_ms[USERS];
    int64_t fed_ms[USERS], hunger_ms[USERS]; /* when a user last had or wanted nothing; the longest time since */
    double got_ms[USERS];
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
    const double share = machine_turn_share(j->gpus, GPUS, j->cpus, CPUS), ms = (double)(s.now_ms - j->since_ms);
    for (int i = 0; i < MACHINE_WORDS; i++) {
        assert_int_equal(s.free.bits[i] & j->has.bits[i], 0);
        s.free.bits[i] |= j->has.bits[i];
    }
    const int u = j->user;
    s.used[u].ms = machine_turn_decay(s.used[u].ms, s.now_ms - s.used_at_ms[u]) + share * ms;
    s.used_at_ms[u] = s.now_ms;
    s.got_ms[u] += share * ms;
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
    j->since_ms = s.now_ms;
    j->ends_ms = s.now_ms + (j->user == 0 ? MINUTE + draw(2 * MINUTE) : 5 * MINUTE + draw(10 * MINUTE));
    if (draw(10) == 0)
        j->ends_ms = s.now_ms + draw(1000); /* killed */
}

/* One look of the claim that looks next, as an agent does it; true if it started. */
static bool look(struct sim_job *j)
{
    static struct machine_claim claims[JOBS];
    static struct machine_held held[JOBS];
    struct machine_used used[USERS];
    struct machine_state m = {.claims = claims, .held = held, .used = used, .nused = USERS, .now_ms = s.now_ms};
    struct machine_set left;
    for (int u = 0; u < USERS; u++)
        used[u] = (struct machine_used){u, machine_turn_decay(s.used[u].ms, s.now_ms - s.used_at_ms[u])};
    for (int i = 0; i < s.njobs; i++) {
        const struct sim_job *k = &s.jobs[i];
        if (k->waits)
            claims[m.nclaims++] = (struct machine_claim){k->user, i, k->arrived_ms,
                                                         need_of(k->gpus, k->cpus, GPUS, CPUS)};
        if (k->runs)
            held[m.nheld++] = (struct machine_held){k->user, k->since_ms,
                                                     machine_turn_share(k->gpus, GPUS, k->cpus, CPUS)};
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
    for (int u = 0; u < USERS; u++)
        s.used[u].user = u;
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
        /* The longest jobs take 15 minutes: the patience, then those that began or starved before. */
        for (int u = 0; u < USERS; u++) {
            assert_in_range(s.hunger_ms[u], 0, MACHINE_TURN_PATIENCE_MS + 6 * 15 * MINUTE);
            assert_in_range(s.longest_ms[u], 0, 2 * HOUR);
        }
    }
}

/* A flood does not keep a user from about as much as the flood gets. */
static void test_equal_shares(void **state)
{
    (void)state;
    memset(&s, 0, sizeof(s));
    s.random = 7;
    s.left[0] = 800;
    s.left[1] = 90;
    for (int u = 0; u < USERS; u++)
        s.used[u].user = u;
    s.free = need_of(0, 0, GPUS, CPUS).any;
    do {
        fill_windows();
        settle();
    } while (s.left[0] > 0 && s.left[1] > 0 && tick());
    assert_true(s.got_ms[1] > 0.7 * s.got_ms[0]);
    assert_true(s.got_ms[0] > 0.7 * s.got_ms[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),        cmocka_unit_test(test_left),
        cmocka_unit_test(test_apart),        cmocka_unit_test(test_use),
        cmocka_unit_test(test_three_users),  cmocka_unit_test(test_equal_shares),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
