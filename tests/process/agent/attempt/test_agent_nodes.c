/* SPDX-License-Identifier: Apache-2.0 */
/* test_agent_nodes.c - two real agents as one attempt: the first speaks for both; see
 * agent/nodes/leader.h
 *
 * The test is the controller: it launches the first, receives its endpoint, and passes it to the other.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <sched.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "tests/process/agent/attempt/agent_fixture.h"
#include "tests/unit/engine/contract/scratch_dir.h"

enum { NODES = 2 };

static char dirs[NODES][100];
static struct peer peers[NODES];

static void at(int node)
{
    memcpy(dir, dirs[node], sizeof(dir));
}

static int up_both(void **state)
{
    (void)state;
    unsetenv("JOBCTL_JOIN_S");
    int rc = 0;
    for (int k = 0; k < NODES && rc == 0; k++) {
        make_place();
        memcpy(dirs[k], dir, sizeof(dir));
        peers[k] = (struct peer){.fd = -1};
        rc = start_agent();
    }
    return rc;
}

/* Only where a node is to be lost: on a loaded machine others would be, too. */
static int up_impatient(void **state)
{
    setenv("JOBCTL_NODE_LOST_S", "1.5", 1);
    int rc = up_both(state);
    unsetenv("JOBCTL_NODE_LOST_S");
    return rc;
}

static int down_both(void **state)
{
    int left = 0;
    for (int k = 0; k < NODES; k++) {
        if (peers[k].fd >= 0)
            hang_up(&peers[k]);
        at(k);
        left += down(state);
    }
    return left;
}

static json_t *group_of(int node, const json_t *door)
{
    json_t *group = json_pack("{s:i, s:i, s:[s, s]}", "node", node, "nodes", NODES, "names", "n0",
                              "n1");
    if (door)
        json_object_set_new(group, "endpoint", json_deep_copy(door));
    return group;
}

static void launch_node(int node, const char *run, const char *setup, const json_t *door)
{
    json_t *spec = json_pack("{s:s, s:{s:i, s:i, s:i}, s:s*}", "run", run, "resources", "nodes", NODES,
                             "ranks", 2, "gpus", 0, "setup", setup);
    at(node);
    dial(&peers[node]);
    launch_group(&peers[node], spec, group_of(node, door));
}

/* The door that the first node shows, for json_decref(). */
static json_t *door_of(struct peer *p)
{
    for (;;) {
        enum wire_message number;
        json_t *body = receive(p, &number);
        assert_non_null(body);
        if (number == WIRE_EVENT)
            p->seq = integer(body, "seq");
        if (number == WIRE_LISTENING) {
            json_t *door = json_incref(json_object_get(body, "endpoint"));
            json_decref(body);
            return door;
        }
        json_decref(body);
    }
}

static struct peer *launch_both(const char *run, const char *setup)
{
    launch_node(0, run, setup, NULL);
    json_t *door = door_of(&peers[0]);
    assert_true(json_array_size(json_object_get(door, "addresses")) > 0);
    assert_int_equal(strlen(text(door, "key")), 64);
    launch_node(1, run, setup, door);
    json_decref(door);
    return &peers[0];
}

static void write_file(const char *name, const char *what)
{
    char path[200];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    fputs(what, f);
    assert_int_equal(fclose(f), 0);
}

static void has(int node, const char *name, const char *what)
{
    char log[8192];
    at(node);
    read_file(name, log, sizeof(log));
    if (!strstr(log, what))
        fail_msg("'%s' is not in %s of node %d: %s", what, name, node, log);
}

static void both_leave(void)
{
    ack(&peers[0]);
    for (int k = 0; k < NODES; k++) {
        at(k);
        expect_gone();
    }
}

