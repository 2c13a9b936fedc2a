/* SPDX-License-Identifier: Apache-2.0 */
/* leader_fixture.h - a leader in this process, followers in separate processes, real ranks on each
 * */
#ifndef TESTS_LEADER_FIXTURE_H
#define TESTS_LEADER_FIXTURE_H

#include "tests/process/agent/attempt/agent_fixture.h"
#include "tests/unit/agent/nodes/leader_proxy.h"
#include "tests/unit/agent/os/loop_fixture.h"

#include <sys/prctl.h>

#include "agent/core/agent_core.h"
#include "agent/nodes/follower.h"
#include "agent/nodes/follower_link.h"
#include "agent/nodes/leader.h"
#include "agent/ranks/launch_env.h"

enum { NODES = 3, EACH = 2, RANKS = 1 + 2 * EACH, LINES = 64 };

static struct leader *leader;
static struct follower *local; /* of node 0 */
static struct proxy wires[NODES];
static pid_t followers[NODES];
static int ends[NODES]; /* read ends: a member's exit status comes here, or nothing if it was killed */
static char places[NODES][160], self[4096];

/* What the hooks have told. */
static struct told {
    int gathered, prepared, spawned, exits, lines, outputs, cleaned, inspections, inspected_all, losses;
    int64_t pids[RANKS];
    char refusal[700], spawn_text[700], left[700], lost[700], inspected[8192], order[40];
    bool clean;
    int lost_node, generation, wrong; /* wrong: of another generation, or too many */
    struct agent_exit exited[LINES];
    char last_lines[LINES][400], output[2000];
    int line_rank[LINES];
    char line[LINES][200];
} t;

static inline void mark(char what)
{
    size_t n = strlen(t.order);
    if (n < sizeof(t.order) - 1)
        t.order[n] = what;
}

static inline void on_gathered(void *arg)
{
    (void)arg;
    t.gathered++;
    mark('g');
}

static inline void on_prepared(void *arg, const char *refusal)
{
    (void)arg;
    t.prepared++;
    snprintf(t.refusal, sizeof(t.refusal), "%s", refusal ? refusal : "");
}

static inline void on_started(void *arg, const struct leader_started *s)
{
    (void)arg;
    t.spawned++;
    t.generation = s->generation;
    memcpy(t.pids, s->pids, sizeof(t.pids));
    snprintf(t.spawn_text, sizeof(t.spawn_text), "%s", s->text ? s->text : "");
    mark('s');
}

static inline void on_exited(void *arg, const struct agent_exit *e)
{
    (void)arg;
    if (t.exits == LINES) {
        t.wrong++;
        return;
    }
    snprintf(t.last_lines[t.exits], sizeof(t.last_lines[0]), "%s", e->last_lines);
    t.exited[t.exits++] = *e;
    mark('x');
}

static inline void on_line(void *arg, int generation, int rank, const json_t *line, const json_t *spent)
{
    (void)arg;
    (void)spent;
    if (generation != t.generation || t.lines == LINES) {
        t.wrong++;
        return;
    }
    char *text = json_dumps(line, JSON_COMPACT);
    snprintf(t.line[t.lines], sizeof(t.line[0]), "%s", text);
    t.line_rank[t.lines++] = rank;
    free(text);
    mark('l');
}

static inline void on_output(void *arg, int rank, const char *bytes, size_t size)
{
    (void)arg;
    (void)rank;
    size_t n = strlen(t.output);
    snprintf(t.output + n, sizeof(t.output) - n, "%.*s", (int)size, bytes);
    t.outputs++;
}

static inline void on_swept(void *arg, bool clean, const char *left)
{
    (void)arg;
    t.cleaned++;
    t.clean = clean;
    snprintf(t.left, sizeof(t.left), "%s", left);
}

static inline void on_stacks(void *arg, int node, const char *text)
{
    (void)arg;
    t.inspections++;
    if (node > 0)
        snprintf(t.inspected, sizeof(t.inspected), "%s", text);
}

static inline void on_stacks_done(void *arg)
{
    (void)arg;
    t.inspected_all++;
}

static inline void on_lost(void *arg, const struct agent_lost *l)
{
    (void)arg;
    t.losses++;
    t.lost_node = l->node;
    snprintf(t.lost, sizeof(t.lost), "%s", l->text);
    mark('L');
}

static const struct leader_hooks hooks = {
    .gathered = on_gathered, .prepared = on_prepared, .started = on_started, .exited = on_exited,
    .line = on_line, .output = on_output, .cleaned = on_swept, .stacks = on_stacks,
    .stacks_done = on_stacks_done, .lost = on_lost};

/* --- the loop ------------------------------------------------------------------------------- */

