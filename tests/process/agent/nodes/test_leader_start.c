/* SPDX-License-Identifier: Apache-2.0 */
/* test_leader_start.c - a leader of two nodes: real processes on the first, and a channel to the second whose messages
 * the test sends; and a leader of one node
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/core/agent_core.h"
#include "agent/monitor/page_feed.h"
#include "agent/nodes/follower.h"
#include "agent/nodes/leader.h"
#include "agent/nodes/node_channel.h"
#include "engine/base/buf.h"
#include "agent/ranks/launch_env.h"
#include "agent/ranks/snapshot_memfds.h"
#include "agent/wire/leader_wire.h"
#include "engine/base/err.h"
#include "engine/contract/flight.h"
#include "tests/process/agent/nodes/second_node.h"

/* --- what the leader tells ------------------------------------------------------------------- */

static uv_loop_t loop;
static struct leader *leader;
static struct follower *local;
static json_t *facts;
static struct buf told;
static char dir[100];
static char nonce[33]; /* drawn: two runs of this test must not end each other's processes */
static int exits;
static bool keeps; /* memory that outlives ranks */

static void on_started(void *arg, const struct leader_started *s)
{
    (void)arg;
    buf_print(&told, "started %d%s%s ", s->generation, s->text ? ": " : "", s->text ? s->text : "");
    if (!s->text && s->generation > 0) {
        assert_true(s->pids[0] > 0 && s->pids[1] > 0);
        assert_true(leader_ranks(leader) == 2 || (s->pids[2] == 1002 && s->pids[3] == 1003));
    }
}

static void on_exited(void *arg, const struct agent_exit *e)
{
    (void)arg;
    exits++;
    buf_print(&told, "exit %d.%d on %s: %d %s ", e->generation, e->rank, e->node ? e->node : "it",
              e->signalled ? -e->signo : e->exit_code, e->last_lines ? e->last_lines : "");
}

static void on_line(void *arg, int generation, int rank, const json_t *line, const json_t *spent)
{
    (void)arg;
    (void)spent;
    buf_print(&told, "line %d.%d %s ", generation, rank, json_string_value(json_object_get(line, "ev")));
}

static void on_output(void *arg, int rank, const char *bytes, size_t size)
{
    (void)arg;
    (void)rank;
    (void)bytes;
    (void)size;
}

static void on_swept(void *arg, bool clean, const char *left)
{
    (void)arg;
    buf_print(&told, "swept %d %s ", clean, left);
}

static void on_gathered(void *arg)
{
    (void)arg;
    buf_print(&told, "gathered ");
}

static void on_stacks(void *arg, int node, const char *text)
{
    (void)arg;
    buf_print(&told, "stacks of %d: %s ", node, text);
}

static void on_stacks_done(void *arg)
{
    (void)arg;
    buf_print(&told, "stacks done ");
}

static void on_lost(void *arg, const struct agent_lost *l)
{
    (void)arg;
    buf_print(&told, "lost %s %d+%d: %s ", l->name, l->first_rank, l->ranks, l->text);
}

static const char *said(void)
{
    return told.data ? told.data : "";
}

static const char *heard(void)
{
    return asked.data ? asked.data : "";
}

static void run_until(const char *text)
{
    for (int i = 0; i < 30000 && !strstr(said(), text); i++) {
        uv_run(&loop, UV_RUN_NOWAIT);
        usleep(2000);
    }
    if (!strstr(said(), text))
        fail_msg("'%s' was not told, but: %s", text, said());
}

static void run_for(int ms)
{
    for (int i = 0; i < ms / 2; i++) {
        uv_run(&loop, UV_RUN_NOWAIT);
        usleep(2000);
    }
}

/* The script is that of each rank, and of the setup. */
static void prepare_here(const char *script, json_t *plan)
{
    struct err err = {0};
    json_t *preflight = NULL;
    json_t *spec = json_pack("{s:s, s:s, s:s}", "run", script, "setup", script, "workdir", dir);
    json_t *launch = json_pack("{s:s, s:s, s:{}}", "name", "x", "ckpt_dir", dir, "secrets");
    if (follower_prepare(local, spec, launch, &preflight, &err) < 0 ||
        leader_place(leader, plan, &err) < 0)
        fail_msg("%s", err.text);
    follower_set_plan(local, plan);
    json_decref(preflight);
    json_decref(launch);
    json_decref(spec);
    json_decref(plan);
}

