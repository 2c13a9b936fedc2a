/* SPDX-License-Identifier: Apache-2.0 */
/* test_agent_core.c - the agent's decisions: one input, and the effects it must have, as text */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/agent_core.h"
#include "agent/agent_effects.h"
#include "agent/buf.h"
#include "agent/patience.h"

static struct agent_core *core;
static int64_t now;
static struct buf said;    /* the effects of the last input */
static json_t *last_event; /* the body of the last event of that input */

static int up(void **state)
{
    (void)state;
    now = 1000;
    last_event = NULL;
    return agent_core_create(&core, NULL);
}

static int down(void **state)
{
    (void)state;
    agent_core_destroy(core);
    json_decref(last_event);
    buf_fini(&said);
    return 0;
}

static void say(const struct agent_effect *e)
{
    if (said.size)
        buf_append(&said, " ", 1);
    switch (e->kind) {
    case DO_EVENT:
        assert_non_null(e->body);
        json_decref(last_event);
        last_event = json_incref(e->body);
        buf_print(&said, "%s%s", e->event, e->droppable ? "~" : "");
        break;
    case DO_SETUP:
        buf_print(&said, "SETUP");
        break;
    case DO_SPAWN:
        buf_print(&said, "SPAWN(%d,%d)", e->generation, (int)e->resume_step);
        break;
    case DO_CONTROL:
        buf_print(&said, "CONTROL(%s)", e->command);
        break;
    case DO_SIGNAL:
        buf_print(&said, "SIGNAL(%d)", e->signo);
        break;
    case DO_INCIDENT:
        buf_print(&said, "REPORT(%d)", e->generation);
        break;
    case DO_SWEEP:
        buf_print(&said, "SWEEP(%d)", e->generation);
        break;
    case DO_TIMER:
        buf_print(&said, "TIMER(%d)", e->at_ms ? (int)(e->at_ms - now) : -1);
        break;
    case DO_FINISH:
        buf_print(&said, "FINISH");
        break;
    }
}

static const char *feed(struct agent_input in)
{
    static struct agent_effects out;
    in.now_ms = now;
    agent_core_step(core, &in, &out);
    buf_clear(&said);
    for (int i = 0; i < out.n; i++)
        say(&out.list[i]);
    agent_effects_fini(&out);
    return said.data ? said.data : "";
}

#define expect(what, text) assert_string_equal(what, text)

static const char *launch(int np, bool engine, bool setup)
{
    return feed((struct agent_input){.kind = INPUT_LAUNCH,
                                     .launch = {.np = np,
                                                .engine = engine,
                                                .has_setup = setup,
                                                .budget = {10, 5000, 300000, 3},
                                                .history = {0, 0, 0, ""}}});
}

static const char *spawned(int generation)
{
    static const int64_t pids[] = {101, 102, 103, 104};
    return feed((struct agent_input){.kind = INPUT_SPAWNED,
                                     .spawn = {.generation = generation, .pids = pids}});
}

static const char *exited(int generation, int rank, int code)
{
    return feed((struct agent_input){
        .kind = INPUT_RANK_EXITED,
        .exited = {
            .generation = generation, .rank = rank, .exit_code = code, .last_lines = "a\nb\n"}});
}

static const char *killed(int generation, int rank, int signo)
{
    return feed((struct agent_input){
        .kind = INPUT_RANK_EXITED,
        .exited = {.generation = generation, .rank = rank, .signalled = true, .signo = signo}});
}

static const char *swept(bool clean)
{
    return feed((struct agent_input){.kind = INPUT_SWEPT,
                                     .jitter = 0,
                                     .swept = {.clean = clean, .left = clean ? NULL : "9 (x)"}});
}

static const char *line(int generation, int rank, const char *text)
{
    json_t *v = json_loads(text, 0, NULL);
    assert_non_null(v);
    const char *out =
        feed((struct agent_input){.kind = INPUT_PROGRESS, .progress = {generation, rank, v}});
    json_decref(v);
    return out;
}