static void all_ranks_are_one_generation(void **state)
{
    (void)state;
    struct peer *p = launch_both("echo \"$RANK $LOCAL_RANK $NODE_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE "
                                 "$JOBCTL_NODE_RANKS\"", "true");
    const json_t *nodes = json_object_get(await(p, "nodes"), "nodes");
    assert_int_equal(json_array_size(nodes), NODES);
    assert_string_equal(text(json_array_get(nodes, 1), "name"), "n1");
    assert_int_equal(integer(json_array_get(nodes, 1), "first_rank"), 2);
    const json_t *plan = await(p, "plan");
    assert_int_equal(integer(plan, "np"), 4);
    assert_int_equal(integer(plan, "nodes"), 2);
    await(p, "setup_done");
    const json_t *started = await(p, "generation_started");
    assert_int_equal(integer(started, "np"), 4);
    assert_int_equal(json_array_size(json_object_get(started, "pids")), 4);
    assert_string_equal(text(await(p, "attempt_ended"), "result"), "succeeded");
    both_leave();
    has(0, "rank1.log", "1 1 0 4 2 2,2");
    has(1, "rank2.log", "2 0 1 4 2 2,2");
    has(1, "rank3.log", "3 1 1 4 2 2,2");
}

static void a_rank_of_another_node_is_named_and_all_start_again(void **state)
{
    (void)state;
    struct peer *p = launch_both("[ $JOBCTL_GENERATION = 2 ] || { [ $RANK = 3 ] && exit 5; sleep 1000; }", NULL);
    const json_t *ended = await(p, "generation_ended");
    assert_string_equal(text(ended, "cause"), "user_exit");
    assert_string_equal(text(ended, "text"), "rank 3 on n1 exited with code 5; no reason was printed");
    assert_int_equal(integer(ended, "rank"), 3);
    await(p, "restart_scheduled");
    assert_int_equal(integer(await(p, "generation_started"), "generation"), 2);
    assert_string_equal(text(await(p, "attempt_ended"), "result"), "succeeded");
    both_leave();
}

/* The agent has ended, and its guardian, which holds the lock with it. */
static void await_end(void)
{
    int lock;
    while (agent_pid() || (lock = run_dir_lock(dir, NULL)) < 0)
        poll(NULL, 0, 5);
    close(lock);
}

static void a_node_that_is_lost_is_named(void **state)
{
    (void)state;
    struct peer *p = launch_both("sleep 1000", NULL);
    await(p, "generation_started");
    at(1);
    kill((pid_t)agent_pid(), SIGKILL);
    const json_t *lost = await(p, "node_lost");
    assert_string_equal(text(lost, "name"), "n1");
    assert_true(strncmp(text(lost, "text"), "n1 ", 3) == 0);
    const json_t *ended = await(p, "attempt_ended");
    assert_string_equal(text(ended, "cause"), "node_lost");
    assert_true(strncmp(text(ended, "text"), "n1 ", 3) == 0);
    assert_true(json_is_true(json_object_get(ended, "retry_helps")));
    ack(p);
    at(0);
    expect_gone();
}

static void a_node_that_does_not_come_is_named(void **state)
{
    (void)state;
    at(0);
    kill((pid_t)agent_pid(), SIGKILL); /* one that is more impatient */
    await_end();
    setenv("JOBCTL_JOIN_S", "1", 1);
    assert_int_equal(start_agent(), 0);
    launch_node(0, "sleep 1000", NULL, NULL);
    assert_string_equal(text(await(&peers[0], "node_lost"), "name"), "n1");
    const json_t *ended = await(&peers[0], "attempt_ended");
    assert_string_equal(text(ended, "cause"), "node_lost");
    assert_int_equal(integer(ended, "failures_without_progress"), 1);
    ack(&peers[0]);
    expect_gone();
}

/* The controller has the proof, or could not start it: nobody waits for a limit. */
static void who_is_told_to_be_gone_is_not_waited_for(void **state)
{
    (void)state;
    launch_node(0, "sleep 1000", NULL, NULL);
    json_decref(door_of(&peers[0]));
    send_to(&peers[0], WIRE_NODE_GONE, json_pack("{s:i, s:s}", "node", 1, "text",
                                                 "cannot be used: it has another key"));
    const json_t *lost = await(&peers[0], "node_lost");
    assert_string_equal(text(lost, "name"), "n1");
    assert_string_equal(text(lost, "text"), "n1 cannot be used: it has another key");
    assert_string_equal(text(await(&peers[0], "attempt_ended"), "cause"), "node_lost");
    ack(&peers[0]);
    at(0);
    expect_gone();
}

