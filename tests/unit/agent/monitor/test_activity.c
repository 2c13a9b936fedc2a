/* SPDX-License-Identifier: Apache-2.0 */
/* test_activity.c - which counters are signs of life, and which are spinning or background
 *
 * tests/golden/hangs/windows.json has windows of 10 s of PyTorch 2.6 and 1.13 (in the names) over gloo, hung and at
 * work. Of each thread: CPU time in microseconds, voluntary switches, ticks of 10 ms, state. Threads that did nothing
 * are left out, and so are windows of start-up.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "agent/monitor/activity.h"
#include "agent/monitor/waiting.h"

#define BIT(sign) (1u << (sign))

static struct activity a;
static struct activity_norm norm;
static struct activity_sample now;

static int up(void **state)
{
    (void)state;
    memset(&a, 0, sizeof(a));
    memset(&norm, 0, sizeof(norm));
    now = (struct activity_sample){.at_ms = 1000, .counted_ms = 1000};
    activity_take(&a, &norm, &now, false);
    return 0;
}

/* A second later, with so much more of everything. */
static unsigned second(uint64_t cpu_ms, uint64_t io, uint64_t output, bool in_collective)
{
    now.at_ms += 1000;
    now.counted_ms = now.at_ms;
    now.work_us += 1000 * cpu_ms;
    now.io_bytes += io;
    now.output_bytes += output;
    return activity_take(&a, &norm, &now, in_collective);
}

static void each_counter_is_a_sign(void **state)
{
    (void)state;
    assert_int_equal(second(0, 0, 0, false), 0);
    assert_int_equal(second(10, 0, 0, false), BIT(ACTIVITY_CPU));
    assert_int_equal(second(0, 100000, 0, false), BIT(ACTIVITY_IO));
    assert_int_equal(second(0, 0, 1, false), BIT(ACTIVITY_OUTPUT));
    assert_int_equal(second(0, 100, 0, false), 0); /* a few bytes are a tick of something */
}

static void bytes_moved_by_others_count_whatever_is_usual(void **state)
{
    (void)state;
    now.moved_bytes += 900000000;
    assert_int_equal(second(0, 0, 0, false), BIT(ACTIVITY_MOVED));
    now.moved_bytes += 60;
    assert_int_equal(second(0, 0, 0, false), BIT(ACTIVITY_MOVED));
    assert_int_equal(second(0, 0, 0, false), 0);
}

/* A light step each 3 s of a job that computed as it started; a logger that does the same in another thread. */
static void work_of_the_main_thread_counts_whatever_is_usual(void **state)
{
    (void)state;
    second(3000, 0, 0, false);
    now.main_us += 1000;
    assert_int_equal(second(1, 0, 0, false), BIT(ACTIVITY_CPU));
    now.main_us += 999;
    assert_int_equal(second(1, 0, 0, false), 0);
    assert_int_equal(second(10, 0, 0, false), 0);
}

/* Output counts at once; work when its window ends, over all of it. */
static void work_is_judged_by_windows(void **state)
{
    (void)state;
    for (int i = 0; i < 9; i++) {
        now.at_ms += 1000;
        assert_int_equal(activity_take(&a, &norm, &now, i != 4), 0);
    }
    now.at_ms += 1000;
    now.counted_ms = now.at_ms;
    now.work_us += 10000;
    assert_int_equal(activity_take(&a, &norm, &now, true), BIT(ACTIVITY_CPU)); /* once outside a collective */
    for (int i = 0; i < 9; i++) {
        now.at_ms += 1000;
        assert_int_equal(activity_take(&a, &norm, &now, true), 0);
    }
    now.at_ms += 1000;
    now.counted_ms = now.at_ms;
    now.work_us += 500000;
    assert_int_equal(activity_take(&a, &norm, &now, true), 0); /* in the same collective all the time */
    now.at_ms += 1000;
    now.output_bytes++;
    assert_int_equal(activity_take(&a, &norm, &now, false), BIT(ACTIVITY_OUTPUT));
}

static void one_sample_counts_once(void **state)
{
    (void)state;
    assert_int_equal(second(500, 0, 0, false), BIT(ACTIVITY_CPU));
    assert_int_equal(activity_take(&a, &norm, &now, false), 0);
}

static void less_than_one_percent_of_the_norm_is_background(void **state)
{
    (void)state;
    for (int i = 0; i < 60; i++)
        second(4000, 50 << 20, 2000, false); /* four cores, 50 MiB/s, 2 kB/s of lines */
    assert_int_equal(second(30, 400000, 15, false), 0);
    assert_int_equal(second(50, 400000, 15, false), BIT(ACTIVITY_CPU));
    for (int i = 0; i < 36000; i++) /* ten hours of ticking do not make it the norm */
        assert_int_equal(second(30, 400000, 15, false), 0);
}

