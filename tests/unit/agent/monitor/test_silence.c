/* SPDX-License-Identifier: Apache-2.0 */
/* test_silence.c - commands on a virtual clock, judged by the activity of their processes: which silence is a hang,
 * which activity is not work */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "agent/monitor/hang_detector.h"

enum { RANKS = 2, LOOK_MS = 200, MINUTE = 60 * 1000, HOUR = 60 * MINUTE };

static struct hang_detector *h;
static struct flight_page page[RANKS];
static struct hang_detector_rank ranks[RANKS];
static struct hang_detector_verdict verdict;
static int64_t now;
static int64_t window_ms;       /* of the counters */
static uint64_t work_us[RANKS]; /* in the present window */
static int n;

/* --- a world of commands ------------------------------------------------------------------- */

/* What a rank does in a second. */
struct load {
    uint64_t cpu_ms, io, output;
    bool     gpu;
    unsigned busy, memory;
    uint64_t link_kb_s;
};

static const struct load sleeps, compiles = {.cpu_ms = 1000}, ticks = {.cpu_ms = 4, .output = 1},
    trains = {.cpu_ms = 2500, .io = 8 << 20, .output = 120},
    prints = {.output = 1}, downloads = {.cpu_ms = 60, .io = 3 << 20},
    spins = {.cpu_ms = 1000, .output = 1, .gpu = true, .busy = 100, .memory = 0, .link_kb_s = 9},
    evaluates = {.cpu_ms = 20, .gpu = true, .busy = 92, .memory = 37},
    gpu_trains = {.cpu_ms = 1500, .io = 1 << 20, .output = 200, .gpu = true, .busy = 98, .memory = 45};

static void begin(const struct hang_rules *rules, const json_t *learned, int count)
{
    n = count;
    assert_int_equal(hang_detector_create(&h, n, rules, learned, NULL), 0);
    memset(page, 0, sizeof(page));
    now = 5000000;
    window_ms = 1000;
    for (int i = 0; i < RANKS; i++)
        ranks[i] = (struct hang_detector_rank){.alive = true, .state = 'S', .page = &page[i]};
    hang_detector_begin(h, now);
}

static int down(void **state)
{
    (void)state;
    hang_detector_destroy(h);
    h = NULL;
    return 0;
}

static void use(struct activity_sample *s, const struct load *l)
{
    uint64_t *work = &work_us[s == &ranks[1].use];
    s->at_ms = now;
    *work += 1000 * l->cpu_ms;
    if (now - s->counted_ms >= window_ms) {
        s->counted_ms = now;
        s->work_us += *work;
        *work = 0;
    }
    s->io_bytes += l->io;
    s->output_bytes += l->output;
    s->gpu = l->gpu;
    s->gpu_busy = l->busy;
    s->gpu_memory = l->memory;
    s->link_kb_s = l->link_kb_s;
}

/* All ranks do this for so long; true as soon as a hang is found. */
static bool all_do(const struct load *l, int64_t ms)
{
    for (int64_t end = now + ms; now < end;) {
        now += LOOK_MS;
        for (int i = 0; i < n && now % 1000 == 0; i++)
            use(&ranks[i].use, l);
        if (hang_detector_look(h, ranks, now, &verdict))
            return true;
    }
    return false;
}

/* As templates/jobctl_progress.py and NCCL's plugin write it. */
static void enter(int rank, uint64_t step, enum flight_phase phase)
{
    struct flight_page *p = &page[rank];
    const uint64_t seq = p->ring_next ? p->ring_next : 1;
    p->pid = (uint64_t)(100 + rank);
    p->step_phase = step << 8 | (uint64_t)phase;
    p->phase_start_ns = (uint64_t)now * 1000000;
    p->ring[seq % FLIGHT_RING] =
        (struct flight_entry){.seq = seq, .at_ns = p->phase_start_ns, .step_phase = p->step_phase};
    p->ring_next = seq + 1;
}