static const char *timer(int64_t at)
{
    now = at;
    return feed((struct agent_input){.kind = INPUT_TIMER});
}

static const char *stop(int64_t grace_ms, bool checkpoint)
{
    return feed((struct agent_input){.kind = INPUT_STOP,
                                     .stop = {"cancelled by a person", grace_ms, checkpoint, false}});
}

static const char *hang(int generation, int rank, bool init)
{
    return feed((struct agent_input){.kind = INPUT_HANG,
                                     .hang = {.generation = generation,
                                              .rank = rank,
                                              .init = init,
                                              .text = "rank 1 stands still"}});
}

static const char *reported(int generation)
{
    json_t *body = json_pack("{s:s}", "path", "/run/incident-1.txt");
    const char *out =
        feed((struct agent_input){.kind = INPUT_REPORTED, .reported = {generation, body}});
    json_decref(body);
    return out;
}

static const char *field(const char *key)
{
    static char text[512];
    char *dump = json_dumps(json_object_get(last_event, key), JSON_ENCODE_ANY | JSON_COMPACT);
    snprintf(text, sizeof(text), "%s", dump ? dump : "-");
    free(dump);
    return text;
}

static void a_plain_life(void **state)
{
    (void)state;
    expect(launch(2, false, true), "setup_started SETUP");
    expect(launch(2, false, true), ""); /* repeated: ignored */
    expect(feed((struct agent_input){.kind = INPUT_SETUP_EXITED}), "setup_done SPAWN(1,-1)");
    expect(spawned(1), "generation_started");
    expect(field("fresh"), "true");
    expect(exited(1, 1, 0), "rank_exited");
    expect(exited(1, 1, 0), ""); /* told twice */
    expect(exited(7, 0, 1), ""); /* of another generation */
    now += 500;
    expect(exited(1, 0, 0), "rank_exited generation_ended SWEEP(1)");
    expect(field("cause"), "\"none\"");
    expect(swept(true), "SWEEP(0)");
    expect(swept(true), "attempt_ended FINISH");
    expect(field("result"), "\"succeeded\"");
    expect(field("productive_ms"), "500");
    expect(field("clean"), "true");
    expect(stop(10, false), "");
    expect(swept(true), "");
}

static void the_first_failure_decides_and_restarts_at_once(void **state)
{
    (void)state;
    expect(launch(2, true, false), "SPAWN(1,-1)");
    spawned(1);
    expect(line(1, 0, "{\"ev\":\"started\",\"resume_step\":0,\"steps\":40}"), "rank_started");
    expect(line(1, 0, "{\"ev\":\"step\",\"step\":1,\"steps\":40,\"loss\":0.5}"), "step~");
    expect(line(1, 0, "{\"ev\":\"step\",\"step\":2,\"loss\":\"x\"}"), ""); /* thinned, odd type */
    expect(line(1, 1, "{\"ev\":\"step\",\"step\":9}"), "");                /* not the first rank */
    expect(line(1, 0, "{\"ev\":\"checkpoint\",\"step\":2,\"path\":\"/c/2\"}"), "checkpoint");
    expect(killed(1, 1, 9), "rank_exited REPORT(1) SIGNAL(15) TIMER(3000)");
    expect(killed(1, 0, 15), "rank_exited step~ generation_ended TIMER(-1) SWEEP(1)");
    expect(field("cause"), "\"rank_crash\"");
    expect(field("text"), "\"rank 1 was killed by SIGKILL (9)\"");
    expect(field("rank"), "1");
    expect(field("step"), "2");
    expect(field("gained"), "2");
    expect(swept(true), "restart_scheduled SPAWN(2,2)");
    expect(field("text"),
           "\"rank 1 was killed by SIGKILL (9); the checkpoint of step 2 is resumed\"");
    expect(spawned(2), "generation_started");
    expect(field("resume_step"), "2");
    line(2, 0, "{\"ev\":\"started\",\"resume_step\":2,\"steps\":40}");
    line(2, 0, "{\"ev\":\"done\",\"step\":40}");
    exited(2, 0, 0);
    exited(2, 1, 0);
    swept(true);
    expect(swept(true), "attempt_ended FINISH");
    expect(field("result"), "\"succeeded\"");
    expect(field("generations"), "2");
    expect(field("step"), "40");
}