/* The machine of the other node is taken away: all save and stop, for that reason. */
static void a_notice_to_another_node_stops_all(void **state)
{
    (void)state;
    struct peer *p = launch_both("sleep 1000", NULL);
    await(p, "generation_started");
    at(1);
    write_file("notice", "3000");
    assert_string_equal(text(await(p, "stop_asked"), "reason"),
                        "n1: the machine shuts down soon");
    const json_t *ended = await(p, "attempt_ended");
    assert_string_equal(text(ended, "cause"), "preempted");
    assert_non_null(strstr(text(ended, "text"), "n1: the machine shuts down soon"));
    both_leave();
}

/* And where it is known before when: a checkpoint in time, and all ranks know the moment. */
static void the_first_end_of_a_machine_counts_for_all(void **state)
{
    char end[24];
    (void)state;
    at(1);
    kill((pid_t)agent_pid(), SIGKILL);
    await_end();
    /* the last notice comes 60 s before the end: time enough for a busy machine to start */
    snprintf(end, sizeof(end), "%lld", (long long)time(NULL) + 67);
    setenv("SLURM_JOB_ID", "1", 1);
    setenv("SLURM_JOB_END_TIME", end, 1);
    assert_int_equal(start_agent(), 0);
    unsetenv("SLURM_JOB_ID");
    unsetenv("SLURM_JOB_END_TIME");
    struct peer *p = launch_both("echo ends at $JOBCTL_DEADLINE; sleep 1000", NULL);
    const json_t *deadline = await(p, "deadline");
    assert_int_equal(integer(deadline, "ends_at_s"), atoll(end));
    assert_true(strncmp(text(deadline, "text"), "n1 ends in ", 11) == 0);
    send_to(p, WIRE_STOP, json_pack("{s:s, s:i, s:b}", "reason", "enough", "grace_ms", 100,
                                    "checkpoint", 0));
    await(p, "attempt_ended");
    both_leave();
    has(0, "rank0.log", end);
    has(1, "rank3.log", end);
}

static void the_setup_of_another_node_fails(void **state)
{
    (void)state;
    struct peer *p = launch_both("true", "test ${PWD##*.} = ${JOBCTL_RUN_DIR##*.} || { echo no room; exit 3; }");
    const json_t *done = await(p, "setup_done");
    assert_int_equal(integer(done, "exit_code"), 3);
    assert_non_null(strstr(text(await(p, "restart_scheduled"), "text"), "the setup on n1 exited with "
                                                                         "code 3: no room"));
    send_to(p, WIRE_STOP, json_pack("{s:s, s:i, s:b}", "reason", "enough", "grace_ms", 100,
                                    "checkpoint", 0));
    assert_string_equal(text(await(p, "attempt_ended"), "result"), "stopped");
    both_leave();
}

static void a_stop_ends_all(void **state)
{
    (void)state;
    struct peer *p = launch_both("sleep 1000", NULL);
    await(p, "generation_started");
    send_to(p, WIRE_STOP, json_pack("{s:s, s:i, s:b}", "reason", "enough", "grace_ms", 5000,
                                    "checkpoint", 0));
    assert_string_equal(text(await(p, "attempt_ended"), "result"), "stopped");
    both_leave();
}

/* --- leases: each node is a machine of its own -------------------------------------------- */

enum { SLOTS = 64 };

static char machines[NODES][160];
static int slots[NODES][SLOTS], nslots;

static int up_leases(void **state)
{
    cpu_set_t set;
    int rc = 0;
    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof(set), &set), 0);
    for (int k = 0; k < NODES && rc == 0; k++) {
        char path[400];
        scratch_dir_create(machines[k], sizeof(machines[k]), "machine");
        assert_int_equal(chmod(machines[k], 01777), 0);
        nslots = 0;
        for (int c = 0; c < CPU_SETSIZE && nslots < SLOTS; c++) {
            if (!CPU_ISSET(c, &set))
                continue;
            snprintf(path, sizeof(path), "%s/cpu-%d", machines[k], c);
            slots[k][nslots] = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
            assert_true(slots[k][nslots] >= 0 && fchmod(slots[k][nslots], 0666) == 0);
            nslots++;
        }
        make_place();
        memcpy(dirs[k], dir, sizeof(dir));
        peers[k] = (struct peer){.fd = -1};
        setenv("JOBCTL_MACHINE_DIR", machines[k], 1);
        rc = start_agent();
    }
    setenv("JOBCTL_MACHINE_DIR", "none", 1);
    return rc;
}

