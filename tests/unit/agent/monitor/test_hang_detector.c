/* SPDX-License-Identifier: Apache-2.0 */
/* test_hang_detector.c - pages as written by ranks, on a virtual clock: which rank hangs, when, and which does not */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/monitor/hang_detector.h"

enum { RANKS = 3, LOOK_MS = 200 };

static struct hang_detector *h;
static struct flight_page page[RANKS];
static struct hang_detector_rank ranks[RANKS];
static int64_t now;
static struct hang_detector_verdict verdict;

/* --- a world of ranks ------------------------------------------------------------------- */

static void begin(const struct hang_rules *rules, const json_t *learned, int n)
{
    assert_int_equal(hang_detector_create(&h, n, rules, learned, NULL), 0);
    memset(page, 0, sizeof(page));
    now = 1000000;
    for (int i = 0; i < RANKS; i++) {
        page[i].pid = (uint64_t)(100 + i);
        page[i].ring_next = 1;
        page[i].phase_start_ns = (uint64_t)now * 1000000;
        ranks[i] = (struct hang_detector_rank){.alive = true, .state = 'S', .page = &page[i]};
    }
    hang_detector_begin(h, now);
}

static int down(void **state)
{
    (void)state;
    hang_detector_destroy(h);
    h = NULL;
    return 0;
}

static void enter_at(int rank, uint64_t step, enum flight_phase phase, int64_t at_ms)
{
    struct flight_page *p = &page[rank];
    uint64_t seq = p->ring_next++;
    p->step_phase = step << 8 | (uint64_t)phase;
    p->phase_start_ns = (uint64_t)at_ms * 1000000;
    p->ring[seq % FLIGHT_RING] =
        (struct flight_entry){.seq = seq,
                              .at_ns = p->phase_start_ns,
                              .step_phase = p->step_phase,
                              .value = phase == PHASE_FORWARD ? p->bucket : 0};
}

static void enter(int rank, uint64_t step, enum flight_phase phase)
{
    enter_at(rank, step, phase, now);
}

/* Looks until then; true as soon as one finds a hang. */
static bool look_for(int64_t ms)
{
    for (int64_t end = now + ms; now < end;) {
        now += LOOK_MS;
        if (hang_detector_look(h, ranks, now, &verdict))
            return true;
    }
    return false;
}

/* All ranks do steps, each with a forward phase of so many ms and quick other ones. */
static void steps(int ranks_n, uint64_t from, uint64_t to, int64_t forward_ms)
{
    for (uint64_t step = from; step < to; step++) {
        for (int r = 0; r < ranks_n; r++) {
            enter(r, step, PHASE_DATA);
            enter_at(r, step, PHASE_FORWARD, now + 1);
            enter_at(r, step, PHASE_BACKWARD, now + 1 + forward_ms);
            page[r].coll_seq = step + 1;
            page[r].coll_done_seq = step + 1;
            enter_at(r, step, PHASE_REDUCE, now + 2 + forward_ms);
            enter_at(r, step, PHASE_OPTIMIZER, now + 3 + forward_ms);
            page[r].step_phase = (step + 1) << 8 | PHASE_OPTIMIZER;
        }
        for (const int64_t end = now + forward_ms + 4; now < end;) {
            now = end - now > LOOK_MS ? now + LOOK_MS : end;
            assert_false(hang_detector_look(h, ranks, now, &verdict));
        }
    }
    for (int r = 0; r < ranks_n; r++)
        enter(r, to, PHASE_DATA);
}

static const struct hang_rules automatic = {.engine = true};

/* --- the tests -------------------------------------------------------------------------- */

static void a_silent_rank_is_named_after_five_seconds(void **state)
{
    (void)state;
    begin(&automatic, NULL, RANKS);
    steps(RANKS, 0, 50, 40);
    int64_t since = now;
    for (int r = 0; r < RANKS; r++) /* rank 1 never gets out of forward; the others wait for it */
        enter(r, 50, r == 1 ? PHASE_FORWARD : PHASE_REDUCE);
    page[0].coll_seq = page[2].coll_seq = 51;
    assert_true(look_for(20000));
    assert_in_range(now - since, 5000, 5600);
    assert_int_equal(verdict.rank, 1);
    assert_false(verdict.init);
    assert_int_equal(verdict.phase, PHASE_FORWARD);
    assert_string_equal(verdict.text,
                        "rank 1 hangs in forward of step 51: no progress for 5.0 s "
                        "(deadline 5.0 s); it never entered all-reduce 51, in which 2 ranks wait");
}

