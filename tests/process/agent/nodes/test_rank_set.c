/* SPDX-License-Identifier: Apache-2.0 */
/* test_rank_set.c - two nodes as one: real processes here, and a leader that says what the test says
 *
 * The functions of agent/nodes/leader.h that stand here take the place of agent/nodes/leader.c.
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
#include "agent/nodes/leader.h"
#include "agent/nodes/rank_set.h"
#include "agent/os/buf.h"
#include "agent/ranks/launch_env.h"
#include "agent/ranks/ranks.h"
#include "agent/ranks/snapshot_memfds.h"
#include "engine/contract/err.h"
#include "engine/contract/flight.h"

/* --- the stand-in ---------------------------------------------------------------------------- */

struct leader {
    struct leader_hooks hooks;
};

static struct leader leader;
static struct buf asked; /* what the leader was asked, a word each */
static struct flight_page remote_page;
static int silent_ms;

int leader_open(struct leader **out, uv_loop_t *loop, const struct leader_options *o,
                const struct leader_hooks *hooks, struct err *err)
{
    (void)loop;
    (void)o;
    (void)err;
    leader.hooks = *hooks;
    *out = &leader;
    return 0;
}

void leader_close(struct leader *c)
{
    (void)c;
}

void leader_destroy(struct leader *c)
{
    (void)c;
}

const char *leader_name(const struct leader *c, int node)
{
    (void)c;
    return node ? "n1" : "n0";
}

const char *leader_address(const struct leader *c, int node)
{
    (void)c;
    return node ? "10.0.0.2" : "10.0.0.1";
}

void leader_spawn(struct leader *c, const struct launch_env *e, const struct leader_spawn *where,
                  int n)
{
    (void)c;
    assert_int_equal(n, 1);
    buf_print(&asked, "spawn %d on %d: %d+%d of %s ", e->generation, where[0].node,
              where[0].first_rank, where[0].ranks, e->node_ranks);
}

void leader_ask_snapshots(struct leader *c, int generation)
{
    (void)c;
    buf_print(&asked, "kept before %d ", generation);
}

void leader_phases(const struct leader *c, int rank, struct agent_exit *e)
{
    (void)c;
    (void)rank;
    (void)e;
}

int64_t leader_pid(const struct leader *c, int rank)
{
    (void)c;
    return 1000 + rank;
}

void leader_control(struct leader *c, const char *command)
{
    (void)c;
    buf_print(&asked, "%s ", command);
}

void leader_broadcast(struct leader *c, const json_t *line)
{
    (void)c;
    buf_print(&asked, "relay %s ", json_string_value(json_object_get(line, "key")));
}

void leader_signal(struct leader *c, int signo)
{
    (void)c;
    buf_print(&asked, "signal %d ", signo);
}

void leader_cleanup(struct leader *c, int generation)
{
    (void)c;
    buf_print(&asked, "sweep %d ", generation);
}

void leader_inspect(struct leader *c, int generation)
{
    (void)c;
    buf_print(&asked, "inspect %d ", generation);
}

int64_t leader_look(const struct leader *c, int rank, struct flight_page *page, char *state,
                    uint64_t *io_mib)
{
    (void)c;
    *page = remote_page;
    if (state)
        *state = 'S';
    if (io_mib)
        *io_mib = 7;
    return 1000 + rank;
}

int leader_silent_ms(const struct leader *c, int node)
{
    (void)c;
    return node ? silent_ms : 0;
}

const char *leader_last_lines(const struct leader *c, int rank)
{
    (void)c;
    return rank == 3 ? "far away\n" : "";
}

void leader_shutdown(struct leader *c)
{
    (void)c;
    buf_print(&asked, "bye ");
}

/* --- what the world tells ------------------------------------------------------------------- */

static uv_loop_t loop;
static struct rank_set *rank_set;
static struct buf told;
static char dir[100];
static char nonce[33]; /* drawn: two runs of this test must not end each other's processes */
static int exits;
static bool keeps; /* memory that outlives ranks */

static void on_started(void *arg, const struct rank_set_started *s)
{
    (void)arg;
    buf_print(&told, "started %d%s%s ", s->generation, s->text ? ": " : "", s->text ? s->text : "");
    if (!s->text && s->generation > 0) {
        assert_true(s->pids[0] > 0 && s->pids[1] > 0);
        assert_int_equal(s->pids[2], 1002);
        assert_int_equal(s->pids[3], 1003);
    }
}

static void on_exited(void *arg, const struct agent_exit *e)
{
    (void)arg;
    exits++;
    buf_print(&told, "exit %d.%d on %s: %d %s ", e->generation, e->rank, e->node,
              e->signalled ? -e->signo : e->exit_code, e->last_lines ? e->last_lines : "");
}

