/* SPDX-License-Identifier: Apache-2.0 */
/* test_agent.c - an attempt from its launch to its end: starts, reports, stops, leftovers */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/process/agent/attempt/agent_fixture.h"

/* An engine in shell: it speaks and obeys as engine/contract/progress.h says. */
static const char fake_engine[] =
    "#!/bin/sh\n"
    "test \"$1 $2 $3\" = \"train --spec $JOBCTL_RUN_DIR/spec.json\" || exit 70\n"
    "grep -q bad_config \"$3\" && { echo 'train.steps: bad' >&2; exit 64; }\n"
    "say() { echo \"$1\" >&3; }\n"
    "save() { say '{\"ev\":\"checkpoint\",\"step\":5,\"path\":\"/c/5\",\"digest\":\"d\"}'; }\n"
    "trap 'exit 99' TERM\n"
    "say '{\"ev\":\"started\",\"rank\":0,\"world_size\":1,\"resume_step\":0,\"steps\":9}'\n"
    "say '{\"ev\":\"step\",\"step\":5,\"steps\":9,\"loss\":0.25}'\n"
    "while read -r line <&4; do\n"
    "  save\n"
    "  case $line in *stop*) exit 75 ;; esac\n"
    "done\n"
    "exit 75\n";

/* The agent looks for the engine beside itself, so it is copied beside this one. */
static int up_engine(void **state)
{
    (void)state;
    char path[300], command[4600];
    make_place();
    in_dir(path, "jobctl-train");
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0700);
    assert_int_equal(write(fd, fake_engine, sizeof(fake_engine) - 1), sizeof(fake_engine) - 1);
    close(fd);
    snprintf(command, sizeof(command), "cp '%s' '%s/jobctl-agent'", binary, dir);
    assert_int_equal(system(command), 0);
    in_dir(binary, "jobctl-agent");
    return start_agent();
}

static void a_command_runs_to_the_end(void **state)
{
    (void)state;
    struct peer p;
    char log[4096];
    dial(&p);
    assert_int_equal(json_is_true(json_object_get(p.hello, "launched")), 0);
    assert_int_equal(integer(p.hello, "last_seq"), 0);
    launch(&p,
           "echo $GREETING; echo err >&2; echo rank $RANK of $WORLD_SIZE at $MASTER_ADDR,"
           " restarts $TORCHELASTIC_RESTART_COUNT, threads $OMP_NUM_THREADS;"
           " test $MASTER_PORT -gt 1023 && test -f $JOBCTL_FLIGHT && pwd",
           2);
    assert_int_equal(integer(await(&p, "plan"), "np"), 2);
    assert_int_equal(json_array_size(json_object_get(await(&p, "generation_started"), "pids")), 2);
    json_t *ended = await(&p, "attempt_ended");
    assert_string_equal(text(ended, "result"), "succeeded");
    assert_true(json_is_true(json_object_get(ended, "clean")));
    read_file("rank1.log", log, sizeof(log));
    char want[300];
    snprintf(want, sizeof(want),
             "hello world\nerr\nrank 1 of 2 at 127.0.0.1, restarts 0, "
             "threads 1\n%s\n",
             dir);
    assert_string_equal(log, want);
    assert_true(agent_pid() > 0); /* it waits for the ack */
    ack(&p);
    expect_gone();
    hang_up(&p);
}

static void it_is_heard_while_it_has_nothing_to_say(void **state)
{
    (void)state;
    struct peer p;
    enum wire_message number;
    dial(&p);
    for (int i = 0; i < 2; i++) {
        json_decref(receive(&p, &number));
        assert_int_equal(number, WIRE_KEEPALIVE);
    }
    hang_up(&p);
}