static void steps(uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        for (int r = 0; r < n; r++) {
            enter(r, i, i % 2 ? PHASE_FORWARD : PHASE_DATA);
            page[r].coll_seq = page[r].coll_done_seq = i + 1;
        }
        assert_false(all_do(&trains, LOOK_MS));
    }
    for (int r = 0; r < n; r++)
        enter(r, count, PHASE_FORWARD);
}

static const struct hang_rules automatic, engine = {.engine = true};

/* --- what is a hang ------------------------------------------------------------------------ */

static void silence_of_ten_minutes_is_one_in_the_first_hour(void **state)
{
    (void)state;
    begin(&automatic, NULL, RANKS);
    assert_false(all_do(&trains, MINUTE));
    int64_t since = now;
    assert_true(all_do(&sleeps, 11 * MINUTE));
    assert_in_range(now - since, 10 * MINUTE - 1000, 10 * MINUTE + 1000);
    assert_false(verdict.init);
    assert_string_equal(verdict.text, "none of 2 ranks has shown a sign of life for 600.0 s (limit 600.0 s): "
                                      "no output, no CPU work, nothing read or written, no network traffic");
}

/* Steps of 200 ms, then of 3 s, then nothing. */
static void a_job_that_prints_steps_regularly_hangs_sooner(void **state)
{
    (void)state;
    const int64_t pause[] = {200, 3000}, limit[] = {HANG_RHYTHM_MS, 300 * 1000};
    for (int k = 0; k < 2; k++) {
        begin(&automatic, NULL, RANKS);
        for (int i = 0; i < 30; i++) {
            hang_detector_step(h);
            assert_false(all_do(&trains, pause[k]));
        }
        const int64_t since = now;
        assert_true(all_do(&sleeps, 11 * MINUTE));
        assert_in_range(now - since, limit[k] - 4000, limit[k] + 4000);
        hang_detector_destroy(h);
    }
    begin(&automatic, NULL, RANKS); /* a few steps are no rhythm */
    for (int i = 0; i < 10; i++) {
        hang_detector_step(h);
        assert_false(all_do(&trains, 200));
    }
    assert_false(all_do(&sleeps, 9 * MINUTE));
}

/* A logger in a thread of its own; an evaluation, whose main threads work. */
static void threads_in_the_background_delay_the_verdict(void **state)
{
    (void)state;
    begin(&automatic, NULL, RANKS);
    for (int i = 0; i < 30; i++) {
        hang_detector_step(h);
        ranks[0].use.main_us += 2000;
        ranks[1].use.main_us += 2000;
        assert_false(all_do(&trains, 1000));
    }
    for (int i = 0; i < 3600; i++) {
        ranks[i % 2].use.main_us += 2000; /* one of them evaluates while the other one waits */
        assert_false(all_do(&compiles, 1000));
    }
    const int64_t since = now;
    assert_true(all_do(&compiles, HOUR));
    assert_in_range(now - since, HANG_SILENT_NEW_MS - 2000, HANG_SILENT_NEW_MS + 2000);
    assert_string_equal(verdict.text, "none of 2 ranks has reported a step or worked in a main thread for 600.0 s "
                                      "(limit 600.0 s; a step usually takes 1.0 s): only threads in the background work");
}

/* A network file system that writes a checkpoint; an evaluation longer than training, with its work. */
static void a_long_pause_between_steps_is_no_hang(void **state)
{
    (void)state;
    begin(&automatic, NULL, RANKS);
    for (int i = 0; i < 30; i++) {
        hang_detector_step(h);
        assert_false(all_do(&trains, 600));
    }
    ranks[0].use.blocked = true;
    assert_false(all_do(&sleeps, 9 * MINUTE));
    assert_false(all_do(&trains, 1000));
    ranks[0].use.blocked = false;
    assert_false(all_do(&downloads, HOUR));
    assert_false(all_do(&compiles, HOUR));
    ranks[1].state = 't'; /* a debugger */
    assert_false(all_do(&sleeps, HOUR));
}

static void later_it_is_four_times_the_longest_quiet_time(void **state)
{
    (void)state;
    begin(&automatic, NULL, 1);
    assert_false(all_do(&trains, 30 * MINUTE));
    assert_false(all_do(&sleeps, 40 * 1000)); /* a checkpoint on a slow disk */
    assert_false(all_do(&trains, HOUR));
    int64_t since = now;
    assert_true(all_do(&sleeps, 10 * MINUTE));
    assert_in_range(now - since, 150 * 1000, 170 * 1000);
}

