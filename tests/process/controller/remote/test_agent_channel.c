/* SPDX-License-Identifier: Apache-2.0 */
/* test_agent_channel.c - connections of agents: the fence, a silent connection, the last spooled
 * events */
#include "tests/process/agent/attempt/agent_fixture.h"
#include "tests/unit/agent/nodes/leader_proxy.h"
#include "tests/unit/agent/os/loop_fixture.h"

#include "controller/remote/agent_channel.h"
#include "controller/remote/agent_stream.h"

enum { LOOK_MS = 50, SILENT_S = 6 };

static struct remote_link *wire;
static struct agent_channel channel;
static struct proxy proxy;
static uv_timer_t looking;
static int hellos, alives, ends;

static void on_message(struct remote_link *link, enum wire_message number, const json_t *body)
{
    (void)link;
    (void)body;
    hellos += number == WIRE_HELLO;
    alives += number == WIRE_KEEPALIVE;
}

static void on_ended(struct remote_link *link)
{
    (void)link;
    ends++;
}

static void on_look(uv_timer_t *timer)
{
    (void)timer;
    agent_channel_look(&channel);
}

/* The agent gets the port of a proxy instead of the controller's. */
static void go_between(void)
{
    char path[300];
    in_dir(path, RUN_DIR_CALL);
    json_t *said = json_load_file(path, 0, NULL);
    assert_non_null(said);
    proxy_open(&proxy, &loop, (int)json_integer_value(json_object_get(said, "port")));
    json_object_set_new(said, "port", json_integer(proxy.port));
    assert_int_equal(json_dump_file(said, path, JSON_COMPACT), 0);
    json_decref(said);
}

static void start_away(void)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        setenv("JOBCTL_AGENT_NONCE", nonce, 1);
        execl(binary, "jobctl-agent", "run", "--away", "--dir", dir, "--job", "7", "--attempt", "1", NULL);
        _exit(126);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static int up_between(void **state)
{
    struct err err = {0};
    char silent[8];
    (void)state;
    signal(SIGPIPE, SIG_IGN);
    make_place();
    hellos = alives = ends = 0;
    snprintf(silent, sizeof(silent), "%d", SILENT_S);
    setenv("JOBCTL_CALL_ADDRESS", "127.0.0.1", 1);
    setenv("JOBCTL_CALL_SILENT_S", silent, 1);
    uv_loop_init(&loop);
    const struct remote_link_spec spec = {.job = 7, .attempt = 1, .nonce = nonce, .run_dir = dir};
    const struct remote_link_hooks hooks = {.arg = NULL};
    wire = remote_link_create(sizeof(*wire), &loop, &spec, &hooks, &err);
    assert_non_null(wire);
    channel = (struct agent_channel){.message = on_message, .ended = on_ended};
    agent_channel_open(&channel, wire, 0);
    assert_non_null(channel.expected);
    go_between();
    start_away();
    uv_timer_init(&loop, &looking);
    uv_timer_start(&looking, on_look, LOOK_MS, LOOK_MS);
    return 0;
}

