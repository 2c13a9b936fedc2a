/* SPDX-License-Identifier: Apache-2.0 */
/* test_agent_core_rejoin.c - the agent's decisions: ranks that lost another one continue in their processes */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/agent/core/agent_core_fixture.h"

#define DETACHED "{\"ev\":\"detached\",\"cause\":\"nccl_error\",\"text\":\"rank 1 died\",\"step\":7}"

static int up_and_running(void **state)
{
    if (up(state) < 0)
        return -1;
    feed((struct agent_input){.kind = INPUT_LAUNCH,
                              .launch = {.np = 3,
                                         .engine = true,
                                         .rejoin = true,
                                         .budget = {10, 5000, 300000, 3},
                                         .history = {0, 0, 0, ""}}});
    spawned(1);
    return 0;
}

static void who_lives_is_kept(void **state)
{
    (void)state;
    expect(killed(1, 1, 9), "rank_exited REPORT(1) TIMER(5000)");
    now += 20;
    expect(line(1, 0, DETACHED), "");
    expect(line(1, 0, DETACHED), ""); /* said once */
    expect(line(1, 2, DETACHED), "generation_ended TIMER(-1) restart_scheduled SPAWN(2,-1) kept");
    expect(field("text"), "\"rank 1 was killed by SIGKILL (9); 2 of 3 ranks keep their processes\"");
    expect(spawned(2), "generation_started");
    expect(field("ranks_kept"), "2");
    /* Nothing of it is left when the next one fails. */
    expect(killed(2, 0, 11), "rank_exited REPORT(2) TIMER(5000)");
    expect(exited(2, 1, 74), "rank_exited");
    expect(exited(2, 2, 74), "rank_exited generation_ended TIMER(-1) CLEANUP(2)");
    expect(field("cause"), "\"rank_crash\"");
}

static void all_may_have_parted_before_the_news_of_the_death(void **state)
{
    (void)state;
    expect(line(1, 0, DETACHED), "TIMER(5000)");
    expect(line(1, 2, DETACHED), "");
    expect(killed(1, 1, 9), "rank_exited REPORT(1) generation_ended TIMER(-1) restart_scheduled "
                            "SPAWN(2,-1) kept");
}

static void nobody_died(void **state)
{
    (void)state;
    line(1, 0, DETACHED);
    line(1, 1, DETACHED);
    expect(line(1, 2, DETACHED), "REPORT(1) generation_ended TIMER(-1) restart_scheduled SPAWN(2,-1) kept");
    expect(spawned(2), "generation_started");
    expect(field("ranks_kept"), "3");
}

static void who_does_not_part_is_stopped_with_the_others(void **state)
{
    (void)state;
    killed(1, 1, 9);
    line(1, 0, DETACHED);
    expect(timer(now + 5000), "SIGNAL(15) TIMER(3000)");
    expect(exited(1, 0, 74), "rank_exited");
    expect(timer(now + 3000), "SIGNAL(9) TIMER(1000)");
    expect(killed(1, 2, 9), "rank_exited generation_ended TIMER(-1) CLEANUP(1)");
    expect(field("cause"), "\"rank_crash\"");
    expect(cleaned(true), "restart_scheduled SPAWN(2,-1)");
}

static void one_alone_has_parted(void **state)
{
    (void)state;
    line(1, 2, DETACHED);
    expect(timer(now + 5000), "REPORT(1) TIMER(5000) SIGNAL(15) TIMER(3000)");
    exited(1, 0, 75);
    exited(1, 1, 75);
    expect(exited(1, 2, 74), "rank_exited generation_ended TIMER(-1) CLEANUP(1)");
    expect(field("cause"), "\"nccl_error\"");
    expect(field("rank"), "2");
}

/* The second failure without progress waits, and processes do not wait so long. */
static void a_back_off_ends_the_processes(void **state)
{
    (void)state;
    killed(1, 1, 9);
    line(1, 0, DETACHED);
    line(1, 2, DETACHED);
    spawned(2);
    now += 600;
    line(2, 0, DETACHED);
    now += 400;
    killed(2, 1, 9);
    now += 500;
    expect(line(2, 2, DETACHED), "generation_ended SIGNAL(15) TIMER(3000)");
    /* The two that live have worked until the failure, and lost the time since, as if they had ended now. */
    expect(field("goodput"), "{\"rank_ms\":4500,\"productive\":0,\"replayed\":3000,\"init\":0,\"data\":0,\"checkpoint\":0,"
                             "\"disk\":0,\"hang\":0,\"restart\":1500,\"queued\":0,\"paused\":0}");
    exited(2, 0, 74);
    expect(exited(2, 2, 74), "rank_exited TIMER(-1) CLEANUP(2)"); /* it is not told twice */
    expect(cleaned(true), "restart_scheduled TIMER(5000)");
}

/* It takes ranks along, and on which nodes the job goes on is not decided here. */
static void a_lost_node_ends_the_wait(void **state)
{
    (void)state;
    killed(1, 1, 9);
    line(1, 0, DETACHED);
    expect(lost(), "node_lost SIGNAL(15) TIMER(3000)");
    expect(exited(1, 0, 74), "rank_exited generation_ended TIMER(-1) CLEANUP(1)");
    expect(field("cause"), "\"rank_crash\"");
    cleaned(true);
    expect(cleaned(true), "attempt_ended FINISH");
    expect(field("cause"), "\"node_lost\"");
}

static void a_stop_ends_the_wait(void **state)
{
    (void)state;
    killed(1, 1, 9);
    line(1, 0, DETACHED);
    expect(stop(2000, true), "stop_asked CONTROL(stop) SIGNAL(15) TIMER(2000)");
    exited(1, 0, 74);
    exited(1, 2, 75);
    cleaned(true);
    expect(cleaned(true), "attempt_ended FINISH");
    expect(field("result"), "\"stopped\"");
}

/* The first ranks that are stopped leave the others alone: that is no failure. */
static void the_loss_of_a_stopped_rank_is_no_failure(void **state)
{
    (void)state;
    stop(2000, true);
    exited(1, 0, 75);
    line(1, 2, DETACHED);
    exited(1, 1, 75);
    expect(exited(1, 2, 75), "rank_exited generation_ended TIMER(-1) CLEANUP(1)");
    expect(field("cause"), "\"none\"");
}

static void other_failures_need_new_processes(void **state)
{
    (void)state;
    expect(exited(1, 1, 72), "rank_exited REPORT(1) SIGNAL(15) TIMER(3000)"); /* GPU memory */
}

#define PART(f) cmocka_unit_test_setup_teardown(f, up_and_running, down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        PART(who_lives_is_kept),
        PART(all_may_have_parted_before_the_news_of_the_death),
        PART(nobody_died),
        PART(who_does_not_part_is_stopped_with_the_others),
        PART(one_alone_has_parted),
        PART(a_back_off_ends_the_processes),
        PART(a_lost_node_ends_the_wait),
        PART(a_stop_ends_the_wait),
        PART(the_loss_of_a_stopped_rank_is_no_failure),
        PART(other_failures_need_new_processes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