static void it_is_never_less_than_a_minute(void **state)
{
    (void)state;
    begin(&automatic, NULL, 1);
    assert_false(all_do(&trains, HOUR + MINUTE));
    int64_t since = now;
    assert_true(all_do(&sleeps, 10 * MINUTE));
    assert_in_range(now - since, 60 * 1000 - 1000, 62 * 1000);
}

static void windows_delay_the_verdict_by_two_at_most(void **state)
{
    (void)state;
    for (int64_t offset = 0; offset < 10000; offset += 1000) {
        begin(&(struct hang_rules){.silent_ms = 40000}, NULL, RANKS);
        window_ms = 10000;
        assert_false(all_do(&compiles, MINUTE + offset));
        int64_t since = now;
        assert_true(all_do(&sleeps, 2 * MINUTE));
        assert_in_range(now - since, 40 * 1000, 60 * 1000);
        down(state);
    }
    begin(&(struct hang_rules){.silent_ms = 12000}, NULL, 1); /* output counts at once */
    window_ms = 3000;
    for (int i = 0; i < 20; i++) {
        assert_false(all_do(&prints, 1000));
        assert_false(all_do(&sleeps, 10000));
    }
}

static void one_rank_at_work_is_life(void **state)
{
    (void)state;
    begin(&automatic, NULL, RANKS);
    assert_false(all_do(&trains, MINUTE));
    for (int64_t end = now + HOUR; now < end;) { /* rank 0 evaluates, rank 1 waits for it */
        use(&ranks[0].use, &compiles);
        assert_false(all_do(&sleeps, 1000));
    }
}

static void a_thread_that_ticks_is_no_life(void **state)
{
    (void)state;
    begin(&automatic, NULL, RANKS);
    assert_false(all_do(&trains, 5 * MINUTE));
    int64_t since = now;
    assert_true(all_do(&ticks, 11 * MINUTE));
    assert_in_range(now - since, 10 * MINUTE - 1000, 10 * MINUTE + 1000);
    assert_non_null(strstr(verdict.text, "CPU work 0.16 % of the usual rate"));
}

static void a_rank_that_spins_in_a_collective_is_found(void **state)
{
    (void)state;
    begin(&automatic, NULL, RANKS);
    steps(100);
    page[0].coll_seq = page[1].coll_seq = 101; /* of NCCL's plugin: begun, never finished */
    int64_t since = now;
    assert_true(all_do(&compiles, HOUR));
    assert_in_range(now - since, 290 * 1000, 310 * 1000);
    assert_non_null(strstr(verdict.text, "all ranks are in all-reduce 101"));
}

static void without_the_plugin_an_idle_memory_controller_tells(void **state)
{
    (void)state;
    begin(&automatic, NULL, RANKS);
    assert_false(all_do(&gpu_trains, 5 * MINUTE));
    int64_t since = now;
    assert_true(all_do(&spins, HOUR));
    assert_in_range(now - since, 10 * MINUTE - 1000, 10 * MINUTE + 1000);
    assert_non_null(strstr(verdict.text, "GPU busy but its memory idle"));
}

static void the_spec_is_obeyed(void **state)
{
    (void)state;
    begin(&(struct hang_rules){.silent_ms = 5000}, NULL, 1);
    assert_true(all_do(&sleeps, 6000));
    assert_true(verdict.init);
    down(state);
    begin(&(struct hang_rules){.step_ms = 5000}, NULL, 1); /* no page: nothing else shows a step */
    assert_true(all_do(&sleeps, 6000));
    down(state);
    begin(&(struct hang_rules){.step_ms = 5000}, NULL, 1);
    assert_false(all_do(&compiles, 250 * 1000)); /* the import */
    assert_false(all_do(&trains, MINUTE));
    assert_true(all_do(&compiles, 7000));
    assert_non_null(strstr(verdict.text, "it has not printed anything for 5"));
    down(state);
    begin(&(struct hang_rules){.step_ms = 5000, .first_step_ms = 20000}, NULL, 1);
    assert_false(all_do(&compiles, 19000));
    assert_true(all_do(&compiles, 2000));
    down(state);
    begin(&(struct hang_rules){.step_ms = 5000}, NULL, 1);
    steps(60);
    assert_true(all_do(&compiles, 7000)); /* a step is a step */
    assert_non_null(strstr(verdict.text, "it was working: raise hang.step"));
    assert_false(verdict.warning);
}

