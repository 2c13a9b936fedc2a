/* SPDX-License-Identifier: Apache-2.0 */
/* test_agent_core_nodes.c - the agent's decisions: a node of several is lost, in every phase */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/contract/exit_code.h"
#include "tests/unit/agent/core/agent_core_fixture.h"

static void over(const char *cause, const char *result)
{
    expect(cleaned(true), "attempt_ended FINISH");
    expect(field("cause"), cause);
    expect(field("result"), result);
}

static void running(void)
{
    launch(4, true, false);
    spawned(1);
    line(1, 0, "{\"ev\":\"started\",\"resume_step\":0,\"steps\":40}");
    line(1, 0, "{\"ev\":\"step\",\"step\":3,\"steps\":40,\"loss\":0.5}");
}

static void its_ranks_go_with_it_and_the_others_are_stopped(void **state)
{
    (void)state;
    running();
    expect(lost(), "node_lost REPORT(1) SIGNAL(15) TIMER(3000)");
    expect(field("name"), "\"n1\"");
    expect(exited(1, 0, EXIT_COLLECTIVE), "rank_exited");
    expect(killed(1, 1, 9), "rank_exited generation_ended TIMER(-1) CLEANUP(1)");
    expect(field("cause"), "\"node_lost\"");
    expect(field("rank"), "2");
    expect(field("text"), "\"n1 sent no heartbeat for 22 s\"");
    /* not again here: the nodes are not for this agent to choose */
    expect(cleaned(true), "CLEANUP(0)");
    over("\"node_lost\"", "\"failed\"");
    expect(field("retry_helps"), "true");
    expect(field("gave_up"), "false");
    expect(field("text"), "\"n1 sent no heartbeat for 22 s\"");
}

/* The first to notice are the ranks of other nodes: their connections break. */
static void what_others_say_before_is_an_echo(void **state)
{
    (void)state;
    running();
    expect(exited(1, 0, EXIT_COLLECTIVE), "rank_exited REPORT(1) SIGNAL(15) TIMER(3000)");
    expect(exited(1, 1, EXIT_ABORTED), "rank_exited");
    expect(timer(now + 3000), "SIGNAL(9) TIMER(1000)"); /* two that nobody hears of */
    expect(lost(), "node_lost generation_ended TIMER(-1) CLEANUP(1)");
    expect(field("cause"), "\"node_lost\"");
    cleaned(true);
    over("\"node_lost\"", "\"failed\"");
}

static void a_rank_that_crashed_before_stays_the_cause_of_the_generation(void **state)
{
    (void)state;
    running();
    killed(1, 1, 11);
    exited(1, 0, EXIT_ABORTED);
    expect(lost(), "node_lost generation_ended TIMER(-1) CLEANUP(1)");
    expect(field("cause"), "\"rank_crash\"");
    cleaned(true);
    over("\"node_lost\"", "\"failed\""); /* but the attempt ends, for want of the node */
}

static void who_seemed_to_hang_may_have_waited_for_it(void **state)
{
    (void)state;
    running();
    hang(1, 2, false);
    lost();
    exited(1, 0, EXIT_ABORTED);
    exited(1, 1, EXIT_ABORTED);
    expect(field("cause"), "\"node_lost\"");
}

static void nobody_is_waited_for_when_all_ranks_are_gone(void **state)
{
    (void)state;
    running();
    for (int r = 0; r < 4; r++)
        exited(1, r, EXIT_COLLECTIVE);
    expect(field("cause"), "\"nccl_error\"");
    expect(lost(), "node_lost");
    expect(cleaned(true), "CLEANUP(0)");
    over("\"node_lost\"", "\"failed\"");
}

static void a_complete_run_has_lost_nothing(void **state)
{
    (void)state;
    running();
    line(1, 0, "{\"ev\":\"done\",\"step\":40}");
    exited(1, 0, 0);
    exited(1, 1, 0);
    expect(lost(), "node_lost generation_ended CLEANUP(1)");
    expect(field("cause"), "\"none\"");
    cleaned(true);
    over("\"none\"", "\"succeeded\"");
}

static void asked_to_stop_it_stops(void **state)
{
    (void)state;
    running();
    stop(8000, true);
    lost();
    exited(1, 0, EXIT_ABORTED);
    expect(exited(1, 1, EXIT_ABORTED), "rank_exited generation_ended TIMER(-1) CLEANUP(1)");
    cleaned(true);
    over("\"node_lost\"", "\"stopped\"");
}