static int down_between(void **state)
{
    remote_link_close(wire);
    agent_channel_close(&channel);
    proxy_close(&proxy);
    uv_close((uv_handle_t *)&looking, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    return uv_loop_close(&loop) | down(state);
}

/* --- connections ------------------------------------------------------------------------------ */

/* A proxy may accept all data and forward nothing: no end, no reset, no error. */
static void a_wire_that_falls_silent_is_given_up_and_another_one_taken(void **state)
{
    struct err err = {0};
    char path[300];
    (void)state;
    assert_true(run_until(&hellos, 1, PATIENCE_MS));
    assert_true(channel.calls);
    assert_true(run_until(&alives, 4, PATIENCE_MS)); /* an idle agent is not lost */
    assert_int_equal(ends, 0);
    proxy.cut = true;
    assert_true(run_until(&ends, 1, PATIENCE_MS));
    assert_false(channel.calls);
    assert_null(wire->stream);
    /* The agent saw no end.  A connection by files, as of `jobctl-agent file-channel`, makes it reconnect. */
    proxy.cut = false;
    in_dir(path, RUN_DIR_SOCKET);
    int other = unix_socket_connect(path, true, &err);
    assert_true(other >= 0);
    assert_true(run_until(&hellos, 2, PATIENCE_MS));
    assert_true(channel.calls);
    close(other);
}

/* --- the fence --------------------------------------------------------------------------------- */

static int said, ended;

static void on_said(void *arg, enum wire_message number, const json_t *body)
{
    (void)arg;
    (void)number;
    (void)body;
    said++;
}

static void on_stream_ended(void *arg)
{
    (void)arg;
    ended++;
}

/* A message of an attempt: its job, its number, its nonce. */
struct mark {
    int         job, attempt;
    const char *nonce;
};

static void say(int fd, enum wire_message number, struct mark m)
{
    size_t size;
    json_t *body = json_pack("{s:i, s:i, s:s}", "job", m.job, "attempt", m.attempt, "nonce", m.nonce);
    json_t *hello = json_pack("{s:s, s:s, s:i, s:i, s:i, s:s, s:b, s:i, s:i, s:{}, s:i}", "node", "n",
                              "boot_id", "b", "pid", 9, "start_time", 9, "incarnation", 1, "version",
                              "1", "launched", 0, "first_seq", 0, "last_seq", 0, "facts", "wall_ms", 1);
    if (number == WIRE_HELLO)
        json_object_update(body, hello);
    char *frame = frame_make(number, body, &size, NULL);
    assert_non_null(frame);
    assert_int_equal(write(fd, frame, size), size);
    free(frame);
    json_decref(hello);
    json_decref(body);
}

/* A peer of another attempt, or one that does not start with HELLO, is disconnected. */
static void only_this_attempt_is_heard(void **state)
{
    static const char other[] = "00000000000000000000000000000000";
    static const struct {
        enum wire_message number;   /* of the first message */
        struct mark       first, second;
        int               said;
    } rows[] = {
        {WIRE_HELLO, {7, 1, nonce}, {7, 1, nonce}, 2}, {WIRE_HELLO, {7, 1, other}, {7, 1, nonce}, 0},
        {WIRE_HELLO, {7, 2, nonce}, {7, 1, nonce}, 0}, {WIRE_HELLO, {8, 1, nonce}, {7, 1, nonce}, 0},
        {WIRE_HELLO, {7, 1, nonce}, {7, 1, other}, 1}, {WIRE_KEEPALIVE, {7, 1, nonce},
                                                        {7, 1, nonce}, 0},
    };
    const struct wire_id ours = {7, 1, nonce};
    const struct agent_stream_hooks hooks = {on_said, NULL, on_stream_ended, NULL};
    (void)state;
    uv_loop_init(&loop);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct agent_stream *s;
        int pair[2];
        said = ended = 0;
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        assert_int_equal(agent_stream_open(&s, &loop, pair[0], &ours, &hooks, NULL), 0);
        say(pair[1], rows[i].number, rows[i].first);
        say(pair[1], WIRE_KEEPALIVE, rows[i].second);
        assert_true(run_until(rows[i].said == 2 ? &said : &ended, rows[i].said == 2 ? 2 : 1, PATIENCE_MS));
        assert_int_equal(said, rows[i].said);
        if (!ended)
            agent_stream_close(s);
        uv_run(&loop, UV_RUN_DEFAULT);
        close(pair[1]);
    }
    assert_int_equal(uv_loop_close(&loop), 0);
}

/* --- the last spooled events ------------------------------------------------------------------- */

static int events, lost;
static int64_t last_seq;

static void on_event(void *arg, enum wire_message number, const json_t *body)
{
    const struct wire_id its = wire_id_of(body), ours = {7, 1, nonce};
    (void)arg;
    assert_int_equal(number, WIRE_EVENT);
    assert_true(wire_id_same(&its, &ours));
    assert_int_equal(lost, 0);
    last_seq = json_integer_value(json_object_get(body, "seq"));
    events++;
}

static void on_lost(void *arg, const char *text)
{
    (void)arg;
    assert_string_equal(text, "it died");
    lost++;
}

static int64_t two_are_known(void *arg)
{
    (void)arg;
    return 2;
}

/* The unacknowledged spooled events are delivered, then the loss is reported. */
static void what_a_dead_agent_has_spooled_is_heard(void **state)
{
    struct spool *spool;
    char path[300];
    const struct remote_link_spec spec = {.job = 7, .attempt = 1, .nonce = nonce, .run_dir = dir};
    const struct remote_link_hooks hooks = {.message = on_event, .lost = on_lost,
                                            .acked = two_are_known};
    (void)state;
    make_place();
    in_dir(path, RUN_DIR_SPOOL);
    assert_int_equal(spool_open(&spool, path, 65536, NULL), 0);
    for (int i = 0; i < 5; i++) {
        json_t *event = json_pack("{s:i, s:i, s:i, s:s, s:{}}", "incarnation", 1, "mono_ns", i,
                                  "wall_ms", i, "kind", "facts", "body");
        assert_int_equal(spool_append(spool, event, false, NULL), 0);
        json_decref(event);
    }
    spool_close(spool);
    uv_loop_init(&loop);
    struct remote_link *link = remote_link_create(sizeof(*link), &loop, &spec, &hooks, NULL);
    snprintf(link->text, sizeof(link->text), "it died");
    remote_link_read_spool(link);
    assert_int_equal(events, 3);
    assert_int_equal(last_seq, 5);
    assert_int_equal(lost, 1);
    remote_link_close(link);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
    assert_int_equal(down(state), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_this_attempt_is_heard),
        cmocka_unit_test(what_a_dead_agent_has_spooled_is_heard),
        cmocka_unit_test_setup_teardown(a_wire_that_falls_silent_is_given_up_and_another_one_taken,
                                        up_between, down_between),
    };
    if (draw_nonce() < 0)
        return 1;
    return cmocka_run_group_tests_name("agent_channel", tests, NULL, NULL);
}
