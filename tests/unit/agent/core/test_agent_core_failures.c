/* SPDX-License-Identifier: Apache-2.0 */
/* test_agent_core_failures.c - the agent's decisions: deaths, hangs, retries */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/contract/exit_code.h"
#include "tests/unit/agent/core/agent_core_fixture.h"

/* The lines that a rank printed last, without the empty ones behind them. */
static void last_lines_are_evidence(void **state)
{
    (void)state;
    launch(1, true, false);
    spawned(1);
    exited(1, 0, 3);
    expect(field("evidence"), "[\"a\",\"b\"]");
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
    expect(killed(1, 0, 15), "rank_exited step~ generation_ended TIMER(-1) CLEANUP(1)");
    expect(field("cause"), "\"rank_crash\"");
    expect(field("text"), "\"rank 1 was killed by SIGKILL (9)\"");
    expect(field("rank"), "1");
    expect(field("step"), "2");
    expect(field("gained"), "2");
    expect(cleaned(true), "restart_scheduled SPAWN(2,2)");
    expect(field("text"),
           "\"rank 1 was killed by SIGKILL (9); resuming at step 2 or later\"");
    expect(spawned(2), "generation_started");
    expect(field("resume_step"), "2");
    line(2, 0, "{\"ev\":\"started\",\"resume_step\":2,\"steps\":40}");
    line(2, 0, "{\"ev\":\"done\",\"step\":40}");
    exited(2, 0, 0);
    exited(2, 1, 0);
    cleaned(true);
    expect(cleaned(true), "attempt_ended FINISH");
    expect(field("result"), "\"succeeded\"");
    expect(field("generations"), "2");
    expect(field("step"), "40");
}

static void launch_command(void)
{
    feed((struct agent_input){.kind = INPUT_LAUNCH,
                              .launch = {.np = 1, .budget = {10, 5000, 300000, 3, .early_ms = 120000},
                                         .history = {0, 0, 0, ""}}});
    spawned(1);
}

static void a_command_that_fails_at_once_is_not_retried(void **state)
{
    (void)state;
    launch_command();
    expect(exited(1, 0, 3), "rank_exited generation_ended CLEANUP(1)");
    cleaned(true);
    expect(cleaned(true), "attempt_ended FINISH");
    expect(field("text"), "\"rank 0 exited with code 3; no reason was printed; not retried: it failed after 0.0 s without "
                          "a sign of training; set retry.max to retry it anyway\"");
    expect(field("early"), "true");
    expect(field("gave_up"), "false");
}

static void a_command_that_has_trained_is_retried(void **state)
{
    (void)state;
    launch_command();
    expect(line(1, 0, "{\"ev\":\"step\",\"step\":1,\"steps\":40,\"loss\":0.5}"), "step~");
    exited(1, 0, 3);
    expect(cleaned(true), "restart_scheduled SPAWN(2,-1)");
}

static void a_command_that_has_held_a_gpu_is_retried(void **state)
{
    (void)state;
    launch_command();
    feed((struct agent_input){.kind = INPUT_RANK_EXITED,
                              .exited = {.generation = 1, .exit_code = 3, .gpu_held = true}});
    expect(cleaned(true), "restart_scheduled SPAWN(2,-1)");
}

static void a_command_that_was_killed_is_retried(void **state)
{
    (void)state;
    launch_command();
    killed(1, 0, 11);
    expect(cleaned(true), "restart_scheduled SPAWN(2,-1)");
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
    expect(killed(1, 1, 9), "rank_exited generation_ended TIMER(-1) CLEANUP(1)");
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
    expect(killed(1, 1, 9), "rank_exited generation_ended TIMER(-1) CLEANUP(1)");
    expect(field("cause"), "\"rank_crash\"");
    expect(field("rank"), "1");
}

/* Rank 0 speaks for all: they make the same snapshots. */
static void the_interval_of_snapshots_is_told(void **state)
{
    (void)state;
    launch(2, false, false);
    spawned(1);
    const char *interval = "{\"ev\":\"snapshots\",\"every\":21,\"bytes\":9,\"text\":\"one in 21\"}";
    expect(line(1, 1, interval), "");
    expect(line(1, 0, interval), "snapshots");
    expect(field("every"), "21");
}