/* A message that is not of this attempt, whatever it says: not one is taken. */
static void another_attempt_commands_nothing(void **state)
{
    static const struct { int job, attempt; const char *nonce; } others[] = {
        {7, 1, "00000000000000000000000000000000"}, {7, 2, nonce}, {8, 1, nonce},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        struct peer p;
        struct err err = {0};
        enum wire_message number;
        size_t size;
        dial(&p);
        json_t *stop = json_pack("{s:i, s:i, s:s, s:s, s:i, s:b}", "job", others[i].job, "attempt",
                                 others[i].attempt, "nonce", others[i].nonce, "reason", "so", "grace_ms",
                                 0, "checkpoint", 0);
        char *frame = frame_make(WIRE_STOP, stop, &size, &err);
        assert_int_equal(write(p.fd, frame, size), size);
        int heard = 0;
        for (json_t *body; heard < 5 && (body = receive(&p, &number)); heard++)
            json_decref(body);
        assert_true(heard < 5);     /* it has hung up */
        free(frame);
        json_decref(stop);
        hang_up(&p);
    }
    assert_true(agent_pid() > 0);
}

static void setup_runs_once_and_events_flow(void **state)
{
    (void)state;
    struct peer p;
    char log[4096];
    dial(&p);
    launch_spec(&p,
                json_pack("{s:s, s:s}", "setup", "echo installing; echo x >> installed; sleep 70 & echo $! > service", "run",
                          "echo '{\"ev\":\"started\",\"resume_step\":0,\"steps\":9}' >&3;"
                          "echo '{\"ev\":\"step\",\"step\":4,\"loss\":0.5}' >&3;"
                          "echo 'not json' >&3;"
                          "echo '{\"ev\":\"checkpoint\",\"step\":4,\"path\":\"/c/4\"}' >&3;"
                          "if [ $JOBCTL_GENERATION = 1 ]; then echo bang; exit 3; fi;"
                          "kill -0 $(cat service) && echo resumed at $JOBCTL_RESUME_STEP"),
                0);
    await(&p, "setup_started");
    assert_int_equal(integer(await(&p, "setup_done"), "exit_code"), 0);
    assert_int_equal(integer(await(&p, "rank_started"), "steps"), 9);
    assert_int_equal(integer(await(&p, "step"), "step"), 4);
    assert_string_equal(text(await(&p, "checkpoint"), "path"), "/c/4");
    json_t *ended = await(&p, "generation_ended");
    assert_string_equal(text(ended, "cause"), "user_exit");
    assert_int_equal(integer(ended, "gained"), 4);
    assert_string_equal(json_string_value(json_array_get(json_object_get(ended, "evidence"), 0)),
                        "bang");
    assert_non_null(strstr(text(await(&p, "restart_scheduled"), "text"), "resuming at step 4 or later"));
    assert_string_equal(text(await(&p, "attempt_ended"), "result"), "succeeded");
    read_file("rank0.log", log, sizeof(log));
    assert_string_equal(log, "bang\n--- generation 2, from the checkpoint of step 4 ---\n"
                             "resumed at 4\n");
    read_file("installed", log, sizeof(log));
    assert_string_equal(log, "x\n");
    read_file("setup.log", log, sizeof(log));
    assert_string_equal(log, "installing\n");
    ack(&p);
    expect_gone();
    hang_up(&p);
}

static void what_cannot_run_is_refused_with_the_fix(void **state)
{
    (void)state;
    struct peer p;
    dial(&p);
    launch_spec(&p, json_pack("{s:s, s:{s:i}}", "run", "true", "resources", "gpus", 99), 0);
    json_t *last = await(&p, "attempt_ended");
    assert_string_equal(text(last, "cause"), "too_few_gpus");
    assert_non_null(strstr(text(last, "text"), "set `gpus: 0`"));
    assert_false(json_is_true(json_object_get(last, "retry_helps")));
    hang_up(&p);
}

