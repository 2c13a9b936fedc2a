/* SPDX-License-Identifier: Apache-2.0 */
/* test_leader.c - a leader's requests to its followers; test_leader_lost.c tests lost followers */
#include "tests/process/agent/nodes/leader_fixture.h"

#include "agent/doctor/reachability.h"
#include "agent/monitor/activity.h"
#include "agent/monitor/inspect.h"

/* Each says a word, tells the others where it is, waits until it has heard of each once, and ends with its
 * number. */
static const char meet_and_end[] =
    "echo \"{\\\"ev\\\":\\\"hello\\\",\\\"n\\\":$RANK}\" >&$JOBCTL_EVENT_FD\n"
    "echo \"{\\\"ev\\\":\\\"rendezvous\\\",\\\"key\\\":\\\"tcp.$RANK\\\",\\\"value\\\":\\\"v\\\"}\""
    " >&$JOBCTL_EVENT_FD\n"
    "echo $RANK $LOCAL_RANK $LOCAL_WORLD_SIZE $NODE_RANK $WORLD_SIZE $MASTER_ADDR $MASTER_PORT"
    " $JOBCTL_NODE_ADDR $JOBCTL_NODE_RANKS $SECRET\n"
    "n=0; while [ $n -lt 5 ]; do read -r l <&$JOBCTL_CONTROL_FD || exit 99;"
    " case $l in *tcp.*) k=${l#*tcp.}; k=${k%%\\\"*}; n=$((n+1));"
    " case $s in *$k*) exit 98;; esac; s=$s$k;; esac; done\n"
    "exit $RANK\n";

/* They were open for a trial (agent/doctor/reachability.h), and end before ranks start. */
static void doors_of_members_are(bool open)
{
    for (int i = 1; i < NODES; i++) {
        json_t *door = json_deep_copy(leader_follower_endpoint(leader, i));
        json_object_set_new(door, "host", json_string(places[i]));
        json_t *doors = json_pack("[o]", door), *reached = reachability_at(doors);
        const json_t *first = json_array_get(reached, 0);
        assert_int_equal(json_object_get(first, "address") != NULL, open);
        json_decref(reached);
        json_decref(doors);
    }
}

static void a_generation_on_all_nodes(void **state)
{
    char log[400];
    (void)state;
    gather();
    assert_string_equal(json_string_value(json_object_get(leader_facts(leader, 2), "hostname")), places[2]);
    assert_string_equal(leader_name(leader, 1), "n1");
    assert_string_equal(leader_address(leader, 1), "127.0.0.1");
    assert_string_equal(leader_address(leader, 0), "127.0.0.1");
    doors_of_members_are(true);
    prepare(meet_and_end, NULL);
    spawn_some(1);
    doors_of_members_are(false);
    assert_string_equal(t.spawn_text, "");
    for (int i = 0; i < RANKS; i++)
        assert_true(t.pids[i] > 0);
    AWAIT(exits, RANKS);
    assert_int_equal(t.lines, RANKS);
    assert_memory_equal(t.order, "gs", 2); /* nobody was heard before all had begun */
    int seen = 0;
    for (int i = 0; i < t.exits; i++) {
        const struct agent_exit *e = &t.exited[i];
        assert_int_equal(e->exit_code, e->rank);
        assert_int_equal(e->generation, 1);
        assert_int_equal(e->pid, t.pids[e->rank]);
        assert_string_equal(e->node, e->rank == 0 ? "n0" : e->rank <= EACH ? "n1" : "n2");
        seen |= 1 << e->rank;
    }
    assert_int_equal(seen, 0x1f);
    put_log(2, 4, log, sizeof(log));
    int port = 0;
    assert_int_equal(sscanf(log, "4 1 2 2 5 127.0.0.1 %d 127.0.0.1 1,2,2 s3cret\n", &port), 1);
    assert_true(port > 1024 && strstr(log, " 127.0.0.1 1,2,2 s3cret\n"));
    put_log(0, 0, log, sizeof(log));
    assert_int_equal(strncmp(log, "0 0 1 0 5 127.0.0.1 ", 20), 0);
    assert_non_null(strstr(t.output, "1,2,2")); /* the rules of watch: see it, too */
    assert_non_null(strstr(t.last_lines[0], " 1,2,2 s3cret")); /* evidence comes along */

    leader_cleanup(leader, 1);
    AWAIT(cleaned, 1);
    assert_true(t.clean);
    leader_shutdown(leader);
    assert_int_equal(await_follower(1), 0);
    assert_int_equal(await_follower(2), 0);
    assert_int_equal(t.losses, 0);
}