static void waiting_for_a_slow_checkpoint_is_no_hang(void **state)
{
    (void)state;
    begin(&automatic, NULL, RANKS);
    steps(RANKS, 0, 20, 40);
    for (int r = 0; r < RANKS; r++)
        enter(r, 20, PHASE_CHECKPOINT);
    page[1].coll_seq = page[2].coll_seq = 21; /* the barrier that rank 0 comes to when it is done */
    assert_false(look_for(300 * 1000));
    page[0].coll_seq = 21;
    for (int r = 0; r < RANKS; r++)
        page[r].coll_done_seq = 21;
    steps(RANKS, 20, 30, 40);
}

static void work_that_grows_is_no_hang(void **state)
{
    (void)state;
    begin(&automatic, NULL, RANKS);
    page[1].coll_seq = page[2].coll_seq = 1; /* rank 0 packs: an hour, a picture now and then */
    for (int i = 0; i < 60; i++) {
        page[0].phase_done++;
        assert_false(look_for(60 * 1000));
    }
    int64_t since = now;
    assert_true(look_for(HANG_FIRST_STEP_MS + 1000)); /* and then none */
    assert_in_range(now - since, HANG_FIRST_STEP_MS - 61000, HANG_FIRST_STEP_MS);
    assert_int_equal(verdict.rank, 0);
    assert_true(verdict.init);
}

static void reading_a_large_checkpoint_is_no_hang(void **state)
{
    (void)state;
    begin(&(struct hang_rules){.engine = true, .first_step_ms = 20000}, NULL, 1);
    for (int i = 0; i < 60; i++) { /* ten minutes of a slow disk */
        ranks[0].use.io_bytes += 1 << 20;
        assert_false(look_for(10000));
    }
    steps(1, 0, 20, 40);
    enter(0, 20, PHASE_FORWARD); /* where nothing is to be read, it is no sign of life */
    bool found = false;
    for (int i = 0; i < 60 && !found; i++) {
        ranks[0].use.io_bytes += 1 << 20;
        found = look_for(100);
    }
    assert_true(found);
}

static void the_first_step_may_take_long(void **state)
{
    (void)state;
    begin(&(struct hang_rules){.engine = true, .first_step_ms = 60000}, NULL, 1);
    enter(0, 7, PHASE_DATA); /* resumed at step 7: nothing is done yet */
    enter(0, 7, PHASE_FORWARD);
    assert_false(look_for(59000));
    assert_true(look_for(2000));
    assert_true(verdict.init);
}

static void slow_phases_have_later_deadlines(void **state)
{
    (void)state;
    begin(&automatic, NULL, 1);
    steps(1, 0, 40, 3000); /* 3 s: four times that, as the histogram's bin has it */
    enter(0, 40, PHASE_FORWARD);
    assert_false(look_for(11500));
    assert_true(look_for(6000));
    assert_in_range(verdict.deadline_ms, 12000, 17000);
}

/* A batch that was loaded ahead takes microseconds: known, and not "never seen". */
static void a_phase_of_microseconds_is_known(void **state)
{
    (void)state;
    begin(&automatic, NULL, 1);
    for (uint64_t step = 0; step < 20; step++) {
        enter(0, step, PHASE_DATA);
        enter(0, step, PHASE_FORWARD);
        page[0].ring[(page[0].ring_next - 1) % FLIGHT_RING].at_ns += 5000;
        page[0].coll_seq = page[0].coll_done_seq = step + 1;
        assert_false(look_for(LOOK_MS));
    }
    enter(0, 20, PHASE_DATA);
    assert_false(look_for(19000));
    assert_true(look_for(2000));
}

static void what_an_earlier_attempt_learned_counts(void **state)
{
    (void)state;
    begin(&automatic, NULL, 1);
    page[0].bucket = (uint64_t)32 << 32 | 26;
    steps(1, 0, 40, 3000);
    json_t *learned = hang_detector_learned(h);
    assert_true(json_number_value(json_object_get(learned, "forward")) >= 3000);
    assert_true(json_number_value(json_object_get(json_object_get(learned, "32x26"), "forward")) >= 3000);
    down(state);
    begin(&automatic, learned, 1);
    json_decref(learned);
    page[0].bucket = (uint64_t)32 << 32 | 26;
    steps(1, 0, 2, 10); /* this one is quick so far */
    enter(0, 2, PHASE_FORWARD);
    assert_false(look_for(11500));
    assert_true(look_for(6000));
}