static void stubborn_ranks_are_killed(void **state)
{
    (void)state;
    launch(2, false, false);
    spawned(1);
    expect(exited(1, 0, 3), "rank_exited REPORT(1) SIGNAL(15) TIMER(3000)");
    expect(timer(now + 2999), ""); /* stale or early */
    expect(timer(now + 1), "SIGNAL(9) TIMER(1000)");
    expect(timer(now + 1000), "SIGNAL(9) TIMER(1000)");
    expect(killed(1, 1, 9), "rank_exited generation_ended TIMER(-1) SWEEP(1)");
    expect(field("cause"), "\"user_exit\"");
}

static void an_echo_does_not_hide_the_cause(void **state)
{
    (void)state;
    launch(2, false, false);
    spawned(1);
    feed((struct agent_input){
        .kind = INPUT_RANK_EXITED,
        .exited = {.generation = 1,
                   .exit_code = 1,
                   .last_lines = "RuntimeError: Connection closed by peer [127.0.0.1]:1\n"}});
    now += 5;
    expect(killed(1, 1, 9), "rank_exited generation_ended TIMER(-1) SWEEP(1)");
    expect(field("cause"), "\"rank_crash\"");
    expect(field("rank"), "1");
}

static void one_generation_fails(int generation, int code)
{
    spawned(generation);
    exited(generation, 0, code);
}

static void the_same_failure_three_times_is_enough(void **state)
{
    (void)state;
    launch(1, false, false);
    one_generation_fails(1, 3);
    expect(swept(true), "restart_scheduled SPAWN(2,-1)");
    one_generation_fails(2, 3);
    expect(swept(true), "restart_scheduled TIMER(5000)");
    expect(field("delay_ms"), "5000");
    expect(timer(now + 5000), "SPAWN(3,-1)");
    one_generation_fails(3, 3);
    expect(swept(true), "SWEEP(0)");
    expect(swept(true), "attempt_ended FINISH");
    expect(field("result"), "\"failed\"");
    expect(field("gave_up"), "true");
    expect(field("retry_helps"), "false");
    expect(field("failures_without_progress"), "3");
    expect(field("same_fingerprint"), "3");
    expect(field("exit_code"), "3");
    expect(field("text"),
           "\"the same failure 3 times without progress: rank 0 exited with code 3: b\"");
}

static void history_counts(void **state)
{
    (void)state;
    feed((struct agent_input){
        .kind = INPUT_LAUNCH,
        .launch = {.np = 1, .budget = {4, 100, 250, 0}, .history = {3, 1, 50, "x"}}});
    one_generation_fails(1, 3);
    expect(swept(true), "restart_scheduled TIMER(250)"); /* 100 * 2^2, capped */
    timer(now + 250);
    one_generation_fails(2, 4);
    swept(true);
    swept(true);
    expect(field("text"), "\"all 4 restarts without progress are used up, the last failure: "
                          "rank 0 exited with code 4: b\"");
    expect(field("failures_without_progress"), "5");
}

static void only_new_steps_are_progress(void **state)
{
    (void)state;
    launch(1, true, false);
    spawned(1);
    line(1, 0, "{\"ev\":\"step\",\"step\":10}");
    killed(1, 0, 11);
    expect(field("gained"), "10");
    expect(swept(true), "restart_scheduled SPAWN(2,-1)");
    spawned(2);
    line(2, 0, "{\"ev\":\"step\",\"step\":10}");
    killed(2, 0, 11);
    expect(field("gained"), "0");
    expect(swept(true), "restart_scheduled SPAWN(3,-1)"); /* the first without progress */
    spawned(3);
    line(3, 0, "{\"ev\":\"step\",\"step\":9}");
    killed(3, 0, 11);
    expect(swept(true), "restart_scheduled TIMER(5000)");
    timer(now + 5000);
    spawned(4);
    line(4, 0, "{\"ev\":\"step\",\"step\":11}");
    killed(4, 0, 11);
    expect(swept(true), "restart_scheduled SPAWN(5,-1)"); /* progress: patience is new */
}