static void commands_signals_and_what_is_left(void **state)
{
    (void)state;
    begin("sleep 1000 & (setsid sleep 1000 &)\n"
          "trap 'exit 7' TERM; echo '{\"ev\":\"up\"}' >&$JOBCTL_EVENT_FD\n"
          "read -r l <&$JOBCTL_CONTROL_FD; echo $l >&$JOBCTL_EVENT_FD\n"
          "while :; do sleep 0.02 || true; done\n");
    AWAIT(lines, RANKS);
    leader_control(leader, "checkpoint");
    AWAIT(lines, 2 * RANKS);
    assert_string_equal(t.line[2 * RANKS - 1], "{\"cmd\":\"checkpoint\"}");
    leader_signal(leader, SIGTERM);
    AWAIT(exits, RANKS);
    for (int i = 0; i < RANKS; i++)
        assert_int_equal(t.exited[i].exit_code, 7);
    assert_true(living(1) > 0); /* it has a session of its own */
    leader_cleanup(leader, 1);
    AWAIT(cleaned, 1);
    assert_true(t.clean);
    assert_non_null(strstr(t.left, "(sleep)")); /* it was still running */
    assert_int_equal(living(0) + living(1) + living(2), 0);

    spawn_some(2); /* the next generation */
    assert_string_equal(t.spawn_text, "");
    AWAIT(lines, 3 * RANKS);
    leader_signal(leader, SIGKILL);
    AWAIT(exits, 2 * RANKS);
    assert_int_equal(t.exited[2 * RANKS - 1].generation, 2);
    assert_int_equal(t.exited[2 * RANKS - 1].signo, SIGKILL);
}

static void setup_on_each_node(void **state)
{
    (void)state;
    char log[100], name[40];
    int made = 0;
    gather();
    prepare("exit 0", "echo made $JOBCTL_GENERATION; exit 5");
    spawn_some(0);
    AWAIT(exits, 1); /* the first that failed, when all have ended */
    assert_int_equal(t.exited[0].generation, 0);
    assert_int_equal(t.exited[0].exit_code, 5);
    run_until(NULL, 0, 200);
    assert_int_equal(t.exits, 1);
    for (int i = 0; i < NODES; i++) { /* the failure of one ends the others before they print */
        snprintf(name, sizeof(name), i ? "node%d/setup.node%d.log" : "node%d/setup.log", i, i);
        read_file(name, log, sizeof(log));
        made += strcmp(log, "made 0\n") == 0;
    }
    assert_true(made >= 1);
}

static void who_cannot_is_named(void **state)
{
    (void)state;
    gather();
    for (int i = 1; i < NODES; i++) {
        json_t *body = prepare_body(i, "exit 0", NULL);
        if (i == 2)
            json_object_set_new(json_object_get(body, "launch"), "proof",
                                json_pack("{s:s, s:s}", "path", "/nowhere/at all/.proof", "text",
                                          "x"));
        assert_int_equal(leader_prepare(leader, i, body, NULL), 0);
        json_decref(body);
    }
    AWAIT(prepared, 1);
    assert_non_null(strstr(t.refusal, "n2: checkpoint.dir '/nowhere/at all' is not the directory "
                                      "that the first node uses"));
}

/* Port 1: nobody listens there. */
static void who_does_not_reach_another_says_so(void **state)
{
    (void)state;
    gather();
    for (int i = 1; i < NODES; i++) {
        json_t *body = prepare_body(i, "exit 0", NULL), *door;
        const bool own = i == 2;
        door = own ? json_deep_copy(leader_follower_endpoint(leader, 1))
                   : json_pack("{s:[s], s:i, s:s}", "addresses", "127.0.0.1", "port", 1, "word", "x");
        assert_non_null(door);
        json_object_set_new(door, "host", json_string(own ? "n1" : "n2"));
        json_object_set_new(json_object_get(body, "launch"), "endpoints", json_pack("[o]", door));
        assert_int_equal(leader_prepare(leader, i, body, NULL), 0);
        json_decref(body);
    }
    AWAIT(prepared, 1);
    assert_string_equal(t.refusal, ""); /* a command may do without */
    for (int i = 1; i < NODES; i++) {
        const json_t *rows = json_object_get(leader_preflight(leader, i), "rows"), *row;
        const char *seen = NULL;
        size_t k;
        json_array_foreach(rows, k, row)
        {
            if (strcmp(json_string_value(json_object_get(row, "check")), "routes") == 0)
                seen = json_string_value(json_object_get(row, "seen"));
        }
        if (i == 1)
            assert_non_null(seen && strstr(seen, "no connection to n2: 127.0.0.1, port 1: Conn") ? seen : NULL);
        else
            assert_null(seen);
    }
}

