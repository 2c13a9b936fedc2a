/* SPDX-License-Identifier: Apache-2.0 */
/* test_activity.c - which counters are signs of life, and which are spinning or background */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "agent/monitor/activity.h"

#define BIT(sign) (1u << (sign))

static struct activity a;
static struct activity_norm norm;
static struct activity_sample now;

static int up(void **state)
{
    (void)state;
    memset(&a, 0, sizeof(a));
    memset(&norm, 0, sizeof(norm));
    now = (struct activity_sample){.at_ms = 1000};
    activity_take(&a, &norm, &now, false);
    return 0;
}

/* A second later, with so much more of everything. */
static unsigned second(uint64_t cpu_ms, uint64_t io, uint64_t output, bool in_collective)
{
    now.at_ms += 1000;
    now.cpu_ms += cpu_ms;
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
    now.cpu_ms = now.io_bytes = now.output_bytes = 0;
    assert_int_equal(second(0, 0, 0, false), 0);
    assert_int_equal(second(100, 0, 0, false), BIT(ACTIVITY_CPU));
}

static void the_evidence_is_said(void **state)
{
    (void)state;
    char text[200] = "";
    activity_say(text, sizeof(text), &a, &norm);
    assert_string_equal(text, "no output, no CPU time, nothing read or written");
    for (int i = 0; i < 60; i++)
        gpu_second(90, 30, 5000, 4000);
    gpu_second(100, 0, 0, 8);
    text[0] = '\0';
    activity_say(text, sizeof(text), &a, &norm);
    assert_string_equal(text, "no output, CPU time 0.20 % of the usual, nothing read or written, GPU busy "
                              "but its memory idle");
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
    json = json_pack("{s:s, s:f}", "cpu", "much", "io", -3.0);
    activity_norm_read(&again, json);
    assert_true(activity_usual(&again, ACTIVITY_CPU) == 0 && activity_usual(&again, ACTIVITY_IO) == 0);
    json_decref(json);
}

#define TEST(f) cmocka_unit_test_setup(f, up)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_counter_is_a_sign),
        TEST(one_sample_counts_once),
        TEST(less_than_one_percent_of_the_norm_is_background),
        TEST(a_norm_that_falls_is_learned),
        TEST(nothing_counts_inside_a_collective),
        TEST(a_busy_gpu_that_moves_no_data_spins),
        TEST(a_new_process_begins_anew),
        TEST(the_evidence_is_said),
        TEST(a_norm_survives_in_coarse_numbers),
    };
    return cmocka_run_group_tests_name("activity", tests, NULL, NULL);
}