/* Two ranks on each of two nodes. */
static void prepare(const char *script)
{
    struct err err = {0};
    json_t *names = json_pack("[s, s]", "n0", "n1");
    const struct leader_options o = {.job = 7, .attempt = 1, .nonce = nonce, .nodes = 2, .names = names,
                                     .version = "1"};
    if (leader_gather(leader, &o, &err) < 0)
        fail_msg("%s", err.text);
    json_decref(names);
    say(NODE_JOIN, json_pack("{s:s, s:s, s:{}, s:s}", "name", "n1", "version", "1", "facts", "address",
                             "10.0.0.2"));
    run_until("gathered ");
    buf_clear(&told);
    prepare_here(script, json_pack("{s:i, s:b, s:[{s:i},{s:i},{s:i},{s:i}]}", "np", 4, "engine", keeps,
                                   "ranks", "node", 0, "node", 0, "node", 1, "node", 1));
}

static void start(int generation)
{
    const struct launch_env e = {.generation = generation, .resume_step = -1, .skip_step = -1};
    leader_start(leader, &e);
}

static int up(void **state)
{
    (void)state;
    const char *tmp = getenv("TMPDIR");
    const struct leader_hooks hooks = {.started = on_started,
                                       .exited = on_exited,
                                       .line = on_line,
                                       .output = on_output,
                                       .cleaned = on_swept,
                                       .stacks = on_stacks,
                                       .stacks_done = on_stacks_done,
                                       .gathered = on_gathered,
                                       .lost = on_lost};
    exits = 0;
    facts = json_object();
    snprintf(dir, sizeof(dir), "%.60s/leader.XXXXXX", tmp ? tmp : "/tmp");
    uv_loop_init(&loop);
    const struct follower_options o = {.job = 7, .attempt = 1, .nonce = nonce, .run_dir = dir,
                                       .train = "/bin/false", .tag = "7.1", .facts = facts};
    return mkdtemp(dir) && follower_create(&local, &loop, &o, NULL) == 0 &&
                   leader_create(&leader, &loop, local, &hooks, NULL) == 0
               ? 0
               : -1;
}

static int down(void **state)
{
    (void)state;
    char rm[140];
    leader_close(leader);
    follower_close(local);
    uv_run(&loop, UV_RUN_DEFAULT);
    leader_destroy(leader);
    follower_destroy(local);
    uv_loop_close(&loop);
    json_decref(facts);
    buf_fini(&told);
    buf_fini(&asked);
    snprintf(rm, sizeof(rm), "rm -rf '%s'", dir);
    return system(rm);
}

/* --- tests ----------------------------------------------------------------------------------- */

static void nothing_is_told_before_all_are_there(void **state)
{
    (void)state;
    prepare("echo '{\"ev\":\"warning\"}' >&$JOBCTL_EVENT_FD; exit $((4 + RANK))");
    start(1);
    run_for(300); /* the ranks here are long gone */
    assert_string_equal(said(), "");
    assert_string_equal(heard(), "spawn 1: 2+2 of 2,2 ");
    say_spawned(1, NULL);
    run_until("exit 1.1 on n0: 5");
    assert_true(strncmp(said(), "started 1 line 1.", 17) == 0);
    assert_non_null(strstr(said(), "exit 1.0 on n0: 4"));
    say_exit(1, 3, 9, NULL);
    assert_non_null(strstr(said(), "exit 1.3 on n1: 9"));
}

static void who_could_not_start_leaves_nothing_to_tell(void **state)
{
    (void)state;
    prepare("sleep 1000");
    start(1);
    run_for(100);
    say_spawned(1, "cannot fork");
    run_for(50);
    assert_string_equal(said(), ""); /* the others are undone first */
    assert_string_equal(heard(), "spawn 1: 2+2 of 2,2 signal 9 sweep 1 ");
    say_cleaned(1, true, "");
    run_until("started 1: n1: cannot fork ");
    buf_clear(&asked);
    leader_cleanup(leader, 1);
    run_for(50);
    assert_string_equal(said(), "started 1: n1: cannot fork "); /* n1 has not answered yet */
    say_cleaned(1, false, "77 (python3)");
    run_until("swept 0 n1: 77 (python3)");
    assert_int_equal(exits, 0);
}