/* --- what is none -------------------------------------------------------------------------- */

static void compiling_for_long_in_a_phase_is_none(void **state)
{
    (void)state;
    begin(&automatic, NULL, RANKS);
    for (int r = 0; r < RANKS; r++)
        enter(r, 0, PHASE_FORWARD);
    assert_false(all_do(&compiles, 8 * MINUTE));
    steps(60);
    for (int r = 0; r < RANKS; r++)
        enter(r, 60, PHASE_DATA);
    assert_false(all_do(&compiles, 380 * 1000));
}

static void downloads_and_evaluations_are_none(void **state)
{
    (void)state;
    begin(&automatic, NULL, 1);
    assert_false(all_do(&downloads, 30 * MINUTE));
    assert_false(all_do(&gpu_trains, 2 * HOUR));
    assert_false(all_do(&downloads, 30 * MINUTE));
    assert_false(all_do(&evaluates, 30 * MINUTE));
}

static void the_engine_may_load_data_for_long(void **state)
{
    (void)state;
    begin(&engine, NULL, 1);
    steps(60);
    enter(0, 60, PHASE_DATA);
    assert_false(all_do(&compiles, 380 * 1000));
    int64_t since = now;
    assert_true(all_do(&sleeps, MINUTE));
    assert_in_range(now - since, 19000, 21000);
}

/* On a busy machine the counters are read seldom: what is not known is no silence. */
static void a_sample_that_is_late_is_none(void **state)
{
    (void)state;
    begin(&(struct hang_rules){.silent_ms = 3000}, NULL, 1);
    for (int i = 0; i < 100; i++) {
        use(&ranks[0].use, &trains);
        for (int64_t end = now + 4000; now < end;) {
            now += LOOK_MS;
            assert_false(hang_detector_look(h, ranks, now, &verdict));
        }
    }
    use(&ranks[0].use, &sleeps);
    now += LOOK_MS;
    assert_true(hang_detector_look(h, ranks, now, &verdict));
}

/* The last rank waits in a barrier for one that works, and ends first. */
static void who_waited_for_a_rank_that_has_ended_is_none(void **state)
{
    (void)state;
    begin(&(struct hang_rules){.silent_ms = 20000}, NULL, RANKS);
    assert_false(all_do(&trains, MINUTE));
    for (int i = 0; i < 60; i++) {
        now += 1000;
        use(&ranks[0].use, &trains);
        use(&ranks[1].use, &sleeps);
        assert_false(hang_detector_look(h, ranks, now, &verdict));
    }
    ranks[0].alive = false;
    assert_false(all_do(&sleeps, 19000));
    assert_true(all_do(&sleeps, 3000));
}

static void a_suspended_machine_is_none(void **state)
{
    (void)state;
    begin(&(struct hang_rules){.silent_ms = 5000}, NULL, RANKS);
    assert_false(all_do(&trains, MINUTE));
    for (int i = 0; i < 20; i++) {
        now += 3 * HOUR;
        assert_false(all_do(&sleeps, 4000));
        assert_false(all_do(&trains, 10 * 1000));
    }
}

static void frozen_together_and_thawed_apart_is_none(void **state)
{
    (void)state;
    begin(&engine, NULL, RANKS);
    steps(60);
    now += 40 * 1000; /* agent and ranks are frozen; the agent comes back first */
    ranks[0].state = ranks[1].state = 'T';
    assert_false(all_do(&sleeps, 12 * 1000));
    ranks[0].state = 'S';
    assert_false(all_do(&sleeps, 12 * 1000));
    ranks[1].state = 'S';
    steps(10);
    int64_t since = now; /* and in earnest again */
    assert_true(all_do(&sleeps, MINUTE));
    assert_in_range(now - since, 4000, 31000);
}