#define AWAIT(what, least) assert_true(run_until(&t.what, least, PATIENCE_MS))

/* The exit status of a member, while the head goes on; the ranks' own handler reaps it. */
static inline int await_follower(int node)
{
    unsigned char status;
    for (int i = 0; i < PATIENCE_MS / 20; i++) {
        ssize_t n = read(ends[node], &status, 1);
        if (n >= 0) {
            followers[node] = 0;
            return n ? status : -1;
        }
        run_until(NULL, 0, 20);
    }
    return -1;
}

/* How many processes of a node there are. */
static inline int living(int node)
{
    const struct cleanup_pass s = {.nonce = nonce, .run_dir = places[node]};
    return cleanup_pass_run(&s, NULL, 0);
}

static inline void await_nobody(int node)
{
    for (int i = 0; i < PATIENCE_MS / 20 && living(node); i++)
        run_until(NULL, 0, 20);
    assert_int_equal(living(node), 0);
}

/* --- members --------------------------------------------------------------------------------- */

/* A member: what its node has, and the way to the head. */
struct member {
    struct follower *follower;
    struct follower_link *link;
};

static inline void on_over(void *arg)
{
    struct member *m = arg;
    follower_link_close(m->link);
    follower_close(m->follower);
}

static inline json_t *group_of(int node, json_t *door)
{
    return json_pack("{s:i, s:i, s:[s, s, s], s:o}", "node", node, "nodes", NODES, "names", "n0",
                     "n1", "n2", "endpoint", door);
}

static inline _Noreturn void leave(int end, unsigned char status)
{
    _exit(write(end, &status, 1) == 1 ? status : 1);
}

static inline _Noreturn void be_follower(int node, json_t *door, int end)
{
    uv_loop_t mine;
    struct member m = {0};
    struct err err = {0};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGPIPE, SIG_IGN);
    uv_loop_fork(&loop); /* or signals of this process are told to the loop of its parent */
    uv_loop_init(&mine);
    json_t *launch = json_pack("{s:o}", "group", group_of(node, door));
    const struct follower_options o = {.job = 7, .attempt = 1, .nonce = nonce,
                                       .run_dir = places[node], .train = "/bin/false",
                                       .version = "1", .tag = "7.1",
                                       .facts = json_pack("{s:s}", "hostname", places[node])};
    if (follower_create(&m.follower, &mine, &o, &err) < 0 ||
        follower_link_open(&m.link, &mine, m.follower, launch, on_over, &m, &err) < 0)
        leave(end, 3);
    uv_run(&mine, UV_RUN_DEFAULT);
    follower_link_destroy(m.link);
    follower_destroy(m.follower);
    leave(end, uv_loop_close(&mine) == 0 ? 0 : 4);
}

static inline void start_follower(int node)
{
    int fds[2];
    json_t *door = leader_endpoint(leader), *at = proxy_door(&wires[node], door);
    assert_int_equal(pipe2(fds, O_CLOEXEC | O_NONBLOCK), 0);
    followers[node] = fork();
    if (followers[node] == 0)
        be_follower(node, at, fds[1]);
    close(fds[1]);
    ends[node] = fds[0];
    json_decref(at);
    json_decref(door);
}

static json_t *facts; /* of node 0 */

static inline int leader_up(void **state)
{
    struct err err = {0};
    (void)state;
    t = (struct told){.lost_node = -1};
    make_place();
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    self[n] = '\0';
    for (int i = 0; i < NODES; i++) {
        snprintf(places[i], sizeof(places[i]), "%s/node%d", dir, i);
        mkdir(places[i], 0700);
    }
    uv_loop_init(&loop);
    facts = json_pack("{s:s}", "hostname", "n0");
    const struct follower_options here = {.job = 7, .attempt = 1, .nonce = nonce,
                                          .run_dir = places[0], .train = "/bin/false",
                                          .tag = "7.1", .facts = facts};
    json_t *names = json_pack("[s, s, s]", "n0", "n1", "n2");
    const struct leader_options o = {.job = 7, .attempt = 1, .nonce = nonce, .nodes = NODES,
                                     .names = names, .version = "1", .join_ms = PATIENCE_MS};
    if (follower_create(&local, &loop, &here, &err) < 0 ||
        leader_create(&leader, &loop, local, &hooks, &err) < 0 || leader_gather(leader, &o, &err) < 0)
        fail_msg("%s", err.text);
    json_decref(names);
    json_t *door = leader_endpoint(leader);
    for (int i = 1; i < NODES; i++)
        proxy_open(&wires[i], &loop, (int)json_integer_value(json_object_get(door, "port")));
    json_decref(door);
    return 0;
}

