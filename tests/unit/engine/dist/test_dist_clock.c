/* SPDX-License-Identifier: Apache-2.0 */
/* test_dist_clock.c - deadlines of collectives on a virtual clock
 *
 * One process, no other rank: a backend (engine/dist/dist_internal.h) whose peers do
 * what a row says, and whose sleep advances the clock.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/base/err.h"
#include "engine/dist/bucket_plan.h"
#include "engine/dist/dist_internal.h"
#include "tests/unit/engine/contract/clock_fixture.h"

enum { SLOW = 3, NEVER = 1 << 30 };

/* The peers' behaviour; times in ms since the call began. */
static struct script {
    int64_t done_at;    /* the call is complete */
    int64_t every;      /* interval of progress; 0: none */
    int64_t moves_till; /*   until then */
    int64_t sleeps;     /* duration of a sleep */
    int64_t abort_at;   /* this rank's own watchdog aborts; 0: never */
} script;

static int64_t began, moved;
static struct dist_fault raised;

static int advance(struct dist *d, const struct dist_call *call)
{
    const int64_t t = now - began;
    (void)call;
    if (script.every && t <= script.moves_till && t - moved >= script.every) {
        moved = t;
        d->progress++;
    }
    return t >= script.done_at;
}

static void pass_time(struct dist *d)
{
    now += script.sleeps;
    if (script.abort_at && now - began >= script.abort_at)
        dist_abort(d);
}

static void blame(struct dist *d, const struct dist_call *call, struct dist_fault *fault)
{
    (void)d;
    (void)call;
    fault->rank = SLOW;
}

static struct dist_fault tell_all(struct dist *d, struct dist_fault fault)
{
    (void)d;
    return raised = fault;
}

static int connect_late(struct dist *d, struct err *err)
{
    (void)d;
    (void)err;
    return now - began >= script.done_at;
}

static const struct dist_ops ops = {.name = "script", .connect = connect_late, .advance = advance,
                                    .sleep = pass_time, .blame = blame, .raise = tell_all};

static void begin(struct dist *d, const struct script *s, bool connected)
{
    script = *s;
    now = 77 * (int64_t)HOUR; /* a machine that has been up for a while */
    began = now;
    moved = 0;
    *d = (struct dist){.c = {.rank = 1, .world = 8, .init_ms = 2 * SECOND}, .ops = &ops,
                       .connected = connected, .began_ms = now, .moved_ms = now};
    d->c.name = d->name;
    raised = (struct dist_fault){.kind = DIST_FINE};
}

static void a_wait_ends_at_its_deadline(void **state)
{
    (void)state;
    static const struct {
        const char          *what;
        struct script        peers;
        int64_t              wait_ms;
        enum dist_fault_kind kind;
        int64_t              after_ms; /* at least; and not much later */
    } rows[] = {
        {"done at once", {.sleeps = 5}, HOUR, DIST_FINE, 0},
        {"done in time", {.done_at = 59 * SECOND, .sleeps = 5}, 60 * SECOND, DIST_FINE, 59 * SECOND},
        {"never", {.done_at = NEVER, .sleeps = 5}, 60 * SECOND, DIST_LATE, 60 * SECOND},
        {"never, long deadline", {.done_at = NEVER, .sleeps = 5}, 2 * HOUR, DIST_LATE, 2 * HOUR},
        {"slow, with progress",
         {.done_at = 3 * HOUR, .every = 50 * SECOND, .moves_till = NEVER, .sleeps = 5},
         60 * SECOND, DIST_FINE, 3 * HOUR},
        {"progress, then none",
         {.done_at = NEVER, .every = 50 * SECOND, .moves_till = 500 * SECOND, .sleeps = 5},
         60 * SECOND, DIST_LATE, 560 * SECOND},
        {"this rank slept through", {.done_at = 10, .sleeps = HOUR}, 60 * SECOND, DIST_FINE, HOUR},
        {"aborted meanwhile", {.done_at = NEVER, .sleeps = 5, .abort_at = 7 * SECOND}, 60 * SECOND,
         DIST_ABORTED, 7 * SECOND},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct dist d;
        struct err err = {0};
        begin(&d, &rows[i].peers, true);
        int rc = dist_barrier(&d, &err);
        if (rc == 0)
            rc = dist_wait_for(&d, rows[i].wait_ms, &err);
        const int64_t took = now - began;
        if ((rc == 0) != (rows[i].kind == DIST_FINE) || d.fault.kind != rows[i].kind ||
            took < rows[i].after_ms || took > rows[i].after_ms + 10)
            fail_msg("%s: rc %d, kind %d after %lld ms: %s", rows[i].what, rc, (int)d.fault.kind,
                     (long long)took, err.text);
        assert_int_equal(d.stats.wait_ns, (uint64_t)took * 1000000u);
        if (rows[i].kind == DIST_LATE) { /* the backend is told the fault and the rank */
            assert_int_equal(raised.kind, DIST_LATE);
            assert_int_equal(d.fault.rank, SLOW);
            assert_non_null(strstr(err.text, "rank 3 is stuck or far behind"));
        }
        if (rc < 0) { /* the first fault stays */
            struct err again = {0};
            assert_int_equal(dist_barrier(&d, &again), -1);
            assert_string_equal(again.text, err.text);
        }
    }
}