/* The engine has waited for its disk; the GPUs are for others now, and no restart of this attempt is tried. */
static void a_full_disk_ends_the_attempt(void **state)
{
    (void)state;
    launch(1, true, false);
    spawned(1);
    expect(line(1, 0, "{\"ev\":\"no_room\",\"over\":false,\"bytes\":9,\"text\":\"no room\"}"), "no_room");
    expect(field("text"), "\"no room\"");
    expect(exited(1, 0, 78), "rank_exited generation_ended CLEANUP(1)");
    expect(field("cause"), "\"disk_full\"");
    cleaned(true);
    expect(cleaned(true), "attempt_ended FINISH");
    expect(field("result"), "\"failed\"");
    expect(field("retry_helps"), "true");
    expect(field("gave_up"), "false");
}

/* Ranks 0 and 1 on GPU-a and GPU-b; `excluded`: a fact of an earlier attempt, or "". */
static void launch_on_gpus(const char *excluded)
{
    char text[400];
    json_t *plan = json_loads("{\"ranks\":[{\"gpu\":\"GPU-a\"},{\"gpu\":\"GPU-b\"}]}", 0, NULL);
    snprintf(text, sizeof(text), "{\"gpus\":[{\"uuid\":\"GPU-a\",\"pci\":\"0000:0a:00.0\"},"
             "{\"uuid\":\"GPU-b\",\"pci\":\"0000:0b:00.0\"}]%s}", excluded);
    json_t *facts = json_loads(text, 0, NULL);
    feed((struct agent_input){.kind = INPUT_LAUNCH,
                              .launch = {.np = 2,
                                         .plan = plan,
                                         .facts = facts,
                                         .budget = {10, 5000, 300000, 9},
                                         .history = {0, 0, 0, ""}}});
    json_decref(plan);
    json_decref(facts);
}

/* Rank 0 or 1 of a generation fails and the other one in its wake. */
static void one_of_two_fails(int generation, int rank, struct agent_exit e)
{
    spawned(generation);
    e.generation = generation;
    e.rank = rank;
    feed((struct agent_input){.kind = INPUT_RANK_EXITED, .exited = e});
    killed(generation, !rank, 15);
}

/* Rank 1 and, of itself, rank 0. */
static void both_fail(int generation, struct agent_exit one, struct agent_exit zero)
{
    spawned(generation);
    one.generation = zero.generation = generation;
    one.rank = 1;
    feed((struct agent_input){.kind = INPUT_RANK_EXITED, .exited = one});
    now += 5;
    feed((struct agent_input){.kind = INPUT_RANK_EXITED, .exited = zero});
}

