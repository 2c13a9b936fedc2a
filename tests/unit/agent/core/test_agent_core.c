/* SPDX-License-Identifier: Apache-2.0 */
/* test_agent_core.c - the agent's decisions: a whole attempt, stops, refused inputs */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/agent/core/agent_core_fixture.h"

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
    expect(exited(1, 0, 0), "rank_exited generation_ended CLEANUP(1)");
    expect(field("cause"), "\"none\"");
    expect(cleaned(true), "CLEANUP(0)");
    expect(cleaned(true), "attempt_ended FINISH");
    expect(field("result"), "\"succeeded\"");
    expect(field("productive_ms"), "500");
    expect(field("clean"), "true");
    expect(stop(10, false), "");
    expect(cleaned(true), "");
}

static void pull_of(const char *image)
{
    json_t *container = json_pack("{s:s, s:s, s:s}", "image", image, "runtime", "podman", "why", "the first");
    feed((struct agent_input){.kind = INPUT_LAUNCH,
                              .launch = {.np = 1, .has_setup = true, .container = container,
                                         .budget = {.restarts = 3, .backoff_max_ms = 1, .no_progress = 3}}});
    json_decref(container);
}

static void an_image_is_pulled_once_before_the_setup(void **state)
{
    (void)state;
    pull_of("busybox");
    expect(field("runtime"), "\"podman\"");
    struct agent_input in = {.kind = INPUT_SETUP_EXITED,
                             .exited = {.exit_code = 125, .last_lines = "Error: no route\n"}};
    expect(feed(in), "pull_done restart_scheduled pull_started PULL");
    in.exited = (struct agent_exit){.exit_code = 0};
    expect(feed(in), "pull_done setup_started SETUP");
    in.exited.exit_code = 1;
    expect(feed(in), "setup_done restart_scheduled setup_started SETUP"); /* not pulled again */
    in.exited.exit_code = 0;
    expect(feed(in), "setup_done SPAWN(1,-1)");
}

/* Its sentence, which ends with the command that helps, is the reason, whole. */
static void models_are_fetched_once_before_the_setup(void **state)
{
    static const char *const output =
        "me/x at commit 123: 1 file\njobctl-fetch: no answer from huggingface.co: Could not resolve hostname; missing "
        "in the cache /home/somebody/.cache/huggingface/hub: a file of weights; run `jobctl fetch hf://me/x@123` where "
        "there is network and this directory\n";
    json_t *line = json_pack("{s:s, s:s}", "ev", "fetch", "text", "1 of 2 GB");
    (void)state;
    feed((struct agent_input){.kind = INPUT_LAUNCH,
                              .launch = {.np = 1, .has_setup = true, .has_fetch = true,
                                         .budget = {.restarts = 4, .backoff_min_ms = 1000, .backoff_max_ms = 1000,
                                                    .no_progress = 4}}});
    expect(feed((struct agent_input){.kind = INPUT_PROGRESS, .progress = {.line = line}}), "fetch_progress");
    expect(field("text"), "\"1 of 2 GB\"");
    struct agent_input in = {.kind = INPUT_SETUP_EXITED, .exited = {.exit_code = 82, .last_lines = output}};
    expect(feed(in), "fetch_done restart_scheduled fetch_started FETCH");
    expect(feed(in), "fetch_done restart_scheduled TIMER(1000)");
    assert_non_null(strstr(field("text"), "the download of the job's models failed: no answer from huggingface.co"));
    assert_non_null(strstr(field("text"), "where there is network and this directory"));
    expect(timer(now + 1000), "fetch_started FETCH");
    in.exited = (struct agent_exit){.exit_code = 0};
    expect(feed(in), "fetch_done setup_started SETUP");
    expect(feed((struct agent_input){.kind = INPUT_PROGRESS, .progress = {.line = line}}), "");
    in.exited.exit_code = 1;
    expect(feed(in), "setup_done restart_scheduled TIMER(1000)");
    expect(timer(now + 1000), "setup_started SETUP"); /* not fetched again */
    json_decref(line);
}