/* What is resumed from is what both nodes have; the ranks of both start when that is known. */
static void memory_is_what_all_have(void **state)
{
    (void)state;
    keeps = true;
    prepare("sleep 1000");
    keeps = false;
    start(1);
    say_spawned(1, NULL);
    run_until("started 1");
    leader_signal(leader, SIGKILL);
    run_until("exit 1.1");
    buf_clear(&asked);
    start(2);
    run_for(50);
    assert_string_equal(heard(), "kept before 2 ");
    say_snapshots(3); /* not what was asked */
    run_for(50);
    assert_string_equal(heard(), "kept before 2 ");
    say_snapshots(2);
    run_for(50);
    assert_string_equal(heard(), "kept before 2 spawn 2: 2+2 of 2,2 "); /* here they have left nothing */
    say_snapshots(2);
    say_spawned(2, NULL);
    run_until("started 2");
    leader_cleanup(leader, 2);
    run_until("exit 2.1");
    start(3);
    leader_cleanup(leader, 3); /* given up while it was asked */
    say_snapshots(3);
    run_for(50);
    assert_null(strstr(heard(), "spawn 3"));
}

static void the_newest_memory_counts_if_no_checkpoint_is_newer(void **state)
{
    (void)state;
    static const struct {
        int64_t resume_step;
        bool    forget;
        struct snapshot_memfds_claim claims[SNAPSHOT_MEMFDS_SETS];
        int     n, from;
        int64_t step;
    } rows[] = {
        {-1, false, {{3, 20}, {1, 9}}, 2, 3, 20}, {-1, false, {{0, 0}}, 0, 0, 0},
        {20, false, {{3, 20}}, 1, 3, 20},         {21, false, {{3, 20}}, 1, 0, 0},
        {-1, true, {{3, 20}}, 1, 0, 0},           {-1, false, {{3, 0}}, 1, 0, 0},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct launch_env e = {.resume_step = rows[i].resume_step, .forget = rows[i].forget};
        launch_env_recall(&e, rows[i].claims, rows[i].n);
        assert_int_equal(e.from, rows[i].from);
        assert_int_equal(e.snapshot_step, rows[i].step);
    }
}

/* A late answer to what was given up is nobody's. */
static void a_sweep_ends_the_start(void **state)
{
    (void)state;
    prepare("sleep 1000");
    start(1);
    leader_cleanup(leader, 1);
    say_spawned(1, NULL);
    say_cleaned(1, true, "");
    run_until("swept 1");
    assert_null(strstr(said(), "started"));
}

/* A node is lost while what it could not start is undone elsewhere: no answer is missed. */
static void a_sweep_ends_what_is_undone(void **state)
{
    (void)state;
    prepare("sleep 1000");
    start(1);
    say_spawned(1, "cannot fork");
    while (!strstr(heard(), "sweep 1"))
        run_for(2);
    leader_cleanup(leader, 1);
    say_cleaned(1, true, "");
    say_cleaned(1, true, "");
    run_until("swept 1");
    assert_null(strstr(said(), "started"));
}

static void the_setup_is_over_when_it_is_everywhere(void **state)
{
    (void)state;
    prepare("exit 0");
    start(0);
    say_spawned(0, NULL);
    run_for(200);
    assert_int_equal(exits, 0);
    say_exit(0, 0, 0, NULL);
    assert_int_equal(exits, 1);
    assert_non_null(strstr(said(), "exit 0.1 on n1: 0"));
}

static void the_first_setup_that_fails_is_told_and_ends_the_others(void **state)
{
    (void)state;
    prepare("sleep 1000");
    start(0);
    say_spawned(0, NULL);
    run_until("started 0");
    say_exit(0, 0, 6, "no such module");
    run_until("exit 0.1 on n1: 6 no such module");
    assert_int_equal(exits, 1);
}

static void all_get_signals_and_words(void **state)
{
    (void)state;
    prepare("echo '{\"ev\":\"rendezvous\",\"key\":\"k\",\"value\":\"v\"}' >&$JOBCTL_EVENT_FD; sleep 1000");
    start(1);
    say_spawned(1, NULL);
    for (int i = 0; i < 10000 && !strstr(heard(), "relay k relay k "); i++)
        run_for(2);
    leader_control(leader, "stop");
    leader_signal(leader, 9);
    run_until("exit 1.1 on n0: -9");
    leader_shutdown(leader);
    assert_non_null(strstr(heard(), "relay k relay k stop signal 9 bye "));
}