static inline int quick_up(void **state)
{
    setenv("JOBCTL_NODE_LOST_S", "2", 1);
    int rc = leader_up(state);
    unsetenv("JOBCTL_NODE_LOST_S");
    return rc;
}

/* -1: the member is still there. */
static inline ssize_t await_end(int node)
{
    unsigned char status;
    return read(ends[node], &status, 1);
}

static inline int leader_down(void **state)
{
    (void)state;
    leader_close(leader);
    follower_close(local);
    for (int i = 1; i < NODES; i++) {
        proxy_close(&wires[i]);
        if (followers[i] > 0 && await_end(i) < 0) {
            kill(followers[i], SIGKILL);
            waitpid(followers[i], NULL, 0);
        }
        followers[i] = 0;
        close(ends[i]);
    }
    uv_run(&loop, UV_RUN_DEFAULT);
    leader_destroy(leader);
    follower_destroy(local);
    json_decref(facts);
    leader = NULL;
    int rc = uv_loop_close(&loop), left = 1;
    const struct cleanup_pass s = {.nonce = nonce, .signo = SIGKILL};
    for (int i = 0; i < 1000 && left; i++) {
        left = cleanup_pass_run(&s, NULL, 0);
        poll(NULL, 0, left ? 2 : 0);
    }
    scratch_dir_remove(dir);
    return rc + left + t.wrong;
}

/* --- what a head does --------------------------------------------------------------------------- */

static inline void gather(void)
{
    for (int i = 1; i < NODES; i++)
        start_follower(i);
    AWAIT(gathered, 1);
}

static inline json_t *prepare_body(int node, const char *run, const char *setup)
{
    json_t *spec = json_pack("{s:s, s:s, s:s?, s:[s]}", "run", run, "workdir", places[node],
                             "setup", setup, "watch", "a rule");
    return json_pack("{s:o, s:{s:[]}, s:{s:s, s:s, s:{s:s}, s:i, s:i}}", "spec", spec, "plan",
                     "ranks", "launch", "name", "test", "ckpt_dir", dir, "secrets", "SECRET",
                     "s3cret", "restarts", 3, "deadline_s", 0);
}

/* One rank on the first node, EACH on every other. */
static inline json_t *plan_of_all(void)
{
    json_t *ranks = json_array();
    for (int i = 0; i < RANKS; i++)
        json_array_append_new(ranks, json_pack("{s:i, s:i}", "rank", i, "node", (i + EACH - 1) / EACH));
    return json_pack("{s:i, s:o}", "np", RANKS, "ranks", ranks);
}

static inline void prepare_here(const char *run, const char *setup)
{
    struct err err = {0};
    json_t *body = prepare_body(0, run, setup), *preflight = NULL, *plan = plan_of_all();
    if (follower_prepare(local, json_object_get(body, "spec"), json_object_get(body, "launch"),
                         &preflight, &err) < 0 ||
        leader_place(leader, plan, &err) < 0)
        fail_msg("%s", err.text);
    follower_set_plan(local, json_object_get(body, "plan"));
    json_decref(preflight);
    json_decref(plan);
    json_decref(body);
}

static inline void prepare(const char *run, const char *setup)
{
    struct err err = {0};
    for (int i = 1; i < NODES; i++) {
        json_t *body = prepare_body(i, run, setup);
        if (leader_prepare(leader, i, body, &err) < 0)
            fail_msg("%s", err.text);
        json_decref(body);
    }
    AWAIT(prepared, 1);
    assert_string_equal(t.refusal, "");
    prepare_here(run, setup);
}

static inline void spawn_some(int generation)
{
    const struct launch_env e = {.generation = generation, .restarts = 3, .resume_step = -1,
                                 .skip_step = -1};
    int before = t.spawned;
    leader_start(leader, &e);
    AWAIT(spawned, before + 1);
}

static inline void begin(const char *run)
{
    gather();
    prepare(run, NULL);
    spawn_some(1);
    assert_string_equal(t.spawn_text, "");
}

static inline void put_log(int node, int rank, char *out, size_t size)
{
    char name[40];
    snprintf(name, sizeof(name), "node%d/rank%d.log", node, rank);
    read_file(name, out, size);
}

/* The cleanup of the first node ends children of this process that carry no mark; so members, which
 * are forks of it, carry one. */
static inline int be_marked(char **argv)
{
    return getenv("JOBCTL_NONCE") ? 0 : setenv("JOBCTL_NONCE", "of the test", 1) + execv("/proc/self/exe", argv);
}

#define LEADER_TEST(test)  cmocka_unit_test_setup_teardown(test, leader_up, leader_down)
#define QUICK(test) cmocka_unit_test_setup_teardown(test, quick_up, leader_down)

#endif