/* All or none: what the others have started of it is gone when it is told. */
static void a_generation_that_cannot_begin_leaves_nothing(void **state)
{
    (void)state;
    gather();
    for (int i = 1; i < NODES; i++) {
        json_t *body = prepare_body(i, "echo '{\"ev\":\"up\"}' >&$JOBCTL_EVENT_FD; sleep 1000", NULL);
        if (i == 2)
            json_object_set_new(json_object_get(body, "spec"), "workdir", json_string("/nowhere/at all"));
        assert_int_equal(leader_prepare(leader, i, body, NULL), 0);
        json_decref(body);
    }
    AWAIT(prepared, 1);
    prepare_here("echo '{\"ev\":\"up\"}' >&$JOBCTL_EVENT_FD; sleep 1000", NULL);
    spawn_some(1);
    assert_non_null(strstr(t.spawn_text, "n2: cannot change to the directory '/nowhere/at all'"));
    assert_int_equal(living(0) + living(1) + living(2), 0);
    run_until(NULL, 0, 300);
    assert_int_equal(t.exits + t.lines, 0);
}

/* This program as a rank with a page: a step for each SIGUSR1. */
static int fly(void)
{
    struct flight *f;
    sigset_t go;
    sigemptyset(&go);
    sigaddset(&go, SIGUSR1);
    sigprocmask(SIG_BLOCK, &go, NULL);
    if (flight_attach(&f, getenv("JOBCTL_FLIGHT"), NULL) < 0)
        return 1;
    printf("flying\n");
    fflush(stdout);
    flight_set_total(f, 9);
    for (uint64_t step = 0;; step++) {
        int signo;
        flight_enter(f, step, PHASE_FORWARD);
        if (sigwait(&go, &signo) != 0)
            return 0;
    }
}

static void pages_travel(void **state)
{
    static struct flight_page page, again;
    char state_letter;
    struct activity_sample use;
    char run[5000];
    (void)state;
    snprintf(run, sizeof(run), "exec '%s' fly", self);
    begin(run);
    int64_t pid = 0;
    for (int i = 0; i < PATIENCE_MS / 20 && !(page.steps_total && page.phase_start_ns); i++) {
        run_until(NULL, 0, 20);
        pid = leader_look(leader, 3, &page, &state_letter, &use);
    }
    assert_int_equal(pid, t.pids[3]);
    assert_int_equal(page.pid, pid);
    assert_int_equal(page.rank, 3);
    assert_int_equal(page.steps_total, 9);
    assert_int_equal(flight_step(&page), 0);
    int64_t age_ms = (int64_t)(uv_hrtime() - page.phase_start_ns) / 1000000;
    assert_true(age_ms > -2000 && age_ms < PATIENCE_MS); /* on our clock */
    for (int i = 0; i < PATIENCE_MS / 20 && strcmp(leader_last_lines(leader, 3), "flying\n") != 0;
         i++)
        run_until(NULL, 0, 20);
    assert_string_equal(leader_last_lines(leader, 3), "flying\n");

    /* One that stands still looks so: no time in it moves. */
    leader_look(leader, 3, &page, NULL, NULL);
    run_until(NULL, 0, 1500);
    leader_look(leader, 3, &again, &state_letter, NULL);
    assert_memory_equal(&page, &again, sizeof(page));
    assert_int_equal(state_letter, 'S');

    wires[2].cut = true; /* what was said meanwhile is said again */
    kill((pid_t)t.pids[4], SIGUSR1);
    run_until(NULL, 0, 1000);
    proxy_break(&wires[2]);
    wires[2].cut = false;
    for (int i = 0; i < PATIENCE_MS / 20 && flight_step(&again) < 1; i++) {
        run_until(NULL, 0, 20);
        leader_look(leader, 4, &again, NULL, NULL);
    }
    assert_int_equal(flight_step(&again), 1);
    assert_int_equal(again.rank, 4);
    assert_int_equal(leader_look(leader, 0, &page, &state_letter, &use), t.pids[0]);
    assert_true((int64_t)page.pid == t.pids[0] && state_letter == 'S'); /* as a page of this node */
    leader_signal(leader, SIGKILL);
    AWAIT(exits, RANKS);
    assert_int_equal(leader_look(leader, 3, &page, NULL, NULL), 0);
}

static void stacks_are_looked_at(void **state)
{
    (void)state;
    char path[200], report[400];
    begin("exec sleep 1000");
    snprintf(path, sizeof(path), "%s/report", places[0]);
    close(open(path, O_WRONLY | O_CREAT, 0600));
    report[0] = '\0';
    for (int n = 1; !strstr(t.inspected, "process") || !strstr(report, "process"); n++) {
        assert_true(n < 30); /* a loaded machine may need more than the inspector's limit */
        leader_inspect(leader, 1, 0, path);
        AWAIT(inspected_all, n);
        assert_int_equal(t.inspections, n * NODES);
        read_file("node0/report", report, sizeof(report)); /* that of this node is there already */
    }
}