static void a_gpu_that_failed_is_left_out(void **state)
{
    static const char none[] = "", before[] = ",\"excluded\":{\"GPU-c\":\"it failed\"}";
    static const char again[] = ",\"excluded\":{\"GPU-a\":\"it failed\",\"GPU-b\":\"it failed\"}";
    static const struct agent_exit ecc = {
        .exit_code = 1, .last_lines = "RuntimeError: CUDA error: uncorrectable ECC error encountered"};
    static const struct agent_exit of_engine = {.exit_code = EXIT_GPU_FAULT};
    static const struct agent_exit illegal = {.exit_code = EXIT_CUDA};
    static const struct agent_exit launch = {
        .exit_code = 1, .last_lines = "RuntimeError: CUDA error: unspecified launch failure"};
    static const struct agent_exit victim = {.exit_code = EXIT_COLLECTIVE};
    static const struct agent_exit segv = {.signalled = true, .signo = 11};
    static const struct agent_exit killed_by_hand = {.signalled = true, .signo = 9};
    static const struct agent_exit xid_of_a = {
        .exit_code = 1, .kernel = "NVRM: Xid (PCI:0000:0A:00): 79, GPU has fallen off the bus."};
    static const struct agent_exit xid_of_others = {
        .exit_code = 1, .kernel = "NVRM: Xid (PCI:0000:0c:00): 79, GPU has fallen off the bus."};
    static const struct {
        const char *what, *before;
        const struct agent_exit *exit;
        int rank[2];          /* who fails, in each generation */
        int generations;      /* before the attempt ends */
        const char *gpu;      /* that is left out, NULL: none */
    } rows[] = {
        {"its own word", none, &ecc, {1, 1}, 1, "\"GPU-b\""},
        {"the engine's report of it", none, &of_engine, {1, 1}, 1, "\"GPU-b\""},
        {"an illegal access of the engine, twice the same rank", none, &illegal, {1, 1}, 2, "\"GPU-b\""},
        {"an illegal access of the engine, here and there", none, &illegal, {1, 0}, 0, NULL},
        {"a printed launch failure, twice the same rank", none, &launch, {1, 1}, 2, "\"GPU-b\""},
        {"a printed launch failure, here and there", none, &launch, {0, 1}, 0, NULL},
        {"a launch failure, and one is left out already", before, &launch, {1, 1}, 0, NULL},
        {"twice the victim of another rank", none, &victim, {1, 1}, 0, NULL},
        {"the kernel names another", none, &xid_of_a, {1, 1}, 1, "\"GPU-a\""},
        {"the kernel names a GPU that is not ours", none, &xid_of_others, {1, 1}, 1, NULL},
        {"twice the same rank", none, &segv, {1, 1}, 2, "\"GPU-b\""},
        {"twice, but another rank", none, &segv, {0, 1}, 0, NULL},
        {"twice, by hand", none, &killed_by_hand, {1, 1}, 0, NULL},
        {"twice, and one is left out already", before, &segv, {1, 1}, 0, NULL},
        {"its own word, left out before and used again", again, &ecc, {1, 1}, 1, NULL},
        {"its own word, and one is left out already", before, &ecc, {0, 0}, 1, "\"GPU-a\""},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        launch_on_gpus(rows[i].before);
        int g = 1;
        for (; g <= 2 && g != rows[i].generations + 1; g++) {
            one_of_two_fails(g, rows[i].rank[g - 1], *rows[i].exit);
            cleaned(true);
            if (g == 2 && !rows[i].generations)
                timer(now + 10000);
        }
        const bool over = rows[i].generations > 0;
        if (over != (strstr(said.data, "CLEANUP(0)") != NULL))
            fail_msg("%s: %s", rows[i].what, said.data);
        if (rows[i].gpu)
            assert_string_equal(field("gpu"), rows[i].gpu);
        assert_int_equal(strstr(said.data, "excluded") != NULL, rows[i].gpu != NULL);
        if (over)
            cleaned(true);
        if (rows[i].gpu)
            assert_non_null(strstr(field("text"), "this job no longer uses"));
        down(NULL);
        last_event = NULL;
        said = (struct buf){0};
        up(state);
    }
}

/* An error of CUDA on both GPUs is one of the program; what the hardware reports a moment later explains it. */
static void errors_of_cuda_are_the_programs(void **state)
{
    const struct agent_exit illegal = {.exit_code = EXIT_CUDA}, broken = {.exit_code = EXIT_GPU_FAULT};
    (void)state;
    launch_on_gpus("");
    for (int g = 1; g <= 2; g++) {
        both_fail(g, illegal, illegal);
        expect(field("cause"), "\"cuda_error\"");
        expect(field("rank"), "1");
        cleaned(true);
        assert_non_null(strstr(field("text"), "no hardware error was reported: the GPU is kept"));
    }
    timer(now + 10000);
    both_fail(3, illegal, broken);
    expect(field("cause"), "\"gpu_fault\"");
    cleaned(true);
    expect(field("gpu"), "\"GPU-a\"");
}

/* The driver tells of a GPU while its rank waits for it: the generation ends, and it is left out. */
static void a_gpu_is_left_out_while_its_rank_waits(void **state)
{
    const struct agent_input told = {
        .kind = INPUT_HANG,
        .hang = {.rank = 0,
                 .fault = "NVRM: Xid (PCI:0000:0b:00): 79, it has fallen off the bus",
                 .text = "GPU 1 (GPU-b) reports Xid 79: the GPU has fallen off the bus"}};
    (void)state;
    launch_on_gpus("");
    feed(told); /* nothing runs yet */
    assert_null(strstr(said.data, "gpu_fault"));
    spawned(1);
    feed(told);
    assert_non_null(strstr(said.data, "gpu_fault TIMER"));
    assert_string_equal(field("cause"), "\"gpu_fault\"");
    feed(told); /* once is enough */
    assert_null(strstr(said.data, "gpu_fault"));
    killed(1, 0, 9);
    killed(1, 1, 9);
    cleaned(true);
    assert_string_equal(field("gpu"), "\"GPU-b\""); /* as the line says, whoever's rank was named */
}

