/* SPDX-License-Identifier: Apache-2.0 */
/* test_machine_order.c - leases of several machines: in one order, without deadlocks, and nobody holds leases while
 * waiting too long */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/machine/machine_order.h"

static void machines_are_asked_by_name(void **state)
{
    (void)state;
    static const char *const machines[] = {"c", "a", "", "c", "b", NULL};
    struct machine_order o;
    int node = -1;
    assert_int_equal(machine_order_init(&o, machines, 6), 0);
    assert_int_equal(o.count, 3);   /* one has no leases, and two are on one machine */
    static const int order[] = {1, 4, 0}, sizes[] = {1, 1, 2};
    assert_memory_equal(o.sizes, sizes, sizeof(sizes));
    for (int i = 0; i < 3; i++) {
        assert_int_equal(machine_order_next(&o, 100, 0, &node), MACHINE_ORDER_ASK);
        assert_int_equal(node, order[i]);
        assert_int_equal(machine_order_next(&o, 100, 0, &node), MACHINE_ORDER_WAIT);
        machine_order_held(&o, order[i], 0);
    }
    assert_int_equal(machine_order_next(&o, 100, 0, &node), MACHINE_ORDER_DONE);
    machine_order_fini(&o);
}

static void what_is_held_is_not_kept_for_long(void **state)
{
    (void)state;
    static const char *const machines[] = {"a", "b"};
    struct machine_order o;
    int node = -1;
    assert_int_equal(machine_order_init(&o, machines, 2), 0);
    assert_int_equal(machine_order_next(&o, 0, 0, &node), MACHINE_ORDER_ASK);
    assert_int_equal(machine_order_due_ms(&o, 0), -1);  /* it holds nothing, and may wait for ever */
    assert_int_equal(machine_order_next(&o, 10 * MACHINE_ORDER_PATIENCE_MS, 0, &node), MACHINE_ORDER_WAIT);
    const int64_t t = 10 * MACHINE_ORDER_PATIENCE_MS;
    machine_order_held(&o, 0, 0);
    assert_int_equal(machine_order_next(&o, t, 0, &node), MACHINE_ORDER_ASK);
    assert_int_equal(node, 1);
    assert_int_equal(machine_order_due_ms(&o, t), MACHINE_ORDER_PATIENCE_MS);
    assert_int_equal(machine_order_next(&o, t + MACHINE_ORDER_PATIENCE_MS - 1, 0, &node), MACHINE_ORDER_WAIT);
    const int64_t gone = t + MACHINE_ORDER_PATIENCE_MS;
    assert_int_equal(machine_order_next(&o, gone, 0.5, &node), MACHINE_ORDER_LET_GO);
    machine_order_held(&o, 1, 0);   /* too late: it was told to let go */
    assert_int_equal(machine_order_next(&o, gone, 0, &node), MACHINE_ORDER_WAIT);
    assert_int_equal(machine_order_due_ms(&o, gone), MACHINE_ORDER_PAUSE_MS * 3 / 2);
    assert_int_equal(machine_order_next(&o, gone + MACHINE_ORDER_PAUSE_MS * 3 / 2, 0, &node), MACHINE_ORDER_ASK);
    assert_int_equal(node, 0);
    machine_order_held(&o, 0, 0);   /* of the first round */
    assert_int_equal(o.held, 0);
    machine_order_held(&o, 0, 1);
    assert_int_equal(o.held, 1);
    machine_order_fini(&o);
}

/* ---- many jobs on a virtual clock ---- */

enum { MACHINES = 5, JOBS = 60, NODES = 3, STEP_MS = 500, HORIZON_MS = 12 * 3600 * 1000 };

struct sim_job {
    struct machine_order o;
    int     machine[NODES];     /* of each node */
    const char *names[NODES];
    bool    waits[NODES];
    int64_t queued[NODES], run_ms, end_ms;
    bool    done, running;
};

static unsigned long seed;

static unsigned roll(unsigned n)
{
    seed = seed * 6364136223846793005UL + 1442695040888963407UL;
    return (unsigned)(seed >> 33) % n;
}

static int holder[MACHINES];    /* -1: free; -2: a user who holds it for ever */