static void buckets_have_their_own_deadlines(void **state)
{
    (void)state;
    begin(&automatic, NULL, 1);
    page[0].bucket = (uint64_t)64 << 32 | 64;
    steps(1, 0, 20, 4000);
    page[0].bucket = (uint64_t)16 << 32 | 16;
    steps(1, 20, 40, 40);
    enter(0, 40, PHASE_FORWARD); /* a small one: the patience with large ones is not for it */
    assert_true(look_for(5600));
    page[0].step_phase++;
    page[0].bucket = (uint64_t)64 << 32 | 64;
    enter(0, 40, PHASE_FORWARD);
    assert_false(look_for(15000));
}

static void a_stopped_process_needs_no_other_sign(void **state)
{
    (void)state;
    begin(&automatic, NULL, RANKS);
    ranks[2].state = 'T'; /* in init, where 5 minutes would be allowed */
    assert_true(look_for(5400));
    assert_int_equal(verdict.rank, 2);
    assert_non_null(strstr(verdict.text, "its process is stopped (SIGSTOP)"));
}

/* It was stopped inside of the collective in which the others wait, a moment after they began to. */
static void who_waits_for_a_stopped_one_is_not_to_blame(void **state)
{
    (void)state;
    begin(&automatic, NULL, RANKS);
    steps(RANKS, 0, 20, 40);
    for (int r = 0; r < RANKS; r++) {
        enter(r, 20, PHASE_REDUCE);
        page[r].coll_seq = 21;
    }
    assert_false(look_for(1000));
    page[1].phase_done++;
    ranks[1].state = 'T';
    assert_false(look_for(4800));
    assert_true(look_for(800));
    assert_int_equal(verdict.rank, 1);
}

static void a_debugger_stops_the_clock(void **state)
{
    (void)state;
    begin(&automatic, NULL, RANKS);
    steps(RANKS, 0, 20, 40);
    ranks[1].state = 't';
    page[0].coll_seq = page[2].coll_seq = 21;
    assert_false(look_for(3600 * 1000));
    ranks[1].state = 'S';
    assert_true(look_for(21000));
}

static void all_in_one_collective_blame_nobody(void **state)
{
    (void)state;
    begin(&automatic, NULL, RANKS);
    steps(RANKS, 0, 20, 40);
    for (int r = 0; r < RANKS; r++) {
        enter(r, 20, PHASE_REDUCE);
        page[r].coll_seq = 21;
    }
    assert_true(look_for(5600));
    assert_int_equal(verdict.rank, -1);
    assert_string_equal(verdict.text, "all ranks are in all-reduce 21 of step 21: no progress for "
                                      "5.0 s (deadline 5.0 s)");
}

static void the_spec_may_set_the_deadline(void **state)
{
    (void)state;
    begin(&(struct hang_rules){.engine = true, .step_ms = 30000}, NULL, 1);
    steps(1, 0, 10, 40);
    enter(0, 10, PHASE_BACKWARD);
    assert_false(look_for(29000));
    assert_true(look_for(2000));
}

static void an_agent_put_aside_blames_nobody(void **state)
{
    (void)state;
    begin(&automatic, NULL, RANKS);
    steps(RANKS, 0, 20, 40);
    hang_detector_look(h, ranks, now, &verdict);
    now += 3600 * 1000; /* the machine slept */
    assert_false(hang_detector_look(h, ranks, now, &verdict));
    assert_false(look_for(3000));
}

static void commands_are_given_more_time_and_need_no_page(void **state)
{
    (void)state;
    begin(&(struct hang_rules){.engine = false}, NULL, 2);
    page[0].pid = 0; /* writes nothing: nothing is known of it */
    enter(1, 0, PHASE_FORWARD);
    now += 1000;
    hang_detector_look(h, ranks, now, &verdict);
    enter(1, 1, PHASE_FORWARD);
    enter_at(1, 2, PHASE_FORWARD, now + 50);
    enter_at(1, 3, PHASE_FORWARD, now + 100);
    assert_false(look_for(299 * 1000));
    assert_true(look_for(3000));
    assert_int_equal(verdict.rank, 1);
}