static void a_model_that_is_refused_is_not_tried_again(void **state)
{
    (void)state;
    feed((struct agent_input){.kind = INPUT_LAUNCH, .launch = {.np = 1, .has_fetch = true,
                              .budget = {.restarts = 3, .backoff_max_ms = 1, .no_progress = 3}}});
    struct agent_input in = {.kind = INPUT_SETUP_EXITED,
                             .exited = {.exit_code = 64, .last_lines = "jobctl-fetch: me/x: access is restricted\n"}};
    expect(feed(in), "fetch_done CLEANUP(0)");
}

/* Another try finds the same registry. */
static void an_image_that_does_not_exist_is_not_tried_again(void **state)
{
    (void)state;
    static const char *const ends[] = {
        "Error: initializing source docker://x/y:9: reading manifest 9 in docker.io/x/y: manifest unknown\n",
        "Error response from daemon: pull access denied for x, repository does not exist or may require 'docker login'\n",
        "Error: invalid reference format\n",
    };
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        down(NULL);
        up(NULL);
        pull_of("x/y:9 with podman");
        struct agent_input in = {.kind = INPUT_SETUP_EXITED, .exited = {.exit_code = 125, .last_lines = ends[i]}};
        expect(feed(in), "pull_done CLEANUP(0)");
        expect(cleaned(true), "attempt_ended FINISH");
        expect(field("cause"), "\"config_error\"");
    }
}

static void what_cannot_run_here_ends_at_once(void **state)
{
    (void)state;
    expect(feed((struct agent_input){.kind = INPUT_LAUNCH, .launch = {.refusal = "2 > 1"}}),
           "CLEANUP(0)");
    expect(cleaned(true), "attempt_ended FINISH");
    expect(field("cause"), "\"config_error\"");
    expect(field("text"), "\"2 > 1\"");
}

/* Waiting for a directory is no failure: it only tells how often in a row, for the back-off. */
static void what_waits_for_its_directory_is_tried_again(void **state)
{
    (void)state;
    feed((struct agent_input){.kind = INPUT_LAUNCH,
                              .launch = {.refusal = "job 3 writes", .cause = CAUSE_DIR_IN_USE}});
    expect(cleaned(true), "attempt_ended FINISH");
    expect(field("cause"), "\"dir_in_use\"");
    expect(field("retry_helps"), "true");
    expect(field("failures_without_progress"), "0");
    expect(field("same_fingerprint"), "1");
}

static void a_full_disk_under_the_lease_is_a_failure(void **state)
{
    (void)state;
    feed((struct agent_input){.kind = INPUT_LAUNCH, .launch = {.refusal = "no room", .cause = CAUSE_DISK_FULL}});
    expect(cleaned(true), "attempt_ended FINISH");
    expect(field("cause"), "\"disk_full\"");
    expect(field("failures_without_progress"), "1");
}

static void a_long_checkpoint_gets_twice_its_time(void **state)
{
    (void)state;
    launch(1, true, false);
    spawned(1);
    line(1, 0, "{\"ev\":\"checkpoint\",\"step\":2,\"path\":\"/c/2\",\"ms\":30000}");
    expect(stop(10000, true), "stop_asked CONTROL(stop) TIMER(30000)");
    expect(timer(now + 30000), "SIGNAL(15) TIMER(30000)");
    expect(stop(100, false), "CONTROL(stop) SIGNAL(15) TIMER(100)"); /* now, all the same */
}

