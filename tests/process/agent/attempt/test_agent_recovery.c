/* SPDX-License-Identifier: Apache-2.0 */
/* test_agent_recovery.c - ranks that die, controllers that vanish, agents that are killed */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/process/agent/attempt/agent_fixture.h"

/* No pause before the next start; how long it takes is measured by tests/bench/restart.sh. */
static void killed_ranks_are_back_at_once(void **state)
{
    (void)state;
    enum { KILLS = 11 };
    struct peer p;
    dial(&p);
    launch(&p,
           "echo '{\"ev\":\"checkpoint\",\"step\":'$JOBCTL_GENERATION',\"path\":\"x\"}' >&3;"
           "sleep 50 & if [ $JOBCTL_GENERATION -le 11 ]; then wait; fi; kill $!; exit 0",
           1);
    pid_t pid = first_pid(await(&p, "generation_started"));
    for (int i = 0; i < KILLS; i++) {
        await(&p, "checkpoint");
        assert_int_equal(kill(pid, SIGKILL), 0);
        json_t *ended = await(&p, "generation_ended");
        assert_string_equal(text(ended, "cause"), "rank_crash");
        assert_string_equal(text(ended, "text"), "rank 0 was killed by SIGKILL (9)");
        assert_int_equal(integer(await(&p, "restart_scheduled"), "delay_ms"), 0);
        json_t *started = await(&p, "generation_started");
        assert_int_equal(integer(started, "generation"), i + 2);
        assert_int_equal(integer(started, "resume_step"), i + 1);
        pid = first_pid(started);
    }
    json_t *last = await(&p, "attempt_ended");
    assert_string_equal(text(last, "result"), "succeeded");
    assert_true(json_is_true(json_object_get(last, "clean")));
    ack(&p);
    expect_gone();
    hang_up(&p);
}

static void one_dead_rank_ends_the_others(void **state)
{
    (void)state;
    struct peer p;
    dial(&p);
    launch(&p,
           "if [ $RANK = 1 ] && [ $JOBCTL_GENERATION = 1 ]; then exit 9; fi;"
           "if [ $JOBCTL_GENERATION = 1 ]; then sleep 60; fi",
           3);
    json_t *ended = await(&p, "generation_ended");
    assert_int_equal(integer(ended, "rank"), 1);
    assert_int_equal(integer(ended, "exit_code"), 9);
    assert_string_equal(text(await(&p, "attempt_ended"), "result"), "succeeded");
    hang_up(&p);
}

static void hopeless_jobs_end(void **state)
{
    (void)state;
    struct peer p;
    dial(&p);
    launch(&p, "echo no luck >&2; exit 5", 1);
    json_t *last = await(&p, "attempt_ended");
    assert_string_equal(text(last, "text"), "rank 0 exited with code 5: no luck; not retried: "
                                            "the same failure 3 times without progress");
    assert_true(json_is_true(json_object_get(last, "gave_up")));
    assert_int_equal(integer(last, "generations"), 3);
    hang_up(&p);
}

static void the_controller_may_vanish_and_return(void **state)
{
    (void)state;
    struct peer p, q;
    char path[300];
    dial(&p);
    launch(&p, "while [ ! -e go ]; do sleep 0.02; done; echo done", 1);
    await(&p, "generation_started");
    int64_t seen = p.seq;
    hang_up(&p); /* without an ack */
    in_dir(path, "go");
    fclose(fopen(path, "w"));
    dial(&q);
    assert_true(json_is_true(json_object_get(q.hello, "launched")));
    assert_int_equal(integer(q.hello, "first_seq"), 1);
    launch(&q, "echo must not run", 1); /* the same nonce: only its acked counts */
    await(&q, "facts");                 /* everything from the first on, again */
    assert_int_equal(q.seq, 1);
    assert_string_equal(text(await(&q, "attempt_ended"), "result"), "succeeded");
    int64_t last = q.seq;
    hang_up(&q);
    dial(&q); /* once more, with an ack of a part */
    launch_spec(&q, json_object(), seen);
    await(&q, "attempt_ended");
    assert_int_equal(q.seq, last);
    ack(&q);
    expect_gone();
    char log[200];
    read_file("rank0.log", log, sizeof(log));
    assert_string_equal(log, "done\n");
    hang_up(&q);
}