/* --- the real agent -------------------------------------------------------------------------------- */

static bool file_has(const char *path, const char *text)
{
    static char bytes[1 << 20];
    int fd = open(path, O_RDONLY);
    ssize_t n = fd < 0 ? 0 : read(fd, bytes, sizeof(bytes));
    if (fd >= 0)
        close(fd);
    return n > 0 && memmem(bytes, (size_t)n, text, strlen(text));
}

/* The door's key is in no list of processes, no environment, no log and no file. */
static void assert_secret(const char *key, int64_t pid)
{
    static const char *const of[] = {"cmdline", "environ"};
    char path[700];
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof(path), "/proc/%lld/%s", (long long)pid, of[i]);
        assert_false(file_has(path, key));
        assert_true(pid == getpid() || file_has(path, i ? "=" : "jobctl-agent"));
    }
    DIR *d = opendir(places[1]);
    for (struct dirent *e; (e = readdir(d));) {
        snprintf(path, sizeof(path), "%s/%s", places[1], e->d_name);
        assert_false(file_has(path, key));
    }
    closedir(d);
}

static void an_agent_becomes_a_member(void **state)
{
    char top[sizeof(dir)];
    struct peer p;
    (void)state;
    start_follower(2);
    memcpy(top, dir, sizeof(top));
    strncat(dir, "/node1", sizeof(dir) - strlen(dir) - 1);
    assert_int_equal(start_agent(), 0);
    int64_t pid = agent_pid();
    dial(&p);
    json_t *door = leader_endpoint(leader);
    const char *key = json_string_value(json_object_get(door, "key"));
    send_to(&p, WIRE_LAUNCH,
            json_pack("{s:s, s:{}, s:s, s:s, s:s, s:s, s:i, s:{}, s:{s:i, s:i, s:i, s:i},"
                      " s:{s:i, s:i, s:i, s:s}, s:o}",
                      "name", "test", "spec", "spec_digest", "", "run_dir", dir, "job_dir", dir,
                      "ckpt_dir", dir, "acked", 0, "secrets", "budget", "restarts", 5,
                      "backoff_min_ms", 100, "backoff_max_ms", 400, "no_progress", 3, "history",
                      "failures_without_progress", 0, "same_fingerprint", 0, "last_step", 0,
                      "fingerprint", "", "group", group_of(1, json_incref(door))));
    assert_secret(key, pid);
    /* It has the program's own version: this head wants another one. */
    AWAIT(losses, 1);
    assert_non_null(strstr(t.lost, "n1 runs jobctl-agent "));
    assert_non_null(strstr(t.lost, "install the same version on all nodes"));
    for (int i = 0; i < PATIENCE_MS / 20 && agent_pid(); i++)
        run_until(NULL, 0, 20);
    assert_int_equal(agent_pid(), 0);
    assert_secret(key, getpid());
    assert_true(file_has("/proc/self/cmdline", "test_leader"));
    char log[8192];
    read_file("agent.log", log, sizeof(log));
    assert_non_null(strstr(log, "leaving the attempt"));
    assert_null(strstr(log, "Sanitizer"));
    hang_up(&p);
    json_decref(door);
    memcpy(dir, top, sizeof(top));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        LEADER_TEST(a_generation_on_all_nodes),
        LEADER_TEST(commands_signals_and_what_is_left),
        LEADER_TEST(setup_on_each_node),
        LEADER_TEST(who_cannot_is_named),
        LEADER_TEST(who_does_not_reach_another_says_so),
        LEADER_TEST(a_generation_that_cannot_begin_leaves_nothing),
        LEADER_TEST(pages_travel),
        LEADER_TEST(stacks_are_looked_at),
        LEADER_TEST(an_agent_becomes_a_member),
    };
    if (argc > 1 && strcmp(argv[1], "fly") == 0)
        return fly();
    /* as the agent would: agent/monitor/inspector.h */
    if (argc > 2 && strcmp(argv[1], "inspect") == 0) {
        int pids[16], n = 0;
        for (int i = 2; i < argc && n < 16; i++)
            pids[n++] = atoi(argv[i]);
        return inspect_print(stdout, pids, n, NULL) < 0;
    }
    if (be_marked(argv) < 0 || draw_nonce() < 0)
        return 1;
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests_name("leader", tests, NULL, NULL);
}