static void a_norm_that_falls_is_learned(void **state)
{
    (void)state;
    for (int i = 0; i < 60; i++)
        second(4000, 0, 0, false);
    for (int i = 0; i < 7200; i++) /* work on one core for two hours */
        assert_int_equal(second(1000, 0, 0, false), BIT(ACTIVITY_CPU));
    assert_true(activity_usual(&norm, ACTIVITY_CPU) < 1.2);
}

static void nothing_counts_inside_a_collective(void **state)
{
    (void)state;
    assert_int_equal(second(8000, 1 << 30, 500, true), 0);
    assert_int_equal(second(8000, 0, 0, false), BIT(ACTIVITY_CPU));
}

/* Counters as a GPU shows them: so busy, its memory controller, KiB/s over its links. */
static unsigned gpu_second(unsigned busy, unsigned memory, uint64_t link_kb_s, uint64_t cpu_ms)
{
    now.gpu = true;
    now.gpu_busy = busy;
    now.gpu_memory = memory;
    now.link_kb_s = link_kb_s;
    return second(cpu_ms, 0, 0, false);
}

static void a_busy_gpu_that_moves_no_data_spins(void **state)
{
    (void)state;
    assert_int_equal(gpu_second(97, 41, 2000000, 1000), BIT(ACTIVITY_CPU) | BIT(ACTIVITY_GPU));
    assert_int_equal(gpu_second(35, 6, 0, 0), BIT(ACTIVITY_GPU)); /* an evaluation */
    assert_int_equal(gpu_second(100, 0, 12, 2000), 0);            /* NCCL waits for a peer */
    assert_int_equal(gpu_second(100, 0, 900000, 2000) & BIT(ACTIVITY_CPU), BIT(ACTIVITY_CPU));
    assert_int_equal(gpu_second(0, 0, 0, 1000), BIT(ACTIVITY_CPU)); /* compiles */
    assert_int_equal(gpu_second(0, 0, 0, 0), 0);
}

static void a_new_process_begins_anew(void **state)
{
    (void)state;
    second(5000, 1 << 30, 10, false);
    now.work_us = now.io_bytes = now.output_bytes = 0;
    assert_int_equal(second(0, 0, 0, false), 0);
    assert_int_equal(second(100, 0, 0, false), BIT(ACTIVITY_CPU));
}

static void the_evidence_is_said(void **state)
{
    (void)state;
    char text[200] = "";
    activity_say(text, sizeof(text), &a, &norm);
    assert_string_equal(text, "no output, no CPU work, nothing read or written, no network traffic");
    for (int i = 0; i < 60; i++)
        gpu_second(90, 30, 5000, 4000);
    gpu_second(100, 0, 0, 8);
    text[0] = '\0';
    activity_say(text, sizeof(text), &a, &norm);
    assert_string_equal(text, "no output, CPU work 0.20 % of the usual rate, nothing read or written, no "
                              "network traffic, GPU busy but its memory idle");
}

static void a_norm_survives_in_coarse_numbers(void **state)
{
    (void)state;
    struct activity_norm again;
    for (int i = 0; i < 60; i++)
        second(3900, 0, 900, false);
    json_t *json = activity_norm_json(&norm);
    activity_norm_read(&again, json);
    assert_true(activity_usual(&again, ACTIVITY_CPU) == 4);
    assert_true(activity_usual(&again, ACTIVITY_OUTPUT) == 1024);
    assert_true(activity_usual(&again, ACTIVITY_IO) == 0);
    json_decref(json);
    json = json_pack("{s:f, s:f}", "cpu", 0.25, "io", 1.0); /* a quarter of a core */
    activity_norm_read(&again, json);
    assert_true(activity_usual(&again, ACTIVITY_CPU) == 0.25 && activity_usual(&again, ACTIVITY_IO) == 1);
    json_decref(json);
    json = json_pack("{s:s, s:f, s:f}", "cpu", "much", "io", -3.0, "output", 1e15);
    activity_norm_read(&again, json);
    assert_true(activity_usual(&again, ACTIVITY_CPU) == 0 && activity_usual(&again, ACTIVITY_IO) == 0);
    assert_true(activity_usual(&again, ACTIVITY_OUTPUT) == 0);
    json_decref(json);
}

/* --- measured windows ------------------------------------------------------------------------ */

enum source { NANOSECONDS, TICKS, TICKS_ALONE };