/* Rank 3 is in step 41, and has written a line. */
static void say_page(void)
{
    static struct page_view view, nothing;
    view = (struct page_view){.pid = 1003, .state = 'S', .use = {.at_ms = 9, .work_us = 7, .gpu = true},
                              .lines = "far away\n"};
    view.u.page = (struct flight_page){.pid = 44, .step_phase = 40 << 8 | PHASE_FORWARD};
    for (int rank = 2; rank < 4; rank++)
        say(NODE_PAGES, json_pack("{s:i, s:[o]}", "generation", 1, "ranks", page_feed_row(rank, &view, &nothing)));
}

static void ranks_elsewhere_are_looked_at_as_those_here(void **state)
{
    (void)state;
    static struct flight_page page;
    char letter;
    struct activity_sample use;
    prepare("sleep 1000");
    start(1);
    say_spawned(1, NULL);
    say_page();
    run_until("started 1");
    assert_string_equal(leader_where(leader, 1), "n0");
    assert_string_equal(leader_where(leader, 2), "n1");
    assert_true(leader_is_here(leader, 1) && !leader_is_here(leader, 2));
    assert_int_equal(leader_look(leader, 3, &page, &letter, &use), 1003);
    assert_int_equal(page.pid, 44);
    assert_int_equal(letter, 'S');
    assert_true(use.at_ms == 9 && use.work_us == 7 && use.gpu);
    silent_ms = 4000; /* nobody can tell what it does, so nobody says that it hangs */
    leader_look(leader, 3, &page, &letter, &use);
    assert_int_equal(letter, 't');
    silent_ms = 0;
    assert_true(leader_look(leader, 0, &page, &letter, NULL) > 0);
    assert_string_equal(leader_last_lines(leader, 3), "far away\n");
    leader_signal(leader, 9);
    run_until("exit 1.1 on n0: -9");
    leader_inspect(leader, 1, 0, "/nowhere/at all");
    assert_non_null(strstr(heard(), "inspect 1 "));
    run_for(50);
    assert_null(strstr(said(), "stacks done"));
    channel.hooks.lost(channel.hooks.arg, "sent no heartbeat for 22 s");
    assert_non_null(strstr(said(), "lost n1 2+2: n1 sent no heartbeat for 22 s; rank 2 there was "
                                   "last seen in forward of step 41"));
    run_until("stacks of 1: n1 sent no heartbeat for 22 s stacks done");
}

static void a_node_alone_is_asked_as_several_are(void **state)
{
    (void)state;
    prepare_here("exit $((4 + RANK))", json_pack("{s:i, s:[{}, {}]}", "np", 2, "ranks"));
    start(0);
    run_until("exit 0.0 on it: ");
    start(1);
    assert_null(strstr(said(), "started 1")); /* from the loop */
    run_until("exit 1.0 on it: 4");
    run_until("exit 1.1 on it: 5");
    assert_non_null(strstr(said(), "started 1 "));
    assert_string_equal(leader_where(leader, 1), "");
    assert_null(leader_endpoint(leader));
    leader_cleanup(leader, 0);
    run_until("swept 1 ");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, up, down)

int main(void)
{
    unsigned char raw[16];
    if (getrandom(raw, sizeof(raw), 0) != sizeof(raw))
        return 1;
    for (size_t i = 0; i < sizeof(raw); i++)
        snprintf(nonce + 2 * i, 3, "%02x", raw[i]);
    const struct CMUnitTest tests[] = {
        TEST(nothing_is_told_before_all_are_there),
        TEST(who_could_not_start_leaves_nothing_to_tell),
        TEST(memory_is_what_all_have),
        cmocka_unit_test(the_newest_memory_counts_if_no_checkpoint_is_newer),
        TEST(a_sweep_ends_the_start),
        TEST(a_sweep_ends_what_is_undone),
        TEST(the_setup_is_over_when_it_is_everywhere),
        TEST(the_first_setup_that_fails_is_told_and_ends_the_others),
        TEST(all_get_signals_and_words),
        TEST(ranks_elsewhere_are_looked_at_as_those_here),
        TEST(a_node_alone_is_asked_as_several_are),
    };
    return cmocka_run_group_tests_name("leader_start", tests, NULL, NULL);
}