static void while_ranks_are_being_started(void **state)
{
    (void)state;
    expect(launch(4, true, false), "SPAWN(1,-1)");
    expect(lost(), "node_lost generation_ended CLEANUP(1)");
    expect(spawned(1), "");
    expect(exited(1, 0, 1), "");
    expect(cleaned(true), "CLEANUP(0)");
    over("\"node_lost\"", "\"failed\"");
}

static void during_the_setup(void **state)
{
    (void)state;
    expect(launch(4, true, true), "setup_started SETUP");
    expect(lost(), "node_lost CLEANUP(0)");
    over("\"node_lost\"", "\"failed\"");
    expect(lost(), "");
}

static void during_a_back_off(void **state)
{
    (void)state;
    launch(4, true, false);
    for (int g = 1; g < 3; g++) {
        spawned(g);
        for (int r = 0; r < 4; r++)
            exited(g, r, g + 2);
        cleaned(true);
    }
    expect(lost(), "node_lost TIMER(-1) CLEANUP(0)");
    over("\"node_lost\"", "\"failed\"");
}

static void the_setup_of_a_node_is_named(void **state)
{
    (void)state;
    feed((struct agent_input){.kind = INPUT_LAUNCH, .launch = {.np = 4, .has_setup = true}});
    feed((struct agent_input){
        .kind = INPUT_SETUP_EXITED,
        .exited = {.rank = 1, .exit_code = 4, .node = "n1", .last_lines = "no such module\n"}});
    cleaned(true);
    expect(field("text"), "\"the setup on n1 exited with code 4: no such module\"");
}

static void a_node_that_never_came(void **state)
{
    (void)state;
    const struct agent_lost missing = {
        .node = 3, .name = "n3", .text = "n3 did not connect within 60 s", .first_rank = -1};
    const struct agent_launch job = {.missing = &missing,
                                     .budget = {10, 5000, 300000, 3},
                                     .history = {2, 0, 7, ""}};
    expect(feed((struct agent_input){.kind = INPUT_LAUNCH, .launch = job}), "node_lost CLEANUP(0)");
    over("\"node_lost\"", "\"failed\"");
    expect(field("text"), "\"n3 did not connect within 60 s\"");
    expect(field("retry_helps"), "true");
    expect(field("failures_without_progress"), "3"); /* those of earlier attempts are not forgotten */
}

static const char *lease_lost(void)
{
    return feed((struct agent_input){
        .kind = INPUT_NODE_LOST,
        .lost = {.lease = true, .node = -1, .name = "", .text = "/c was taken over", .first_rank = -1}});
}

/* What its ranks would write counts no more: they are killed, and the attempt ends. */
static void the_lease_is_lost(void **state)
{
    (void)state;
    running();
    expect(lease_lost(), "warning REPORT(1) SIGNAL(15) TIMER(3000) SIGNAL(15) TIMER(0)");
    expect(timer(now), "SIGNAL(9) TIMER(1000)");
    for (int r = 0; r < 4; r++)
        killed(1, r, 9);
    expect(cleaned(true), "CLEANUP(0)");
    over("\"dir_in_use\"", "\"failed\"");
    expect(field("retry_helps"), "true");
    expect(field("text"), "\"/c was taken over\"");
}

/* A rank was first to find it (exit code 81): no restart of this attempt. */
static void a_rank_finds_the_fence(void **state)
{
    (void)state;
    running();
    for (int r = 0; r < 4; r++)
        exited(1, r, EXIT_DIR_IN_USE);
    expect(cleaned(true), "CLEANUP(0)");
    over("\"dir_in_use\"", "\"failed\"");
    expect(field("gave_up"), "false");
}

static void the_lease_is_lost_before_a_restart(void **state)
{
    (void)state;
    running();
    for (int r = 0; r < 4; r++)
        killed(1, r, 9);
    lease_lost();
    expect(cleaned(true), "CLEANUP(0)");
    over("\"dir_in_use\"", "\"failed\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(its_ranks_go_with_it_and_the_others_are_stopped),
        TEST(what_others_say_before_is_an_echo),
        TEST(a_rank_that_crashed_before_stays_the_cause_of_the_generation),
        TEST(who_seemed_to_hang_may_have_waited_for_it),
        TEST(nobody_is_waited_for_when_all_ranks_are_gone),
        TEST(a_complete_run_has_lost_nothing),
        TEST(asked_to_stop_it_stops),
        TEST(while_ranks_are_being_started),
        TEST(during_the_setup),
        TEST(during_a_back_off),
        TEST(the_lease_is_lost),
        TEST(a_rank_finds_the_fence),
        TEST(the_lease_is_lost_before_a_restart),
        TEST(the_setup_of_a_node_is_named),
        TEST(a_node_that_never_came),
    };
    return cmocka_run_group_tests_name("agent_core_nodes", tests, NULL, NULL);
}