static int down_leases(void **state)
{
    for (int k = 0; k < NODES; k++) {
        for (int i = 0; i < nslots; i++)
            close(slots[k][i]);
        scratch_dir_remove(machines[k]);
    }
    return down_both(state);
}

/* How many slots of a node's machine could be locked now; they are kept only if `keep`. */
static int lock_slots(int node, bool keep)
{
    int n = 0;
    for (int i = 0; i < nslots; i++) {
        if (flock(slots[node][i], LOCK_EX | LOCK_NB) < 0)
            continue;
        n++;
        if (!keep)
            flock(slots[node][i], LOCK_UN);
    }
    return n;
}

/* The guardian of an agent ends after it. */
static void all_are_given_back(int node)
{
    for (int i = 0; i < 6000 && lock_slots(node, false) < nslots; i++)
        poll(NULL, 0, 5);
    assert_int_equal(lock_slots(node, false), nslots);
}

static void leases_of_all_nodes_are_taken_before_the_plan(void **state)
{
    (void)state;
    assert_int_equal(lock_slots(1, true), nslots);
    struct peer *p = launch_both("sleep 0.2", NULL);
    const json_t *lease = await(p, "lease");
    assert_false(json_is_true(json_object_get(lease, "over")));
    if (strncmp(text(lease, "text"), "n1: waiting for ", 16) != 0)
        fail_msg("%s", text(lease, "text"));
    for (int i = 0; i < nslots; i++)
        flock(slots[1][i], LOCK_UN);
    lease = await(p, "lease");
    assert_true(json_is_true(json_object_get(lease, "over")));
    await(p, "generation_started");
    const int want = nslots < 2 ? nslots : 2;       /* two ranks on each */
    for (int k = 0; k < NODES; k++)
        assert_int_equal(lock_slots(k, false), nslots - want);
    assert_string_equal(text(await(p, "attempt_ended"), "result"), "succeeded");
    both_leave();
    for (int k = 0; k < NODES; k++)
        all_are_given_back(k);
}

/* Which one is asked first depends on the names of their directories. */
static void a_stopped_attempt_gives_back_what_it_has(void **state)
{
    (void)state;
    const int last = strcmp(machines[0], machines[1]) < 0 ? 1 : 0;
    char begin[40];
    assert_int_equal(lock_slots(last, true), nslots);
    struct peer *p = launch_both("true", NULL);
    const json_t *lease = await(p, "lease");
    snprintf(begin, sizeof(begin), "n%d: waiting for ", last);
    if (strncmp(text(lease, "text"), begin, strlen(begin)) != 0)
        fail_msg("%s", text(lease, "text"));
    assert_int_equal(lock_slots(!last, false), nslots - (nslots < 2 ? nslots : 2));     /* held meanwhile */
    send_to(p, WIRE_STOP, json_pack("{s:s, s:i, s:b}", "reason", "enough", "grace_ms", 100, "checkpoint", 0));
    await(p, "attempt_ended");
    both_leave();
    all_are_given_back(!last);
}

#define BOTH(f) cmocka_unit_test_setup_teardown(f, up_both, down_both)

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(all_ranks_are_one_generation),
        BOTH(a_rank_of_another_node_is_named_and_all_start_again),
        cmocka_unit_test_setup_teardown(a_node_that_is_lost_is_named, up_impatient, down_both),
        cmocka_unit_test_setup_teardown(leases_of_all_nodes_are_taken_before_the_plan, up_leases, down_leases),
        cmocka_unit_test_setup_teardown(a_stopped_attempt_gives_back_what_it_has, up_leases, down_leases),
        BOTH(a_node_that_does_not_come_is_named),
        BOTH(who_is_told_to_be_gone_is_not_waited_for),
        BOTH(a_notice_to_another_node_stops_all),
        BOTH(the_first_end_of_a_machine_counts_for_all),
        BOTH(the_setup_of_another_node_fails),
        BOTH(a_stop_ends_all),
    };
    return draw_nonce() < 0 ? 1 : cmocka_run_group_tests_name("agent_nodes", tests, NULL, NULL);
}