static void the_same_failure_three_times_is_enough(void **state)
{
    (void)state;
    launch(1, false, false);
    one_generation_fails(1, 3);
    expect(cleaned(true), "restart_scheduled SPAWN(2,-1)");
    one_generation_fails(2, 3);
    expect(cleaned(true), "restart_scheduled TIMER(5000)");
    expect(field("delay_ms"), "5000");
    expect(timer(now + 5000), "SPAWN(3,-1)");
    one_generation_fails(3, 3);
    expect(cleaned(true), "CLEANUP(0)");
    expect(cleaned(true), "attempt_ended FINISH");
    expect(field("result"), "\"failed\"");
    expect(field("gave_up"), "true");
    expect(field("retry_helps"), "false");
    expect(field("failures_without_progress"), "3");
    expect(field("same_fingerprint"), "3");
    expect(field("exit_code"), "3");
    expect(field("text"),
           "\"rank 0 exited with code 3; no reason was printed; not retried: "
           "the same failure 3 times without progress\"");
}

/* Each hang before the first step puts one more to what is set; a step proves the path good. */
static void a_hang_before_the_first_step_gets_a_remedy(void **state)
{
    (void)state;
    json_t *two = json_loads("{\"fallbacks\":[{\"name\":\"A\",\"value\":\"1\",\"why\":\"w\",\"fact\":\"f\"},"
                             "{\"name\":\"B\",\"value\":\"2\",\"why\":\"x\",\"fact\":\"g\"}]}", 0, NULL);
    feed((struct agent_input){.kind = INPUT_LAUNCH,
                              .launch = {.np = 2, .budget = {10, 10, 10, 0}, .plan = two}});
    json_decref(two);
    spawned(1);
    hang(1, 1, true);
    reported(1);
    killed(1, 0, 15);
    killed(1, 1, 15);
    expect(cleaned(true), "restart_scheduled SPAWN(2,-1) fallbacks 1");
    expect(field("text"), "\"rank 1 stands still; the next start sets A=1: w (f)\"");
    spawned(2);
    hang(2, 1, true);
    reported(2);
    killed(2, 0, 15);
    killed(2, 1, 15);
    cleaned(true);
    expect(timer(now + 10), "SPAWN(3,-1) fallbacks 2");
    spawned(3);
    line(3, 0, "{\"ev\":\"step\",\"step\":1}"); /* so that was it */
    hang(3, 1, false);
    reported(3);
    killed(3, 0, 15);
    killed(3, 1, 15);
    expect(cleaned(true), "restart_scheduled SPAWN(4,-1) fallbacks 2");
}

static void what_helped_before_is_set_from_the_start(void **state)
{
    (void)state;
    json_t *one = json_loads("{\"fallbacks\":[{\"name\":\"A\",\"value\":\"1\"}]}", 0, NULL);
    expect(feed((struct agent_input){.kind = INPUT_LAUNCH,
                                     .launch = {.np = 1, .budget = {10, 10, 10, 0}, .plan = one,
                                                .history = {0, 0, 0, "", 7}}}),
           "SPAWN(1,-1) fallbacks 1");
    json_decref(one);
}

