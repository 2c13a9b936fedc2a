/* SPDX-License-Identifier: Apache-2.0 */
/* test_tally.c - events are counted by cause, result and job, and a counter never goes back */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "controller/base/daemon.h"
#include "controller/job/job.h"
#include "controller/metrics/tally.h"

static struct tally tally;
static struct daemon d = { .tally = &tally };

static void happen(struct job *job, enum event_kind kind, json_t *body)
{
    const struct core_output out = { .count = 1, .events[0] = { .kind = kind, .body = body } };
    tally_note(job, &out);
    json_decref(body);
}

static int setup(void **state)
{
    (void)state;
    tally_init(&tally);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    tally_fini(&tally);
    return 0;
}

static void failures_and_restarts_have_a_cause(void **state)
{
    (void)state;
    struct job a = { .daemon = &d, .core = { .id = 7, .attempt = 1 } }, b = { .daemon = &d, .core = { .id = 3 } };
    happen(&a, EVENT_PLACED, NULL);
    happen(&b, EVENT_PLACED, NULL);
    happen(&a, EVENT_GENERATION_ENDED, json_pack("{s:s}", "cause", "gpu_oom"));
    happen(&a, EVENT_RESTART_SCHEDULED, NULL);
    happen(&b, EVENT_AGENT_LOST, json_object());
    happen(&b, EVENT_RETRY, NULL);
    happen(&a, EVENT_GENERATION_ENDED, json_pack("{s:s}", "cause", "none"));
    happen(&a, EVENT_ATTEMPT_ENDED, json_pack("{s:s}", "cause", "none"));
    assert_int_equal(tally.started, 2);
    assert_int_equal(tally.failures[CAUSE_GPU_OOM], 1);
    assert_int_equal(tally.failures[CAUSE_AGENT_LOST], 1);
    assert_int_equal(tally.failures[CAUSE_NONE], 0);
    assert_int_equal(tally.restarts[CAUSE_GPU_OOM], 1);
    assert_int_equal(tally.restarts[CAUSE_AGENT_LOST], 1);
}

static void steps_between_two_events_have_their_mean_time(void **state)
{
    (void)state;
    struct job job = { .daemon = &d, .core = { .id = 7 } };
    happen(&job, EVENT_STEP, json_pack("{s:i, s:f}", "step", 10, "step_ms", 40.0));
    happen(&job, EVENT_STEP, json_pack("{s:i, s:f}", "step", 30, "step_ms", 40.0));
    happen(&job, EVENT_STEP, json_pack("{s:i, s:f}", "step", 30, "step_ms", 40.0));    /* the same one again */
    happen(&job, EVENT_STEP, json_pack("{s:i, s:f}", "step", 5, "step_ms", 40.0));     /* after a restart */
    happen(&job, EVENT_STEP, json_pack("{s:i}", "step", 6));
    assert_int_equal(histogram_below(&tally_job(&tally, 7)->step_s, 3), 22);
    assert_int_equal(histogram_below(&tally_job(&tally, 7)->step_s, 2), 0);
}

static void jobs_come_and_go_in_any_order(void **state)
{
    (void)state;
    static const int ids[] = { 40, 10, 30, 20 };
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 10; k++) {
            struct job job = { .daemon = &d, .core = { .id = ids[i] + k } };
            happen(&job, EVENT_PLACED, NULL);
        }
    assert_int_equal(tally.count, 40);
    for (int k = 0; k < 10; k++) {
        struct job job = { .daemon = &d, .core = { .id = 20 + k, .state = JOB_DONE, .result = RESULT_FAILED } };
        happen(&job, EVENT_DONE, NULL);
        assert_null(tally_job(&tally, 20 + k));
        assert_int_equal(tally_job(&tally, 30 + k)->id, 30 + k);
    }
    assert_int_equal(tally.count, 30);
    assert_int_equal(tally.ended[RESULT_FAILED], 10);
}

static void a_counter_never_goes_back(void **state)
{
    (void)state;
    struct goodput live = { .ms[BUCKET_PRODUCTIVE] = 900, .ms[BUCKET_HANG] = 5 }, sum;
    tally.spent.ms[BUCKET_PRODUCTIVE] = 100;
    tally_goodput(&sum, &tally, &live);
    assert_int_equal(sum.ms[BUCKET_PRODUCTIVE], 1000);
    live.ms[BUCKET_PRODUCTIVE] = 700;       /* the estimate was too high */
    live.ms[BUCKET_HANG] = 205;
    tally_goodput(&sum, &tally, &live);
    assert_int_equal(sum.ms[BUCKET_PRODUCTIVE], 1000);
    assert_int_equal(sum.ms[BUCKET_HANG], 205);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(failures_and_restarts_have_a_cause),
        CASE(steps_between_two_events_have_their_mean_time),
        CASE(jobs_come_and_go_in_any_order),
        CASE(a_counter_never_goes_back),
    };
    return cmocka_run_group_tests_name("tally", tests, NULL, NULL);
}