static void stop_leaves_nothing(void **state)
{
    (void)state;
    struct peer p;
    struct cleanup_pass look = {.nonce = nonce};
    dial(&p);
    /* one that ignores SIGTERM, with a child in a session of its own that does too */
    launch(&p,
           "trap '' TERM; (trap '' TERM; setsid sleep 77 & wait) & echo up >&3;"
           "echo '{\"ev\":\"sample\",\"step\":1,\"path\":\"up\"}' >&3; while :; do sleep 1; done",
           1);
    await(&p, "sample");
    assert_true(cleanup_pass_run(&look, NULL, 0) >= 2);
    const int64_t asked_ms = now_ms();
    send_to(&p, WIRE_STOP,
            json_pack("{s:s, s:i, s:b}", "reason", "cancelled by a test", "grace_ms", 200,
                      "checkpoint", 0));
    assert_string_equal(text(await(&p, "stop_asked"), "reason"), "cancelled by a test");
    await(&p, "rank_exited");
    assert_true(now_ms() - asked_ms >= 200); /* it had its grace, however busy the machine is */
    json_t *last = await(&p, "attempt_ended");
    assert_string_equal(text(last, "result"), "stopped");
    assert_true(json_is_true(json_object_get(last, "clean")));
    char left[300];
    assert_int_equal(cleanup_pass_run(&look, left, sizeof(left)), 0);
    ack(&p);
    expect_gone();
    hang_up(&p);
}

/* Cancelled before it had orders: its end is told all the same. */
static void who_is_stopped_without_orders_says_so(void **state)
{
    (void)state;
    struct peer p;
    dial(&p);
    send_to(&p, WIRE_STOP, json_pack("{s:s, s:i, s:b}", "reason", "too early", "grace_ms", 200, "checkpoint", 0));
    assert_string_equal(text(await(&p, "stop_asked"), "reason"), "too early");
    assert_string_equal(text(await(&p, "attempt_ended"), "result"), "stopped");
    ack(&p);
    expect_gone();
    hang_up(&p);
}

static void an_engine_saves_and_stops_on_request(void **state)
{
    (void)state;
    struct peer p;
    dial(&p);
    launch_spec(&p, json_pack("{s:{s:i}}", "train", "steps", 9), 0);
    assert_int_equal(integer(await(&p, "step"), "step"), 5);
    send_to(&p, WIRE_CHECKPOINT, json_object());
    assert_string_equal(text(await(&p, "checkpoint"), "path"), "/c/5");
    send_to(&p, WIRE_STOP, /* an hour is more than await() has patience for */
            json_pack("{s:s, s:i, s:b}", "reason", "hold", "grace_ms", 3600000, "checkpoint", 1));
    await(&p, "checkpoint"); /* it had the time to save: no SIGTERM yet */
    assert_int_equal(integer(await(&p, "rank_exited"), "exit_code"), 75);
    json_t *last = await(&p, "attempt_ended");
    assert_string_equal(text(last, "result"), "stopped");
    assert_string_equal(text(last, "cause"), "none");
    assert_int_equal(integer(last, "step"), 5);
    ack(&p);
    expect_gone();
    hang_up(&p);
}

static void a_wrong_configuration_is_not_tried_again(void **state)
{
    (void)state;
    struct peer p;
    dial(&p);
    launch_spec(&p, json_pack("{s:{s:s}}", "train", "x", "bad_config"), 0);
    json_t *last = await(&p, "attempt_ended");
    assert_string_equal(text(last, "cause"), "config_error");
    assert_int_equal(integer(last, "generations"), 1);
    assert_int_equal(integer(last, "exit_code"), 64);
    hang_up(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_command_runs_to_the_end),
        TEST(it_is_heard_while_it_has_nothing_to_say),
        TEST(another_attempt_commands_nothing),
        TEST(setup_runs_once_and_events_flow),
        TEST(what_cannot_run_is_refused_with_the_fix),
        TEST(stop_leaves_nothing),
        TEST(who_is_stopped_without_orders_says_so),
        cmocka_unit_test_setup_teardown(an_engine_saves_and_stops_on_request, up_engine, down),
        cmocka_unit_test_setup_teardown(a_wrong_configuration_is_not_tried_again, up_engine, down),
    };
    if (draw_nonce() < 0)
        return 1;
    return cmocka_run_group_tests_name("agent", tests, NULL, NULL);
}