static void a_hang_is_reported_before_anything_is_stopped(void **state)
{
    (void)state;
    launch(2, true, false);
    spawned(1);
    expect(hang(7, 1, false), ""); /* of another generation */
    expect(hang(1, 1, false), "hang TIMER(2500) REPORT(1)");
    expect(field("rank"), "1");
    expect(hang(1, 0, false), ""); /* one is enough */
    expect(reported(1), "incident SIGNAL(15) TIMER(1500)");
    expect(field("path"), "\"/run/incident-1.txt\"");
    expect(field("generation"), "1");
    expect(exited(1, 0, 74), "rank_exited"); /* it waited for the other one: cascade */
    expect(timer(now + 1500), "SIGNAL(9) TIMER(1000)");
    expect(killed(1, 1, 9), "rank_exited generation_ended TIMER(-1) SWEEP(1)");
    expect(field("cause"), "\"hang_step\"");
    expect(field("text"), "\"rank 1 stands still\"");
    expect(field("exit_code"), "-");
    expect(swept(true), "restart_scheduled SPAWN(2,-1)");
}

static void a_report_that_takes_too_long_is_not_waited_for(void **state)
{
    (void)state;
    launch(1, true, false);
    spawned(1);
    expect(hang(1, -1, true), "hang TIMER(2500) REPORT(1)");
    expect(field("cause"), "\"hang_init\"");
    expect(field("rank"), "null");
    expect(timer(now + 2500), "SIGNAL(15) TIMER(1500)");
    expect(reported(1), "incident"); /* late is better than never */
    expect(stop(100, false), "stop_asked CONTROL(stop) SIGNAL(15) TIMER(100)");
    expect(killed(1, 0, 15), "rank_exited generation_ended TIMER(-1) SWEEP(1)");
    expect(field("rank"), "null");
}

static void some_causes_end_it(void **state)
{
    (void)state;
    launch(1, true, false);
    spawned(1);
    line(1, 0,
         "{\"ev\":\"failed\",\"cause\":\"data_error\",\"exit_code\":65,\"text\":\"no images\"}");
    expect(exited(1, 0, 65), "rank_exited generation_ended SWEEP(1)");
    expect(swept(true), "SWEEP(0)");
    swept(true);
    expect(field("cause"), "\"data_error\"");
    expect(field("text"), "\"rank 0 exited with code 65: no images\"");
    expect(field("gave_up"), "false");
}

/* Each start takes half of the samples at a time: it is not the same failure again. */
static void smaller_and_smaller_is_not_the_same_failure(void **state)
{
    (void)state;
    char text[200];
    launch(1, true, false);
    for (int i = 1; i <= 4; i++) {
        snprintf(text, sizeof(text),
                 "{\"ev\":\"failed\",\"cause\":\"gpu_oom\",\"exit_code\":72,\"text\":\"%d were too large\"}",
                 32 >> (i < 4 ? i : 3));
        spawned(i);
        line(i, 0, text);
        exited(i, 0, 72);
        assert_memory_equal(swept(true), "restart_scheduled", 17);
        now += 300000;
        if (i > 1)
            timer(now);
    }
    spawned(5);
    line(5, 0, text);
    exited(5, 0, 72);
    swept(true);
    swept(true);
    expect(field("same_fingerprint"), "3"); /* 4, 4 and 4 */
    expect(field("gave_up"), "true");
}

static void a_gpu_fault_is_for_the_controller(void **state)
{
    (void)state;
    launch(1, true, false);
    one_generation_fails(1, 73);
    expect(swept(true), "SWEEP(0)");
    swept(true);
    expect(field("retry_helps"), "true");
}