static void history_counts(void **state)
{
    (void)state;
    feed((struct agent_input){
        .kind = INPUT_LAUNCH,
        .launch = {.np = 1, .budget = {4, 100, 250, 0}, .history = {3, 1, 50, "x"}}});
    one_generation_fails(1, 3);
    expect(cleaned(true), "restart_scheduled TIMER(250)"); /* 100 * 2^2, capped */
    timer(now + 250);
    one_generation_fails(2, 4);
    cleaned(true);
    cleaned(true);
    expect(field("text"), "\"rank 0 exited with code 4; no reason was printed; not retried: "
                          "restart limit (4) reached without progress\"");
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
    expect(cleaned(true), "restart_scheduled SPAWN(2,-1)");
    spawned(2);
    line(2, 0, "{\"ev\":\"step\",\"step\":10}");
    killed(2, 0, 11);
    expect(field("gained"), "0");
    expect(cleaned(true), "restart_scheduled SPAWN(3,-1)"); /* the first without progress */
    spawned(3);
    line(3, 0, "{\"ev\":\"step\",\"step\":9}");
    killed(3, 0, 11);
    expect(cleaned(true), "restart_scheduled TIMER(5000)");
    timer(now + 5000);
    spawned(4);
    line(4, 0, "{\"ev\":\"step\",\"step\":11}");
    killed(4, 0, 11);
    expect(cleaned(true), "restart_scheduled SPAWN(5,-1)"); /* progress: patience is new */
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
    expect(killed(1, 1, 9), "rank_exited generation_ended TIMER(-1) CLEANUP(1)");
    expect(field("cause"), "\"hang_step\"");
    expect(field("text"), "\"rank 1 stands still\"");
    expect(field("exit_code"), "-");
    expect(cleaned(true), "restart_scheduled SPAWN(2,-1)");
}

static void a_hung_command_is_asked_for_its_stacks(void **state)
{
    (void)state;
    launch(2, false, false);
    spawned(1);
    expect(hang(1, 1, false), "hang TIMER(2500) REPORT(1)");
    expect(reported(1), "incident SIGNAL(6) TIMER(1500)");
    expect(killed(1, 0, 6), "rank_exited");
    expect(timer(now + 1500), "SIGNAL(6) TIMER(700)");
    expect(timer(now + 700), "SIGNAL(9) TIMER(1000)");
    expect(killed(1, 1, 9), "rank_exited generation_ended TIMER(-1) CLEANUP(1)");
    expect(field("cause"), "\"hang_step\"");
    expect(cleaned(true), "restart_scheduled SPAWN(2,-1)");
    spawned(2);
    expect(hang(2, 1, false), "hang TIMER(2500) REPORT(2)");
    expect(stop(100, false), "stop_asked CONTROL(stop) SIGNAL(15) TIMER(100)");
    expect(timer(now + 100), "SIGNAL(9) TIMER(1000)"); /* it is in a hurry */
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
    expect(killed(1, 0, 15), "rank_exited generation_ended TIMER(-1) CLEANUP(1)");
    expect(field("rank"), "null");
}

static void one_batch_with_nan_is_left_out_once(void **state)
{
    (void)state;
    static const char nan[] = "{\"ev\":\"failed\",\"cause\":\"nan_loss\",\"exit_code\":76,"
                              "\"text\":\"the loss is nan\",\"step\":7}";
    launch(1, true, false);
    spawned(1);
    line(1, 0, nan);
    exited(1, 0, 76);
    expect(cleaned(true), "restart_scheduled SPAWN(2,-1) without 7, from disk");
    expect(field("text"), "\"rank 0 exited with code 76: the loss is nan; the batch of step 8 will "
                          "be skipped\"");
    spawned(2);
    line(2, 0, "{\"ev\":\"step\",\"step\":9}");
    killed(2, 0, 9); /* something else: the step stays left out */
    expect(cleaned(true), "restart_scheduled SPAWN(3,-1) without 7");
    spawned(3);
    line(3, 0, "{\"ev\":\"step\",\"step\":99}");
    line(3, 0, nan);
    exited(3, 0, 76);
    expect(cleaned(true), "CLEANUP(0)");
    cleaned(true);
    expect(field("cause"), "\"nan_loss\"");
    expect(field("retry_helps"), "false");
    expect(field("text"), "\"rank 0 exited with code 76: the loss is nan; skipping the batch of "
                          "an earlier NaN did not help\"");
}

static void some_causes_end_it(void **state)
{
    (void)state;
    launch(1, true, false);
    spawned(1);
    line(1, 0,
         "{\"ev\":\"failed\",\"cause\":\"data_error\",\"exit_code\":65,\"text\":\"no images\"}");
    expect(exited(1, 0, 65), "rank_exited generation_ended CLEANUP(1)");
    expect(cleaned(true), "CLEANUP(0)");
    cleaned(true);
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
        assert_memory_equal(cleaned(true), "restart_scheduled", 17);
        now += 300000;
        if (i > 1)
            timer(now);
    }
    spawned(5);
    line(5, 0, text);
    exited(5, 0, 72);
    cleaned(true);
    cleaned(true);
    expect(field("same_fingerprint"), "3"); /* 4, 4 and 4 */
    expect(field("gave_up"), "true");
}