static void a_newer_connection_counts_and_strangers_are_refused(void **state)
{
    (void)state;
    struct peer p, q;
    enum wire_message number;
    dial(&p);
    dial(&q);
    assert_null(receive(&p, &number)); /* the older one is closed */
    hang_up(&p);
    send_to(&q, WIRE_STOP,
            json_pack("{s:s, s:s, s:i, s:b}", "nonce", "ffff", "reason", "x", "grace_ms", 1,
                      "checkpoint", 0));
    assert_null(receive(&q, &number)); /* another attempt's word is not obeyed */
    hang_up(&q);
    dial(&q);
    assert_int_equal(send(q.fd, "GET / HTTP/1.0\r\n\r\n", 18, MSG_NOSIGNAL), 18);
    assert_null(receive(&q, &number));
    hang_up(&q);
    dial(&q);
    launch(&q, "true", 1);
    await(&q, "attempt_ended");
    hang_up(&q);
}

static int find_end(void *arg, const json_t *event)
{
    int64_t *seen = arg;
    const char *kind = json_string_value(json_object_get(event, "kind"));
    seen[0]++;
    seen[1] += strcmp(kind, "checkpoint") == 0;
    if (strcmp(kind, "attempt_ended") == 0)
        seen[2] += strstr(text(json_object_get(event, "body"), "text"), "its node was lost") != NULL;
    return 0;
}

static void a_killed_agent_leaves_its_spool_and_no_ranks(void **state)
{
    (void)state;
    struct peer p;
    char path[300];
    dial(&p);
    launch(&p, "echo '{\"ev\":\"checkpoint\",\"step\":4,\"path\":\"/c/4\"}' >&3; sleep 60", 1);
    await(&p, "checkpoint");
    hang_up(&p);
    kill((pid_t)agent_pid(), SIGKILL);
    for (int i = 0; i < PATIENCE_MS / 5 && agent_pid(); i++)
        poll(NULL, 0, 5);
    int64_t seen[3] = {0, 0, 0};
    in_dir(path, "spool");
    assert_true(spool_read(path, 0, find_end, seen, NULL) >= 4);
    assert_int_equal(seen[1], 1);
    /* the ranks got SIGTERM when their agent died; `cleanup` makes sure */
    char command[4400];
    snprintf(command, sizeof(command), "'%s' cleanup '%s'", binary, dir);
    FILE *f = popen(command, "r");
    char line[100] = "";
    assert_non_null(fgets(line, sizeof(line), f));
    assert_int_equal(pclose(f), 0);
    assert_string_equal(line, "clean\n");
    /* its guardian has the lock until it has ended, too */
    for (int i = 0; i < PATIENCE_MS / 5 && run_dir_held(dir) != 0; i++)
        poll(NULL, 0, 5);
    /* started again, it goes on with its spool as another incarnation */
    assert_int_equal(start_agent(), 0);
    dial(&p);
    assert_int_equal(integer(p.hello, "incarnation"), 2);
    assert_true(integer(p.hello, "last_seq") >= 4);
    hang_up(&p);
}

/* By a controller that does not come any more: it waits for the lock, and reads the spool. */
static void who_is_given_up_leaves_its_words_and_goes(void **state)
{
    (void)state;
    struct peer p;
    char path[300];
    int64_t seen[3] = {0, 0, 0};
    dial(&p);
    launch(&p, "sleep 60", 1);
    await(&p, "generation_started");
    hang_up(&p);
    assert_int_equal(run_dir_fence(dir, "its node was lost", NULL), 0);
    expect_gone();
    for (int i = 0; i < PATIENCE_MS / 5 && run_dir_held(dir) != 0; i++)
        poll(NULL, 0, 5); /* the guardian leaves a moment later */
    assert_int_equal(run_dir_held(dir), 0);
    in_dir(path, RUN_DIR_SPOOL);
    assert_true(spool_read(path, 0, find_end, seen, NULL) >= 4);
    assert_int_equal(seen[2], 1);
}

static void two_agents_do_not_share_a_directory(void **state)
{
    (void)state;
    assert_int_equal(start_agent(), 3); /* ERR_CONFLICT */
    assert_true(agent_pid() > 0);
    struct peer p;
    dial(&p);
    launch(&p, "true", 1);
    await(&p, "attempt_ended");
    ack(&p);
    expect_gone();
    hang_up(&p);
    assert_int_equal(run_dir_fence(dir, NULL, NULL), 0); /* the attempt is over for good */
    assert_int_equal(start_agent(), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(killed_ranks_are_back_at_once),
        TEST(one_dead_rank_ends_the_others),
        TEST(hopeless_jobs_end),
        TEST(the_controller_may_vanish_and_return),
        TEST(a_newer_connection_counts_and_strangers_are_refused),
        TEST(a_killed_agent_leaves_its_spool_and_no_ranks),
        TEST(who_is_given_up_leaves_its_words_and_goes),
        TEST(two_agents_do_not_share_a_directory),
    };
    if (draw_nonce() < 0)
        return 1;
    return cmocka_run_group_tests_name("agent_recovery", tests, NULL, NULL);
}
