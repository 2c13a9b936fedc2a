/* SPDX-License-Identifier: Apache-2.0 */
/* test_leader_lost.c - followers that die, hang or cannot be reached, and a leader that is gone
 * */
#include "tests/process/agent/nodes/leader_fixture.h"

static const char forever[] = "echo '{\"ev\":\"up\"}' >&$JOBCTL_EVENT_FD; exec sleep 1000";

static void a_member_that_dies_is_lost(void **state)
{
    (void)state;
    begin(forever);
    AWAIT(lines, RANKS);
    kill(followers[2], SIGKILL);
    leader_cleanup(leader, 1); /* nothing waits for it */
    AWAIT(cleaned, 1);
    assert_int_equal(t.losses, 1);
    assert_int_equal(t.lost_node, 2);
    assert_non_null(strstr(t.lost, "n2 sent no heartbeat for 3 s"));
    await_nobody(2); /* ranks do not outlive their agent */
    spawn_some(2);
    assert_string_equal(t.spawn_text, "n2 is lost");
    assert_int_equal(t.losses, 1);
}

/* Somebody else has the proof: its time is not waited for, and it is told once. */
static void a_member_that_is_proven_gone_is_lost_at_once(void **state)
{
    (void)state;
    begin(forever);
    AWAIT(lines, RANKS);
    kill(followers[2], SIGKILL);
    leader_node_gone(leader, 2, "is gone: its agent died");
    assert_int_equal(t.losses, 0); /* from the loop only */
    AWAIT(losses, 1);
    assert_string_equal(t.lost, "n2 is gone: its agent died");
    leader_node_gone(leader, 2, "is gone: its agent died");
    leader_node_gone(leader, 0, "is nobody's business");
    leader_node_gone(leader, 3, "is not there");
    leader_cleanup(leader, 1);
    AWAIT(cleaned, 1);
    assert_int_equal(t.losses, 1);
}

static void a_member_that_stood_still_ends_what_it_has(void **state)
{
    (void)state;
    begin(forever);
    AWAIT(lines, RANKS);
    kill(followers[2], SIGSTOP);
    AWAIT(losses, 1);
    assert_int_equal(t.lost_node, 2);
    assert_int_equal(living(2), EACH);
    kill(followers[2], SIGCONT);
    assert_int_equal(await_follower(2), 0);
    assert_int_equal(living(2), 0);
    assert_int_equal(living(1), EACH); /* the other node's go on */
}

static void members_without_a_head_end_what_they_have(void **state)
{
    (void)state;
    begin("trap '' TERM; echo '{\"ev\":\"up\"}' >&$JOBCTL_EVENT_FD; while :; do sleep 1; done");
    AWAIT(lines, RANKS);
    leader_close(leader);
    proxy_break(&wires[1]);
    proxy_break(&wires[2]);
    assert_int_equal(await_follower(1), 0);
    assert_int_equal(await_follower(2), 0);
    assert_int_equal(living(1) + living(2), 0);
}

static void three_seconds_without_a_wire_are_no_loss(void **state)
{
    (void)state;
    begin("trap 'exit 7' TERM; echo '{\"ev\":\"up\"}' >&$JOBCTL_EVENT_FD\n"
          "while :; do sleep 0.02; done\n");
    AWAIT(lines, RANKS);
    wires[1].cut = wires[2].cut = true;
    leader_signal(leader, SIGTERM);
    run_until(NULL, 0, 3000);
    assert_int_equal(t.exits, 1); /* that of this node */
    wires[1].cut = wires[2].cut = false;
    AWAIT(exits, RANKS);
    run_until(NULL, 0, 300);
    assert_int_equal(t.exits, RANKS);
    assert_int_equal(t.losses, 0);
    assert_int_equal(t.exited[RANKS - 1].exit_code, 7);
}

static void a_wire_cut_for_ever_is_a_loss_on_both_sides(void **state)
{
    (void)state;
    begin(forever);
    AWAIT(lines, RANKS);
    wires[1].cut = true;
    assert_int_equal(await_follower(1), 0);
    assert_int_equal(living(1), 0);
    assert_int_equal(living(2), EACH);
    AWAIT(losses, 1);
    assert_int_equal(t.lost_node, 1);
}

static void who_never_comes_is_named(void **state)
{
    struct err err = {0};
    (void)state;
    leader_close(leader);
    uv_run(&loop, UV_RUN_NOWAIT);
    leader_destroy(leader);
    json_t *names = json_pack("[s, s]", "n0", "n1");
    const struct leader_options o = {.job = 7, .attempt = 1, .nonce = nonce, .nodes = 2,
                                     .names = names, .version = "1", .join_ms = 500};
    assert_int_equal(leader_create(&leader, &loop, local, &hooks, &err), 0);
    assert_int_equal(leader_gather(leader, &o, &err), 0);
    json_decref(names);
    AWAIT(gathered, 1);
    assert_string_equal(t.order, "Lg");
    assert_non_null(strstr(t.lost, "n1 did not connect within"));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        QUICK(a_member_that_dies_is_lost),
        QUICK(a_member_that_is_proven_gone_is_lost_at_once),
        QUICK(a_member_that_stood_still_ends_what_it_has),
        QUICK(members_without_a_head_end_what_they_have),
        LEADER_TEST(three_seconds_without_a_wire_are_no_loss),
        QUICK(a_wire_cut_for_ever_is_a_loss_on_both_sides),
        LEADER_TEST(who_never_comes_is_named),
    };
    if (argc != 1 || be_marked(argv) < 0 || draw_nonce() < 0)
        return 1;
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests_name("crew_lost", tests, NULL, NULL);
}