static void a_gpu_fault_is_for_the_controller(void **state)
{
    (void)state;
    launch(1, true, false);
    one_generation_fails(1, 73);
    expect(cleaned(true), "CLEANUP(0)");
    cleaned(true);
    expect(field("retry_helps"), "true");
}

static void a_start_that_fails_is_a_failure(void **state)
{
    (void)state;
    launch(1, false, false);
    expect(feed((struct agent_input){.kind = INPUT_SPAWN_FAILED,
                                     .spawn = {.generation = 1, .text = "cannot fork: no"}}),
           "generation_ended CLEANUP(1)");
    expect(cleaned(true), "restart_scheduled SPAWN(2,-1)");
}

static void a_failing_setup_is_retried_within_the_budget(void **state)
{
    (void)state;
    launch(1, false, true);
    struct agent_input in = {.kind = INPUT_SETUP_EXITED, .exited = {.exit_code = 1}};
    expect(feed(in), "setup_done restart_scheduled setup_started SETUP");
    expect(feed(in), "setup_done restart_scheduled TIMER(5000)");
    timer(now + 5000);
    expect(feed(in), "setup_done CLEANUP(0)");
    cleaned(true);
    expect(field("text"),
           "\"the setup exited with code 1; no reason was printed; not retried: "
           "the same failure 3 times without progress\"");
}

static void patience_doubles_up_to_its_limit(void **state)
{
    (void)state;
    static const int64_t want[] = {0, 0, 5000, 10000, 20000, 40000, 60000, 60000};
    for (int i = 0; i < 8; i++) {
        struct restart_policy p = {.backoff_min_ms = 5000, .backoff_max_ms = 60000, .failures = i};
        assert_int_equal(restart_policy_wait_ms(&p, 0), want[i]);
        assert_true(restart_policy_wait_ms(&p, 0.999) <= 60000);
    }
    struct restart_policy p = {.backoff_min_ms = 5000, .backoff_max_ms = 60000, .failures = 2};
    assert_int_equal(restart_policy_wait_ms(&p, 0.8), 6000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(last_lines_are_evidence), TEST(the_first_failure_decides_and_restarts_at_once),
        TEST(a_command_that_fails_at_once_is_not_retried),
        TEST(a_command_that_has_trained_is_retried),
        TEST(a_command_that_has_held_a_gpu_is_retried),
        TEST(a_command_that_was_killed_is_retried),
        TEST(stubborn_ranks_are_killed),
        TEST(an_echo_does_not_hide_the_cause),
        TEST(the_same_failure_three_times_is_enough),
        TEST(a_hang_before_the_first_step_gets_a_remedy),
        TEST(what_helped_before_is_set_from_the_start),
        TEST(history_counts),
        TEST(only_new_steps_are_progress),
        TEST(a_hang_is_reported_before_anything_is_stopped),
        TEST(a_hung_command_is_asked_for_its_stacks),
        TEST(a_report_that_takes_too_long_is_not_waited_for),
        TEST(one_batch_with_nan_is_left_out_once),
        TEST(some_causes_end_it),
        TEST(the_interval_of_snapshots_is_told),
        TEST(a_full_disk_ends_the_attempt),
        TEST(smaller_and_smaller_is_not_the_same_failure),
        TEST(a_gpu_fault_is_for_the_controller),
        TEST(a_gpu_that_failed_is_left_out),
        TEST(errors_of_cuda_are_the_programs),
        TEST(a_gpu_is_left_out_while_its_rank_waits),
        TEST(a_start_that_fails_is_a_failure),
        TEST(a_failing_setup_is_retried_within_the_budget),
        cmocka_unit_test(patience_doubles_up_to_its_limit),
    };
    return cmocka_run_group_tests_name("agent_core_failures", tests, NULL, NULL);
}