static void give(struct sim_job *jobs)
{
    for (int m = 0; m < MACHINES; m++) {
        int best = -1, node = 0;
        for (int j = 0; holder[m] == -1 && j < JOBS; j++)
            for (int k = 0; k < NODES; k++)
                if (jobs[j].waits[k] && jobs[j].machine[k] == m &&
                    (best < 0 || jobs[j].queued[k] < jobs[best].queued[node])) {
                    best = j;
                    node = k;
                }
        if (best >= 0) {
            holder[m] = best;
            jobs[best].waits[node] = false;
            machine_order_held(&jobs[best].o, node, jobs[best].o.round);
        }
    }
}

static void let_all_go(struct sim_job *job, int j)
{
    for (int k = 0; k < NODES; k++) {
        job->waits[k] = false;
        if (holder[job->machine[k]] == j)
            holder[job->machine[k]] = -1;
    }
}

static void step_job(struct sim_job *job, int j, int64_t now)
{
    int node = 0;
    enum machine_order_step step = MACHINE_ORDER_WAIT;
    if (job->running && now >= job->end_ms) {
        let_all_go(job, j);
        job->running = false;
        job->done = true;
    }
    while (!job->done && !job->running) {
        step = machine_order_next(&job->o, now, (double)roll(1000) / 1000, &node);
        if (step == MACHINE_ORDER_WAIT)
            return;
        if (step == MACHINE_ORDER_LET_GO)
            let_all_go(job, j);
        if (step == MACHINE_ORDER_ASK) {
            job->waits[node] = true;
            job->queued[node] = now;
        }
        if (step == MACHINE_ORDER_DONE) {
            for (int k = 0; k < NODES; k++)
                assert_int_equal(holder[job->machine[k]], j);   /* all are its own, at once */
            job->running = true;
            job->end_ms = now + job->run_ms;
        }
    }
}

static void make_job(struct sim_job *job)
{
    static const char *const names[MACHINES] = {"a", "b", "c", "d", "e"};
    *job = (struct sim_job){.run_ms = 1000 + (int64_t)roll(120 * 1000)};
    for (int k = 0; k < NODES; k++) {
        job->machine[k] = (int)roll(MACHINES);
        for (int i = 0; i < k; i++)
            if (job->machine[i] == job->machine[k])
                i = -1, job->machine[k] = (job->machine[k] + 1) % MACHINES;
        job->names[k] = names[job->machine[k]];
    }
    assert_int_equal(machine_order_init(&job->o, job->names, NODES), 0);
}

/* Returns how many are done in time. `taken`: a machine that somebody else holds for ever, or -1. */
static int run_all(unsigned long with, int taken)
{
    static struct sim_job jobs[JOBS];
    int done = 0;
    seed = with;
    for (int m = 0; m < MACHINES; m++)
        holder[m] = m == taken ? -2 : -1;
    for (int j = 0; j < JOBS; j++)
        make_job(&jobs[j]);
    for (int64_t now = 0; now < HORIZON_MS; now += STEP_MS) {
        for (int j = 0; j < JOBS; j++)
            step_job(&jobs[j], j, now);
        give(jobs);
    }
    for (int j = 0; j < JOBS; j++) {
        bool possible = true;
        for (int k = 0; k < NODES; k++)
            possible = possible && jobs[j].machine[k] != taken;
        if (possible && !jobs[j].done)
            fail_msg("seed %lu: job %d is not done: %d of %d held, round %d", with, j, jobs[j].o.held, jobs[j].o.count,
                     jobs[j].o.round);
        done += jobs[j].done;
        machine_order_fini(&jobs[j].o);
    }
    return done;
}

static void nobody_waits_for_ever(void **state)
{
    (void)state;
    for (unsigned long s = 1; s <= 20; s++)
        assert_int_equal(run_all(s, -1), JOBS);
}

/* Jobs that need a machine which somebody holds for ever do not keep the others from theirs. */
static void a_machine_that_is_never_free(void **state)
{
    (void)state;
    for (unsigned long s = 1; s <= 20; s++)
        run_all(s, (int)(s % MACHINES));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(machines_are_asked_by_name), cmocka_unit_test(what_is_held_is_not_kept_for_long),
        cmocka_unit_test(nobody_waits_for_ever), cmocka_unit_test(a_machine_that_is_never_free),
    };
    return cmocka_run_group_tests_name("machine_order", tests, NULL, NULL);
}