static void what_cannot_run_here_ends_at_once(void **state)
{
    (void)state;
    expect(feed((struct agent_input){.kind = INPUT_LAUNCH, .launch = {.refusal = "2 > 1"}}),
           "SWEEP(0)");
    expect(swept(true), "attempt_ended FINISH");
    expect(field("cause"), "\"config_error\"");
    expect(field("text"), "\"2 > 1\"");
}

static void stop_is_a_ladder(void **state)
{
    (void)state;
    launch(1, true, false);
    spawned(1);
    expect(stop(8000, true), "stop_asked CONTROL(stop) TIMER(4000)");
    expect(timer(now + 4000), "SIGNAL(15) TIMER(4000)");
    expect(timer(now + 4000), "SIGNAL(9) TIMER(1000)");
    expect(killed(1, 0, 9), "rank_exited generation_ended TIMER(-1) SWEEP(1)");
    expect(field("text"), "\"stopped by SIGKILL: SIGTERM was not enough\"");
    expect(swept(true), "SWEEP(0)");
    expect(swept(true), "attempt_ended FINISH");
    expect(field("result"), "\"stopped\"");
    expect(field("text"), "\"cancelled by a person\"");
    expect(field("failures_without_progress"), "0");
}

static void a_stop_from_outside_is_a_preemption(void **state)
{
    (void)state;
    launch(1, false, false);
    spawned(1);
    feed((struct agent_input){.kind = INPUT_STOP,
                              .stop = {"the agent got SIGTERM", 100, true, true}});
    exited(1, 0, 0);
    swept(true);
    swept(true);
    expect(field("result"), "\"stopped\"");
    expect(field("cause"), "\"preempted\"");
}

static void a_command_gets_sigterm_at_once_and_sooner_wins(void **state)
{
    (void)state;
    launch(1, false, false);
    spawned(1);
    expect(stop(8000, true), "stop_asked CONTROL(stop) SIGNAL(15) TIMER(8000)");
    expect(stop(9000, true), "");
    expect(stop(100, false), "CONTROL(stop) SIGNAL(15) TIMER(100)");
    expect(exited(1, 0, 1), "rank_exited generation_ended TIMER(-1) SWEEP(1)");
    expect(field("text"), "\"stopped as asked\"");
    swept(true);
    swept(true);
    expect(field("result"), "\"stopped\"");
    expect(field("failures_without_progress"), "0");
}

static void stop_in_every_phase(void **state)
{
    (void)state;
    expect(stop(5, false), "stop_asked SWEEP(0)"); /* idle */
    expect(swept(true), "attempt_ended FINISH");
    down(NULL);
    up(NULL);
    launch(1, false, true);
    expect(stop(5, false), "stop_asked CONTROL(stop) SIGNAL(15) TIMER(5)"); /* setup */
    expect(timer(now + 5), "SIGNAL(9) TIMER(1000)");
    expect(feed((struct agent_input){
               .kind = INPUT_SETUP_EXITED, .exited.signalled = true, .exited.signo = 9}),
           "setup_done TIMER(-1) SWEEP(0)");
    down(NULL);
    up(NULL);
    launch(1, false, false);
    expect(stop(50, false), "stop_asked"); /* spawning */
    expect(spawned(1), "generation_started CONTROL(stop) SIGNAL(15) TIMER(50)");
    down(NULL);
    up(NULL);
    launch(1, false, false);
    one_generation_fails(1, 3);
    expect(stop(50, false), "stop_asked"); /* sweeping */
    expect(swept(true), "SWEEP(0)");
    down(NULL);
    up(NULL);
    launch(1, false, false);
    one_generation_fails(1, 3);
    swept(true);
    one_generation_fails(2, 4);
    expect(swept(true), "restart_scheduled TIMER(5000)");
    expect(stop(50, false), "stop_asked TIMER(-1) SWEEP(0)"); /* back-off */
}