static void collectives_count_where_there_are_no_steps(void **state)
{
    (void)state;
    begin(&(struct hang_rules){.engine = false, .step_ms = 10000}, NULL, 2);
    for (int r = 0; r < 2; r++)
        enter(r, 0, PHASE_FORWARD); /* as NCCL's plugin does, once */
    for (int i = 1; i < 200; i++) {
        page[0].coll_seq = page[0].coll_done_seq = page[1].coll_seq = page[1].coll_done_seq = (uint64_t)i;
        now += 50;
        assert_false(hang_detector_look(h, ranks, now, &verdict));
    }
    page[0].coll_seq++; /* rank 1 does not come */
    assert_false(look_for(9000));
    assert_true(look_for(2000));
    assert_int_equal(verdict.rank, 1);
    assert_non_null(strstr(verdict.text, "it never entered all-reduce 200, in which rank 0 waits"));
}

static void ranks_that_never_come_up_are_named(void **state)
{
    (void)state;
    begin(&(struct hang_rules){.engine = true, .first_step_ms = 20000}, NULL, 2);
    page[1].pid = 0;
    page[0].coll_seq = 1;
    assert_false(look_for(19000));
    assert_true(look_for(2000));
    assert_int_equal(verdict.rank, 1);
    assert_non_null(strstr(verdict.text, "rank 1 did not start up within 20.0 s"));
}

/* --- a soak: hours of what is slow, but no hang ------------------------------------------ */

enum { SOAK_RANKS = 3, SOAK_HOURS = 4 };

static uint64_t jitter_state;

/* 0 .. n - 1 (splitmix64) */
static int64_t dice(int64_t n)
{
    uint64_t z = (jitter_state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (int64_t)((z ^ (z >> 31)) % (uint64_t)n);
}

/* Time passes, the agent looks; now and then it is itself put aside for minutes. */
static void pass(int64_t until)
{
    while (now + LOOK_MS <= until) {
        now += dice(5000) == 0 ? dice(600000) : LOOK_MS;
        if (hang_detector_look(h, ranks, now, &verdict))
            fail_msg("a false alarm: %s", verdict.text);
    }
}

struct moment {
    int64_t at;
    int rank;
    enum flight_phase phase;
};

static int by_time(const void *a, const void *b)
{
    const struct moment *x = a, *y = b;
    return x->at < y->at ? -1 : x->at > y->at;
}

/* Of a phase that usually takes so long: one in two hundred takes up to 4.5 s, data up to 19 s. */
static int64_t takes(enum flight_phase phase, int64_t usual)
{
    if (dice(200) == 0)
        return dice(phase == PHASE_DATA ? 19000 : 4500);
    return usual + dice(usual);
}

/* One step of all ranks, which wait for each other in its collective. */
static void soak_step(uint64_t step)
{
    const int64_t size = 1 + dice(4);
    struct moment m[3 * SOAK_RANKS];
    int64_t all = 0;
    for (int r = 0; r < SOAK_RANKS; r++) {
        int64_t at = now;
        enter(r, step, PHASE_DATA);
        page[r].bucket = (uint64_t)size << 32 | 32;
        for (int i = 0; i < 3; i++) {
            static const enum flight_phase next[] = {PHASE_FORWARD, PHASE_BACKWARD, PHASE_REDUCE};
            at += i == 0 ? takes(PHASE_DATA, 3) : takes(PHASE_FORWARD, 20 * i * size);
            m[3 * r + i] = (struct moment){at, r, next[i]};
        }
        all = at > all ? at : all;
    }
    qsort(m, sizeof(m) / sizeof(m[0]), sizeof(m[0]), by_time);
    for (int i = 0; i < 3 * SOAK_RANKS; i++) {
        pass(m[i].at);
        enter_at(m[i].rank, step, m[i].phase, m[i].at);
        if (m[i].phase == PHASE_REDUCE)
            page[m[i].rank].coll_seq = step + 1;
    }
    pass(all);
    now = all > now ? all : now;
    for (int r = 0; r < SOAK_RANKS; r++) {
        page[r].coll_done_seq = step + 1;
        enter(r, step, PHASE_OPTIMIZER);
        page[r].step_phase = (step + 1) << 8 | PHASE_OPTIMIZER;
    }
    pass(now + takes(PHASE_OPTIMIZER, 5));
}

/* Rank 0 works, the others wait in the barrier after it: a checkpoint without any sign for up to
 * nine minutes, or pictures, each of which may take as long. */
static void soak_pause(uint64_t step)
{
    const bool pictures = dice(3) == 0;
    enter(0, step, pictures ? PHASE_VALIDATE : PHASE_CHECKPOINT);
    for (int r = 1; r < SOAK_RANKS; r++) {
        enter(r, step, PHASE_CHECKPOINT);
        page[r].coll_seq++;
    }
    for (int i = pictures ? 8 : 1; i > 0; i--) {
        pass(now + dice(540000));
        page[0].phase_done++;
    }
    for (int r = 0; r < SOAK_RANKS; r++)
        page[r].coll_seq = page[r].coll_done_seq;
}

static void hours_of_slow_phases_are_no_hang(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        uint64_t step = 0;
        jitter_state = seed;
        begin(&automatic, NULL, SOAK_RANKS);
        const int64_t end = now + SOAK_HOURS * 3600000LL;
        for (int r = 0; r < SOAK_RANKS; r++)
            enter(r, 0, PHASE_DATA);
        pass(now + dice(290000)); /* the first step: whatever is compiled or read */
        while (now < end) {
            soak_step(step++);
            if (dice(2000) == 0)
                soak_pause(step);
        }
        for (int r = 0; r < SOAK_RANKS; r++) /* and now in earnest */
            enter(r, step, r == 2 ? PHASE_FORWARD : PHASE_REDUCE);
        page[0].coll_seq = page[1].coll_seq = step + 1;
        assert_true(look_for(60000));
        assert_int_equal(verdict.rank, 2);
        assert_true(step > 4000);
        hang_detector_destroy(h);
        h = NULL;
    }
}