static void on_line(void *arg, int generation, int rank, const json_t *line)
{
    (void)arg;
    buf_print(&told, "line %d.%d %s ", generation, rank,
              json_string_value(json_object_get(line, "ev")));
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

/* Two ranks on each of two nodes; the script is that of each rank, and of the setup. */
static void prepare(const char *script)
{
    static const char *argv[4];
    static struct ranks_job job;
    struct err err = {0};
    argv[0] = "/bin/sh";
    argv[1] = "-c";
    argv[2] = script;
    job = (struct ranks_job){.snapshots = keeps, .run_dir = dir, .workdir = dir, .argv = argv, .setup_argv = argv};
    json_t *plan = json_pack("{s:i, s:[{s:i},{s:i},{s:i},{s:i}]}", "np", 4, "ranks", "node", 0,
                             "node", 0, "node", 1, "node", 1);
    const struct leader_options o = {.nodes = 2};
    assert_int_equal(rank_set_gather(rank_set, &o, &err), 0);
    if (rank_set_prepare(rank_set, &job, plan, &err) < 0)
        fail_msg("%s", err.text);
    json_decref(plan);
}

static void start(int generation)
{
    struct launch_env e = {.job = 7,
                           .attempt = 1,
                           .generation = generation,
                           .name = "x",
                           .nonce = nonce,
                           .run_dir = dir,
                           .ckpt_dir = dir,
                           .resume_step = -1,
                           .skip_step = -1};
    rank_set_start(rank_set, &e);
}

static int up(void **state)
{
    (void)state;
    const char *tmp = getenv("TMPDIR");
    const struct rank_set_hooks hooks = {.started = on_started,
                                         .exited = on_exited,
                                         .line = on_line,
                                         .output = on_output,
                                         .cleaned = on_swept,
                                         .lost = on_lost};
    exits = 0;
    snprintf(dir, sizeof(dir), "%.60s/world.XXXXXX", tmp ? tmp : "/tmp");
    uv_loop_init(&loop);
    return mkdtemp(dir) && rank_set_create(&rank_set, &loop, nonce, &hooks, NULL) == 0 ? 0 : -1;
}

static int down(void **state)
{
    (void)state;
    char rm[140];
    rank_set_close(rank_set);
    uv_run(&loop, UV_RUN_DEFAULT);
    rank_set_destroy(rank_set);
    uv_loop_close(&loop);
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
    assert_string_equal(heard(), "spawn 1 on 1: 2+2 of 2,2 ");
    leader.hooks.spawned(leader.hooks.arg, 1, NULL);
    run_until("exit 1.1 on n0: 5");
    assert_true(strncmp(said(), "started 1 line 1.", 17) == 0);
    assert_non_null(strstr(said(), "exit 1.0 on n0: 4"));
    const struct agent_exit remote_exit = {.generation = 1, .rank = 3, .exit_code = 9};
    leader.hooks.exited(leader.hooks.arg, &remote_exit);
    assert_non_null(strstr(said(), "exit 1.3 on n1: 9"));
}

static void who_could_not_start_leaves_nothing_to_tell(void **state)
{
    (void)state;
    prepare("exit 3");
    start(1);
    run_for(100);
    leader.hooks.spawned(leader.hooks.arg, 1, "n1: cannot fork");
    run_for(50);
    assert_string_equal(said(), "started 1: n1: cannot fork ");
    rank_set_cleanup(rank_set, 1);
    run_for(50);
    assert_string_equal(said(), "started 1: n1: cannot fork "); /* n1 has not answered yet */
    leader.hooks.cleaned(leader.hooks.arg, false, "n1: 77 (python3)");
    assert_non_null(strstr(said(), "swept 0 n1: 77 (python3)"));
}

/* What is resumed from is what both nodes have; the ranks of both start when that is known. */
static void memory_is_what_all_have(void **state)
{
    (void)state;
    keeps = true;
    prepare("sleep 1000");
    start(1);
    leader.hooks.spawned(leader.hooks.arg, 1, NULL);
    run_until("started 1");
    rank_set_signal(rank_set, SIGKILL);
    run_until("exit 1.1");
    buf_clear(&asked);
    start(2);
    run_for(50);
    assert_string_equal(heard(), "kept before 2 ");
    const struct snapshot_memfds_claim theirs = {1, 12};
    leader.hooks.kept(leader.hooks.arg, 3, &theirs, 1); /* not what was asked */
    assert_string_equal(heard(), "kept before 2 ");
    leader.hooks.kept(leader.hooks.arg, 2, &theirs, 1);
    assert_string_equal(heard(), "kept before 2 spawn 2 on 1: 2+2 of 2,2 "); /* here they have left nothing */
    leader.hooks.kept(leader.hooks.arg, 2, &theirs, 1);
    leader.hooks.spawned(leader.hooks.arg, 2, NULL);
    run_until("started 2");
    rank_set_cleanup(rank_set, 2);
    run_until("exit 2.1");
    start(3);
    rank_set_cleanup(rank_set, 3); /* given up while it was asked */
    leader.hooks.kept(leader.hooks.arg, 3, &theirs, 1);
    run_for(50);
    assert_null(strstr(heard(), "spawn 3"));
    keeps = false;
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
    rank_set_cleanup(rank_set, 1);
    leader.hooks.spawned(leader.hooks.arg, 1, NULL);
    leader.hooks.cleaned(leader.hooks.arg, true, "");
    run_until("swept 1");
    assert_null(strstr(said(), "started"));
}

static void the_setup_is_over_when_it_is_everywhere(void **state)
{
    (void)state;
    prepare("exit 0");
    start(0);
    leader.hooks.spawned(leader.hooks.arg, 0, NULL);
    run_for(200);
    assert_int_equal(exits, 0);
    const struct agent_exit e = {.generation = 0, .rank = 1};
    leader.hooks.exited(leader.hooks.arg, &e);
    assert_int_equal(exits, 1);
    assert_non_null(strstr(said(), "exit 0.1 on n1: 0"));
}

static void the_first_setup_that_fails_is_told_and_ends_the_others(void **state)
{
    (void)state;
    prepare("sleep 1000");
    start(0);
    leader.hooks.spawned(leader.hooks.arg, 0, NULL);
    const struct agent_exit e = {.rank = 1, .exit_code = 6, .last_lines = "no such module"};
    leader.hooks.exited(leader.hooks.arg, &e);
    run_until("exit 0.1 on n1: 6 no such module");
    assert_int_equal(exits, 1);
}

static void all_get_signals_and_words(void **state)
{
    (void)state;
    prepare("echo '{\"ev\":\"rendezvous\",\"key\":\"k\",\"value\":\"v\"}' >&$JOBCTL_EVENT_FD; sleep 1000");
    start(1);
    leader.hooks.spawned(leader.hooks.arg, 1, NULL);
    run_for(200);
    rank_set_control(rank_set, "stop");
    rank_set_signal(rank_set, 9);
    run_until("exit 1.1 on n0: -9");
    rank_set_dismiss(rank_set);
    assert_non_null(strstr(heard(), "relay k relay k stop signal 9 bye "));
}

static void ranks_elsewhere_are_looked_at_as_those_here(void **state)
{
    (void)state;
    struct flight_page page;
    char letter;
    uint64_t mib;
    prepare("sleep 1000");
    start(1);
    leader.hooks.spawned(leader.hooks.arg, 1, NULL);
    assert_string_equal(rank_set_where(rank_set, 1), "n0");
    assert_string_equal(rank_set_where(rank_set, 2), "n1");
    assert_true(rank_set_is_here(rank_set, 1) && !rank_set_is_here(rank_set, 2));
    remote_page = (struct flight_page){.pid = 44, .step_phase = 40 << 8 | PHASE_FORWARD};
    assert_int_equal(rank_set_look(rank_set, 3, &page, &letter, &mib), 1003);
    assert_int_equal(page.pid, 44);
    assert_int_equal(letter, 'S');
    assert_int_equal(mib, 7);
    silent_ms = 4000; /* nobody can tell what it does, so nobody says that it hangs */
    rank_set_look(rank_set, 3, &page, &letter, &mib);
    assert_int_equal(letter, 't');
    silent_ms = 0;
    assert_true(rank_set_look(rank_set, 0, &page, &letter, NULL) > 0);
    assert_string_equal(rank_set_last_lines(rank_set, 3), "far away\n");
    assert_int_equal(rank_set_inspect(rank_set, 1), 1);
    leader.hooks.lost(leader.hooks.arg, 1, "n1 sent no heartbeat for 22 s");
    assert_non_null(strstr(said(), "lost n1 2+2: n1 sent no heartbeat for 22 s; rank 2 there was "
                                   "last seen in forward of step 41"));
    assert_int_equal(rank_set_inspect(rank_set, 1), 0);
    rank_set_signal(rank_set, 9);
    run_until("exit 1.1 on n0: -9");
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
        TEST(the_setup_is_over_when_it_is_everywhere),
        TEST(the_first_setup_that_fails_is_told_and_ends_the_others),
        TEST(all_get_signals_and_words),
        TEST(ranks_elsewhere_are_looked_at_as_those_here),
    };
    return cmocka_run_group_tests_name("world", tests, NULL, NULL);
}