static void a_run_that_finished_just_then_succeeded(void **state)
{
    (void)state;
    launch(1, true, false);
    spawned(1);
    line(1, 0, "{\"ev\":\"done\",\"step\":40}");
    stop(5000, true);
    exited(1, 0, 0);
    swept(true);
    swept(true);
    expect(field("result"), "\"succeeded\"");
}

static void what_will_not_die_is_named_and_nothing_is_started(void **state)
{
    (void)state;
    launch(1, false, false);
    one_generation_fails(1, 3);
    expect(swept(false), "warning SWEEP(0)");
    expect(swept(true), "attempt_ended FINISH");
    expect(field("clean"), "false");
    expect(field("retry_helps"), "true");
}

static void a_start_that_fails_is_a_failure(void **state)
{
    (void)state;
    launch(1, false, false);
    expect(feed((struct agent_input){.kind = INPUT_SPAWN_FAILED,
                                     .spawn = {.generation = 1, .text = "cannot fork: no"}}),
           "generation_ended SWEEP(1)");
    expect(swept(true), "restart_scheduled SPAWN(2,-1)");
}

static void a_failing_setup_is_retried_within_the_budget(void **state)
{
    (void)state;
    launch(1, false, true);
    struct agent_input in = {.kind = INPUT_SETUP_EXITED, .exited = {.exit_code = 1}};
    expect(feed(in), "setup_done restart_scheduled setup_started SETUP");
    expect(feed(in), "setup_done restart_scheduled TIMER(5000)");
    timer(now + 5000);
    expect(feed(in), "setup_done SWEEP(0)");
    swept(true);
    expect(field("text"),
           "\"the same failure 3 times without progress: the setup exited with code 1\"");
}

static void checkpoint_requests_reach_running_ranks_only(void **state)
{
    (void)state;
    expect(feed((struct agent_input){.kind = INPUT_CHECKPOINT}), "");
    launch(1, true, false);
    spawned(1);
    expect(feed((struct agent_input){.kind = INPUT_CHECKPOINT}), "CONTROL(checkpoint)");
}

static void patience_doubles_up_to_its_limit(void **state)
{
    (void)state;
    static const int64_t want[] = {0, 0, 5000, 10000, 20000, 40000, 60000, 60000};
    for (int i = 0; i < 8; i++) {
        struct patience p = {.backoff_min_ms = 5000, .backoff_max_ms = 60000, .failures = i};
        assert_int_equal(patience_wait_ms(&p, 0), want[i]);
        assert_true(patience_wait_ms(&p, 0.999) <= 60000);
    }
    struct patience p = {.backoff_min_ms = 5000, .backoff_max_ms = 60000, .failures = 2};
    assert_int_equal(patience_wait_ms(&p, 0.8), 6000);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, up, down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_plain_life),
        TEST(the_first_failure_decides_and_restarts_at_once),
        TEST(stubborn_ranks_are_killed),
        TEST(an_echo_does_not_hide_the_cause),
        TEST(the_same_failure_three_times_is_enough),
        TEST(history_counts),
        TEST(only_new_steps_are_progress),
        TEST(a_hang_is_reported_before_anything_is_stopped),
        TEST(a_report_that_takes_too_long_is_not_waited_for),
        TEST(some_causes_end_it),
        TEST(smaller_and_smaller_is_not_the_same_failure),
        TEST(a_gpu_fault_is_for_the_controller),
        TEST(what_cannot_run_here_ends_at_once),
        TEST(stop_is_a_ladder),
        TEST(a_stop_from_outside_is_a_preemption),
        TEST(a_command_gets_sigterm_at_once_and_sooner_wins),
        TEST(stop_in_every_phase),
        TEST(a_run_that_finished_just_then_succeeded),
        TEST(what_will_not_die_is_named_and_nothing_is_started),
        TEST(a_start_that_fails_is_a_failure),
        TEST(a_failing_setup_is_retried_within_the_budget),
        TEST(checkpoint_requests_reach_running_ranks_only),
        cmocka_unit_test(patience_doubles_up_to_its_limit),
    };
    return cmocka_run_group_tests_name("agent_core", tests, NULL, NULL);
}