#define TEST(f) cmocka_unit_test_teardown(f, down)

/* An entry may be read while its rank writes it, and the ring is shorter than what happened since the last look: what is
 * not whole is not learned. */
static void entries_that_are_not_whole_are_not_learned(void **state)
{
    (void)state;
    begin(&automatic, NULL, 1);
    steps(1, 0, 20, 40);
    for (int kind = 0; kind < 4; kind++) {
        const uint64_t at = page[0].ring_next;
        struct flight_entry *e = &page[0].ring[at % FLIGHT_RING], *after = &page[0].ring[(at + 1) % FLIGHT_RING];
        enter(0, 20, PHASE_FORWARD);
        enter_at(0, 20, PHASE_BACKWARD, now + 40);
        enter_at(0, 20, PHASE_DATA, now + 41);
        if (kind == 0)
            *e = (struct flight_entry){.step_phase = e->step_phase}; /* being written again */
        else if (kind == 1)
            *after = (struct flight_entry){.at_ns = e->at_ns + (uint64_t)1e15};
        else if (kind == 2)
            e->at_ns = after->at_ns + 1;
        for (int i = 0; kind == 3 && i < 2 * FLIGHT_RING; i++)
            enter_at(0, 20, i % 2 ? PHASE_FORWARD : PHASE_BACKWARD, now + 41 + 40 * i);
        now += LOOK_MS;
        assert_false(hang_detector_look(h, ranks, now, &verdict));
        json_t *learned = hang_detector_learned(h);
        const double ms = json_number_value(json_object_get(learned, "forward"));
        json_decref(learned);
        if (ms < 40 || ms > 60)
            fail_msg("kind %d: a forward phase of %g ms was learned", kind, ms);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(entries_that_are_not_whole_are_not_learned, down),
        TEST(a_silent_rank_is_named_after_five_seconds),
        TEST(waiting_for_a_slow_checkpoint_is_no_hang),
        TEST(work_that_grows_is_no_hang),
        TEST(reading_a_large_checkpoint_is_no_hang),
        TEST(the_first_step_may_take_long),
        TEST(slow_phases_have_later_deadlines),
        TEST(a_phase_of_microseconds_is_known),
        TEST(what_an_earlier_attempt_learned_counts),
        TEST(buckets_have_their_own_deadlines),
        TEST(a_stopped_process_needs_no_other_sign),
        TEST(who_waits_for_a_stopped_one_is_not_to_blame),
        TEST(a_debugger_stops_the_clock),
        TEST(all_in_one_collective_blame_nobody),
        TEST(the_spec_may_set_the_deadline),
        TEST(an_agent_put_aside_blames_nobody),
        TEST(commands_are_given_more_time_and_need_no_page),
        TEST(collectives_count_where_there_are_no_steps),
        TEST(ranks_that_never_come_up_are_named),
        TEST(hours_of_slow_phases_are_no_hang),
    };
    return cmocka_run_group_tests_name("hang", tests, NULL, NULL);
}