static void connecting_has_a_deadline(void **state)
{
    (void)state;
    for (int late = 0; late < 2; late++) {
        struct dist d;
        struct err err = {0};
        int rc;
        begin(&d, &(struct script){.done_at = late ? NEVER : 1999}, false);
        while ((rc = dist_poll_init(&d, &err)) == 0)
            now++;
        assert_int_equal(rc, late ? -1 : 1);
        assert_int_equal(now - began, late ? 2 * SECOND : 1999);
        assert_int_equal(d.fault.kind, late ? DIST_ABSENT : DIST_FINE);
    }
}

/* --- communication beside computing -------------------------------------------------------- */

enum { NUMBERS = 1000 }; /* per bucket */

/* A link that runs one call after the other, each for its duration, whatever this rank does
 * meanwhile. */
static struct {
    int64_t call_ms, free_at, arrives[DIST_QUEUE];
} wire;

static void set_off(struct dist *d, const struct dist_call *call)
{
    (void)d;
    wire.free_at = (wire.free_at > now ? wire.free_at : now) + wire.call_ms;
    wire.arrives[call->seq % DIST_QUEUE] = wire.free_at;
}

static int has_arrived(struct dist *d, const struct dist_call *call)
{
    (void)d;
    return now >= wire.arrives[call->seq % DIST_QUEUE];
}

static void sleep_a_moment(struct dist *d)
{
    (void)d;
    now++;
}

static const struct dist_ops link_ops = {.name = "link", .begun = set_off, .advance = has_arrived,
                                         .sleep = sleep_a_moment, .blame = blame, .raise = tell_all};

/* A backward pass that computes a bucket in a given time, and submits each when it is complete, or
 * all at the end; returns how long it waits then. */
static int64_t exposed_ms(int buckets, int64_t bucket_ms, int64_t call_ms, bool overlap)
{
    const size_t numbers = NUMBERS * (size_t)buckets;
    struct bucket_plan plan = {.numbers = numbers, .most = NUMBERS, .left = buckets};
    struct bucket b;
    struct dist d;
    struct err err = {0};
    begin(&d, &(struct script){0}, true);
    d.ops = &link_ops;
    d.c.wait_ms = HOUR;
    wire.call_ms = call_ms;
    wire.free_at = 0;
    for (int i = 1; i <= buckets; i++) {
        now += bucket_ms;
        while ((overlap || i == buckets) && bucket_plan_next(&plan, numbers - NUMBERS * (size_t)i, &b))
            assert_int_equal(dist_all_reduce(&d, NULL, b.to - b.from, DIST_F32, DIST_SUM, &err), 0);
    }
    assert_int_equal(plan.left, 0);
    assert_int_equal(dist_wait_for(&d, HOUR, &err), 0);
    assert_int_equal(now - began, buckets * bucket_ms + (int64_t)(d.stats.wait_ns / 1000000));
    return (int64_t)(d.stats.wait_ns / 1000000);
}

/* rest() of docs/DISTRIBUTED.md: for communication c and computing t, max(c / B, c - t (1 - 1 /
 * B)). */
static void overlapped_communication_costs_no_wait(void **state)
{
    (void)state;
    static const struct {
        int     buckets;
        int64_t bucket_ms, call_ms; /* time to compute one bucket; to reduce it */
        int64_t exposed;
    } rows[] = {
        {1, 100, 30, 30},     /* the last bucket is never hidden */
        {10, 100, 30, 30},
        {10, 100, 100, 100},
        {10, 100, 130, 400},  /* 1300 beside 900 */
        {10, 0, 30, 300},
        {50, 20, 70, 2520},
        {50, 20, 0, 0},
        {600, 20, 70, 30020}, /* more than are kept: 42000 beside 11980 */
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const int64_t c = rows[i].buckets * rows[i].call_ms;
        assert_int_equal(exposed_ms(rows[i].buckets, rows[i].bucket_ms, rows[i].call_ms, true), rows[i].exposed);
        assert_int_equal(exposed_ms(rows[i].buckets, rows[i].bucket_ms, rows[i].call_ms, false), c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wait_ends_at_its_deadline),
        cmocka_unit_test(connecting_has_a_deadline),
        cmocka_unit_test(overlapped_communication_costs_no_wait),
    };
    return cmocka_run_group_tests_name("dist_clock", tests, NULL, NULL);
}