/* What a kernel shows: all; ticks in place of nanoseconds; and no switches either. */
static uint64_t work_us(const json_t *window, enum source source)
{
    const int64_t ms = json_integer_value(json_object_get(window, "ms"));
    uint64_t sum = 0;
    size_t i;
    const json_t *t;
    json_array_foreach(json_object_get(window, "threads"), i, t)
    {
        const int64_t us = json_integer_value(json_array_get(t, 0)), ticks = json_integer_value(json_array_get(t, 2));
        sum += waiting_work_us((uint64_t)(source == NANOSECONDS ? 1000 * us : 10000000 * ticks),
                               source == TICKS_ALONE ? -1 : json_integer_value(json_array_get(t, 1)), ms);
    }
    return sum;
}

static bool blocked(const json_t *window)
{
    size_t i;
    const json_t *t;
    json_array_foreach(json_object_get(window, "threads"), i, t)
    {
        if (json_string_value(json_array_get(t, 3))[0] == 'D')
            return true;
    }
    return false;
}

/* Is there a sign of life in it?  The disk of a thread in state D makes progress; no sockets are shown. */
static bool lives(const json_t *window, enum source source)
{
    up(NULL);
    now.at_ms += json_integer_value(json_object_get(window, "ms"));
    now.counted_ms = now.at_ms;
    now.work_us += work_us(window, source);
    now.io_bytes += (uint64_t)json_integer_value(json_object_get(window, "io"));
    now.moved_bytes += blocked(window) ? 4096 : 0;
    return activity_take(&a, &norm, &now, false) != 0;
}

/* A step each 20 s is seen in one window of two. These are never seen: downloads through a buffer and polls of an
 * API, which only their sockets show, and a rank that waits for the evaluation of rank 0. */
static bool is_unseen(const char *name)
{
    static const char *const names[] = {"dl_filebuf", "dl_mem", "dl_mem1k", "apipoll", "r0eval.r1"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

static json_t *read_windows(void)
{
    json_t *windows = json_load_file("tests/golden/hangs/windows.json", 0, NULL);
    assert_non_null(windows);
    return windows;
}

static void no_hung_window_shows_life(void **state)
{
    (void)state;
    json_t *windows = read_windows();
    size_t i, hung = 0;
    const json_t *w;
    json_array_foreach(windows, i, w)
    {
        if (!json_is_true(json_object_get(w, "hung")))
            continue;
        hung++;
        for (enum source s = NANOSECONDS; s <= TICKS_ALONE; s++)
            if (lives(w, s))
                fail_msg("%s, window %zu, source %d", json_string_value(json_object_get(w, "name")), i, (int)s);
    }
    assert_int_equal(hung, 163);
    json_decref(windows);
}

/* From one sign of life to the next: at most one window without. */
static size_t count_living(const json_t *windows, enum source source)
{
    json_t *quiet = json_object(); /* by name: windows since the last sign of life */
    size_t i, living = 0;
    const json_t *w;
    json_array_foreach(windows, i, w)
    {
        const char *name = json_string_value(json_object_get(w, "name"));
        if (json_is_true(json_object_get(w, "hung")))
            continue;
        const bool life = lives(w, source);
        const json_int_t n = life ? 0 : 1 + json_integer_value(json_object_get(quiet, name));
        json_object_set_new(quiet, name, json_integer(n));
        living += life;
        if (is_unseen(name) ? life : n > 1)
            fail_msg("%s, window %zu, source %d: %d windows without life", name, i, (int)source, (int)n);
    }
    json_decref(quiet);
    return living;
}

static void work_shows_life_in_one_window_of_two(void **state)
{
    (void)state;
    json_t *windows = read_windows();
    for (enum source s = NANOSECONDS; s <= TICKS_ALONE; s++)
        assert_int_equal(count_living(windows, s), 58);
    json_decref(windows);
}

#define TEST(f) cmocka_unit_test_setup(f, up)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_counter_is_a_sign),
        TEST(work_of_the_main_thread_counts_whatever_is_usual),
        TEST(bytes_moved_by_others_count_whatever_is_usual),
        TEST(work_is_judged_by_windows),
        TEST(one_sample_counts_once),
        TEST(less_than_one_percent_of_the_norm_is_background),
        TEST(a_norm_that_falls_is_learned),
        TEST(nothing_counts_inside_a_collective),
        TEST(a_busy_gpu_that_moves_no_data_spins),
        TEST(a_new_process_begins_anew),
        TEST(the_evidence_is_said),
        TEST(a_norm_survives_in_coarse_numbers),
        TEST(no_hung_window_shows_life),
        TEST(work_shows_life_in_one_window_of_two),
    };
    return cmocka_run_group_tests_name("activity", tests, NULL, NULL);
}