static void stop_is_a_ladder(void **state)
{
    (void)state;
    launch(1, true, false);
    spawned(1);
    expect(stop(8000, true), "stop_asked CONTROL(stop) TIMER(4000)");
    expect(timer(now + 4000), "SIGNAL(15) TIMER(4000)");
    expect(timer(now + 4000), "SIGNAL(9) TIMER(1000)");
    expect(killed(1, 0, 9), "rank_exited generation_ended TIMER(-1) CLEANUP(1)");
    expect(field("text"), "\"stopped by SIGKILL: SIGTERM did not end it in time\"");
    expect(field("forced"), "true");
    expect(cleaned(true), "CLEANUP(0)");
    expect(cleaned(true), "attempt_ended FINISH");
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
    cleaned(true);
    cleaned(true);
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
    expect(exited(1, 0, 1), "rank_exited generation_ended TIMER(-1) CLEANUP(1)");
    expect(field("text"), "\"stopped on request\"");
    cleaned(true);
    cleaned(true);
    expect(field("result"), "\"stopped\"");
    expect(field("failures_without_progress"), "0");
}

static void stop_in_every_phase(void **state)
{
    (void)state;
    expect(stop(5, false), "stop_asked CLEANUP(0)"); /* idle */
    expect(cleaned(true), "attempt_ended FINISH");
    down(NULL);
    up(NULL);
    launch(1, false, true);
    expect(stop(5, false), "stop_asked CONTROL(stop) SIGNAL(15) TIMER(5)"); /* setup */
    expect(timer(now + 5), "SIGNAL(9) TIMER(1000)");
    expect(feed((struct agent_input){
               .kind = INPUT_SETUP_EXITED, .exited.signalled = true, .exited.signo = 9}),
           "setup_done TIMER(-1) CLEANUP(0)");
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
    expect(cleaned(true), "CLEANUP(0)");
    down(NULL);
    up(NULL);
    launch(1, false, false);
    one_generation_fails(1, 3);
    cleaned(true);
    one_generation_fails(2, 4);
    expect(cleaned(true), "restart_scheduled TIMER(5000)");
    expect(stop(50, false), "stop_asked TIMER(-1) CLEANUP(0)"); /* back-off */
}

static void a_run_that_finished_just_then_succeeded(void **state)
{
    (void)state;
    launch(1, true, false);
    spawned(1);
    line(1, 0, "{\"ev\":\"done\",\"step\":40}");
    stop(5000, true);
    exited(1, 0, 0);
    cleaned(true);
    cleaned(true);
    expect(field("result"), "\"succeeded\"");
}

static void what_will_not_die_is_named_and_nothing_is_started(void **state)
{
    (void)state;
    launch(1, false, false);
    one_generation_fails(1, 3);
    expect(cleaned(false), "warning CLEANUP(0)");
    expect(cleaned(true), "attempt_ended FINISH");
    expect(field("clean"), "false");
    expect(field("retry_helps"), "true");
}

static void checkpoint_requests_reach_running_ranks_only(void **state)
{
    (void)state;
    expect(feed((struct agent_input){.kind = INPUT_CHECKPOINT}), "");
    launch(1, true, false);
    spawned(1);
    expect(feed((struct agent_input){.kind = INPUT_CHECKPOINT}), "CONTROL(checkpoint)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_plain_life),
        TEST(an_image_is_pulled_once_before_the_setup),
        TEST(models_are_fetched_once_before_the_setup),
        TEST(a_model_that_is_refused_is_not_tried_again),
        TEST(an_image_that_does_not_exist_is_not_tried_again),
        TEST(what_cannot_run_here_ends_at_once),
        TEST(what_waits_for_its_directory_is_tried_again),
        TEST(a_full_disk_under_the_lease_is_a_failure),
        TEST(stop_is_a_ladder),
        TEST(a_long_checkpoint_gets_twice_its_time),
        TEST(a_stop_from_outside_is_a_preemption),
        TEST(a_command_gets_sigterm_at_once_and_sooner_wins),
        TEST(stop_in_every_phase),
        TEST(a_run_that_finished_just_then_succeeded),
        TEST(what_will_not_die_is_named_and_nothing_is_started),
        TEST(checkpoint_requests_reach_running_ranks_only),
    };
    return cmocka_run_group_tests_name("agent_core", tests, NULL, NULL);
}