/* --- false alarms -------------------------------------------------------------------------- */

/* The engine computes, but a step takes longer than any before. */
static bool slow_step(int64_t ms)
{
    memset(page, 0, sizeof(page)); /* that of a new generation */
    hang_detector_begin(h, now);
    steps(60);
    return all_do(&compiles, ms);
}

static void each_doubles_the_deadline_and_the_third_only_warns(void **state)
{
    (void)state;
    begin(&engine, NULL, 1);
    int64_t limit = 5000;
    for (int i = 0; i < 2; i++, limit *= 2) {
        assert_true(slow_step(limit + 1500));
        assert_in_range(verdict.deadline_ms, limit, limit);
        assert_false(verdict.warning);
        assert_non_null(strstr(verdict.text, "deadlines are doubled"));
    }
    json_t *learned = hang_detector_learned(h);
    down(state);
    begin(&engine, learned, 1); /* in the next attempt */
    json_decref(learned);
    assert_true(slow_step(25000));
    assert_in_range(verdict.deadline_ms, 20000, 20000);
    assert_true(verdict.warning);
    assert_false(all_do(&compiles, 20 * MINUTE)); /* told once */
    assert_true(all_do(&compiles, 15 * MINUTE));  /* in the same step for half an hour */
    assert_false(verdict.warning);
}

static void a_rank_that_sleeps_is_no_false_alarm(void **state)
{
    (void)state;
    begin(&engine, NULL, 1);
    for (int i = 0; i < 6; i++) {
        memset(page, 0, sizeof(page));
        hang_detector_begin(h, now);
        steps(60);
        assert_true(all_do(&sleeps, 7000));
        assert_in_range(verdict.deadline_ms, 5000, 5000);
        assert_false(verdict.warning);
    }
}

static void what_is_learned_changes_seldom(void **state)
{
    (void)state;
    begin(&automatic, NULL, 1);
    assert_null(hang_detector_learned(h));
    assert_false(all_do(&trains, 59 * 1000));
    assert_null(hang_detector_learned(h)); /* nothing to store of a short job */
    json_t *last = NULL;
    int changes = 0;
    for (int i = 0; i < 300; i++) {
        assert_false(all_do(&trains, MINUTE));
        json_t *learned = hang_detector_learned(h);
        changes += !json_equal(learned, last);
        json_decref(last);
        last = learned;
    }
    json_decref(last);
    assert_in_range(changes, 2, 9);
}

#define TEST(f) cmocka_unit_test_teardown(f, down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(silence_of_ten_minutes_is_one_in_the_first_hour),
        TEST(a_job_that_prints_steps_regularly_hangs_sooner),
        TEST(threads_in_the_background_delay_the_verdict),
        TEST(a_long_pause_between_steps_is_no_hang),
        TEST(later_it_is_four_times_the_longest_quiet_time),
        TEST(it_is_never_less_than_a_minute),
        TEST(windows_delay_the_verdict_by_two_at_most),
        TEST(one_rank_at_work_is_life),
        TEST(a_thread_that_ticks_is_no_life),
        TEST(a_rank_that_spins_in_a_collective_is_found),
        TEST(without_the_plugin_an_idle_memory_controller_tells),
        TEST(the_spec_is_obeyed),
        TEST(compiling_for_long_in_a_phase_is_none),
        TEST(downloads_and_evaluations_are_none),
        TEST(the_engine_may_load_data_for_long),
        TEST(a_sample_that_is_late_is_none),
        TEST(who_waited_for_a_rank_that_has_ended_is_none),
        TEST(a_suspended_machine_is_none),
        TEST(frozen_together_and_thawed_apart_is_none),
        TEST(each_doubles_the_deadline_and_the_third_only_warns),
        TEST(a_rank_that_sleeps_is_no_false_alarm),
        TEST(what_is_learned_changes_seldom),
    };
    return cmocka_run_group_tests_name("silence", tests, NULL, NULL);
}
