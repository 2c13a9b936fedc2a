/* SPDX-License-Identifier: Apache-2.0 */
/* test_attach.c - attach on another machine: find and start an agent, relay, clean up */
#include "tests/process/agent/attempt/agent_fixture.h"

#include <limits.h>

#include "agent/attempt/attach.h"
#include "agent/ranks/capture.h"
#include "agent/wire/log_feed.h"
#include "controller/remote/log_copy.h"
#include "engine/base/clock.h"

static char host_cache[300];


static int up_place(void **state)
{
    (void)state;
    make_place();
    snprintf(host_cache, sizeof(host_cache), "%s/jobctl/hosted/5-7/1", dir);
    return setenv("XDG_STATE_HOME", dir, 1);
}

/* The same, on the attempt's own directory. */
static int down_place(void **state)
{
    char home[sizeof(dir)], command[200];
    snprintf(home, sizeof(home), "%s", dir);
    struct identity id;
    for (int i = 1; i <= 2; i++) {
        snprintf(host_cache + strlen(host_cache) - 1, 2, "%d", i);
        if (identity_read(&id, host_cache, NULL) == 0 && identity_alive(&id))
            kill((pid_t)id.pid, SIGKILL);
    }
    snprintf(command, sizeof(command), "rm -rf '%s'", home);
    (void)state;
    return system(command);
}

struct hand {
    struct peer peer;
    pid_t       pid;
};

/* A hand with its output read up to the line that says that it is one. */
static bool dismiss;

static void reach(struct hand *h, int attempt, bool may_start, int64_t acked, int64_t have)
{
    int fds[2];
    char line[sizeof(ATTACH_READY)] = "";
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    *h = (struct hand){.peer = {.fd = fds[0]}};
    h->pid = fork();
    if (h->pid == 0) {
        dup2(fds[1], 0);
        dup2(fds[1], 1);
        execl(binary, "jobctl-agent", "attach", NULL);
        _exit(126);
    }
    close(fds[1]);
    assert_int_equal(recv(fds[0], line, strlen(ATTACH_READY), MSG_WAITALL), strlen(ATTACH_READY));
    assert_string_equal(line, ATTACH_READY);
    assert_int_equal(frame_reader_create(&h->peer.reader, TO_CONTROLLER, NULL), 0);
    json_t *body = json_pack("{s:i, s:i, s:s, s:s, s:b, s:b, s:I, s:{s:I}}", "job", 7, "attempt", attempt,
                             "nonce", nonce, "key", "5-7", "may_start", (int)may_start, "dismiss",
                             (int)dismiss, "acked",
                             (json_int_t)acked, "logs", "rank0.log", (json_int_t)have);
    size_t size;
    void *frame = frame_make(WIRE_ATTACH, body, &size, NULL);
    assert_int_equal(send(fds[0], frame, size, 0), (ssize_t)size);
    free(frame);
    json_decref(body);
}

static int leave(struct hand *h)
{
    int status = 0;
    shutdown(h->peer.fd, SHUT_WR);
    assert_int_equal(waitpid(h->pid, &status, 0), h->pid);
    close(h->peer.fd);
    frame_reader_destroy(h->peer.reader);
    return status;
}

/* The next message of the kind, the caller's; others are left out. NULL: the end. */
static json_t *next_message(struct hand *h, enum wire_message wanted)
{
    struct peer *p = &h->peer;
    for (;;) {
        while (p->at < p->size) {
            const struct wire_row *row = NULL;
            json_t *body = NULL;
            struct err err = {0};
            int n = frame_read(p->reader, p->bytes + p->at, p->size - p->at, &row, &body, &err);
            assert_true(n >= 0);
            p->at += (size_t)n;
            if (body && row->number == wanted) {
                assert_int_equal(wire_check(row, body, &err), 0);
                return body;
            }
            json_decref(body);
        }
        struct pollfd fd = {.fd = p->fd, .events = POLLIN};
        assert_int_equal(poll(&fd, 1, PATIENCE_MS), 1);
        ssize_t n = recv(p->fd, p->bytes, sizeof(p->bytes), 0);
        if (n <= 0)
            return NULL;
        p->at = 0;
        p->size = (size_t)n;
    }
}

static int64_t whose(json_t *hello)
{
    assert_non_null(hello);
    int64_t pid = json_integer_value(json_object_get(hello, "pid"));
    json_decref(hello);
    return pid;
}

/* Whoever reaches out again finds the agent that is there; it outlives every hand. Neither waits for anything else,
 * such as the 30 s in which an agent may come up. */
static void starts_once(void **state)
{
    (void)state;
    struct hand first, second;
    const int64_t begin = clock_ms();
    reach(&first, 1, true, 0, 0);
    int64_t pid = whose(next_message(&first, WIRE_HELLO));
    assert_true(pid > 0);
    assert_in_range(clock_ms() - begin, 0, 25000);
    assert_int_equal(leave(&first), 0);
    reach(&first, 1, false, 0, 0);
    assert_int_equal(whose(next_message(&first, WIRE_HELLO)), pid);
    /* A newer hand takes over, and the older one ends by itself, in peace. */
    reach(&second, 1, true, 0, 0);
    assert_int_equal(whose(next_message(&second, WIRE_HELLO)), pid);
    assert_null(next_message(&first, WIRE_AGENT_GONE));
    assert_int_equal(leave(&first), 0);
    assert_int_equal(leave(&second), 0);
}

/* What was logged comes first, from where the other side has it; bytes of any kind. */
static void logs_travel(void **state)
{
    (void)state;
    struct hand h;
    char path[PATH_MAX + 320], bytes[256];
    size_t size = 0;
    for (int i = 0; i < 256; i++)
        bytes[i] = (char)i;
    reach(&h, 1, true, 0, 4);
    whose(next_message(&h, WIRE_HELLO));
    struct capture *c;
    snprintf(path, sizeof(path), "%s/rank0.log", host_cache);
    assert_int_equal(capture_open(&c, path, 1 << 20, NULL), 0);
    capture_write(c, bytes, sizeof(bytes));
    capture_close(c);
    for (bool seen = false; !seen;) {
        json_t *log = next_message(&h, WIRE_LOG);
        assert_non_null(log);
        if (strcmp(json_string_value(json_object_get(log, "file")), "rank0.log") == 0) {
            assert_int_equal(json_integer_value(json_object_get(log, "offset")), 4);
            char *got = log_feed_bytes(json_object_get(log, "data"), &size);
            assert_non_null(got);
            assert_int_equal(size, 252);
            assert_memory_equal(got, bytes + 4, size);
            free(got);
            seen = true;
        }
        json_decref(log);
    }
    assert_int_equal(leave(&h), 0);
}

/* An agent that was killed: its spool to the end, then the word that nothing of it lives. */
static void buries(void **state)
{
    (void)state;
    struct hand h;
    reach(&h, 1, true, 0, 0);
    kill((pid_t)whose(next_message(&h, WIRE_HELLO)), SIGKILL);
    json_t *lost = next_message(&h, WIRE_AGENT_GONE);
    assert_non_null(lost);
    assert_string_equal(json_string_value(json_object_get(lost, "text")),
                        "the agent of attempt 1 died");
    json_decref(lost);
    assert_int_equal(leave(&h), 0);
    /* It never starts again, even if asked to. */
    assert_true(run_dir_fenced(host_cache));
    reach(&h, 1, true, 0, 0);
    lost = next_message(&h, WIRE_AGENT_GONE);
    assert_non_null(lost);
    json_decref(lost);
    assert_int_equal(leave(&h), 0);
}

/* Another hand's agent has the directory and has not yet said who it is: it is waited for, not buried. */
static void waits_for_one_that_comes_up(void **state)
{
    (void)state;
    struct hand h;
    char command[PATH_MAX + 320];
    snprintf(command, sizeof(command), "umask 077; mkdir -p '%s'", host_cache);
    assert_int_equal(system(command), 0);
    int lock = run_dir_lock(host_cache, NULL);
    assert_true(lock >= 0);
    reach(&h, 1, true, 0, 0);
    poll(NULL, 0, 400); /* so long it could believe that none will come */
    close(lock);
    assert_true(whose(next_message(&h, WIRE_HELLO)) > 0);
    assert_int_equal(leave(&h), 0);
    assert_false(run_dir_fenced(host_cache));
}

/* Without leave to start one, none is started. */
static void finds_nobody(void **state)
{
    (void)state;
    struct hand h;
    reach(&h, 1, false, 0, 0);
    json_t *lost = next_message(&h, WIRE_AGENT_GONE);
    assert_non_null(lost);
    assert_string_equal(json_string_value(json_object_get(lost, "text")),
                        "the agent of attempt 1 never started");
    json_decref(lost);
    assert_int_equal(leave(&h), 0);
}

/* The second attempt ends what lives of the first one, before anything of it is started. */
static void succeeds_alone(void **state)
{
    (void)state;
    struct hand first, second;
    struct identity older;
    reach(&first, 1, true, 0, 0);
    whose(next_message(&first, WIRE_HELLO));
    assert_int_equal(identity_read(&older, host_cache, NULL), 0);
    reach(&second, 2, true, 0, 0);
    whose(next_message(&second, WIRE_HELLO));
    assert_false(identity_alive(&older));
    assert_true(run_dir_fenced(host_cache));
    leave(&first);
    assert_int_equal(leave(&second), 0);
}

/* Told so, a hand ends a living agent and says that nothing is left. */
static void dismisses(void **state)
{
    (void)state;
    struct hand first, second;
    struct identity who;
    reach(&first, 1, true, 0, 0);
    whose(next_message(&first, WIRE_HELLO));
    assert_int_equal(identity_read(&who, host_cache, NULL), 0);
    dismiss = true;
    reach(&second, 1, false, 0, 0);
    dismiss = false;
    json_t *lost = next_message(&second, WIRE_AGENT_GONE);
    assert_non_null(lost);
    json_decref(lost);
    assert_false(identity_alive(&who));
    assert_true(run_dir_fenced(host_cache));
    leave(&first);
    assert_int_equal(leave(&second), 0);
}

/* Somebody else's directory, or one that others may write to, is not used. */
static void wants_privacy(void **state)
{
    (void)state;
    struct hand h;
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/jobctl", dir);
    mkdir(path, 0700);
    snprintf(path, sizeof(path), "%s/jobctl/hosted", dir);
    mkdir(path, 0700);
    snprintf(path, sizeof(path), "%s/jobctl/hosted/5-7", dir);
    mkdir(path, 0700);
    chmod(path, 0777);
    reach(&h, 1, true, 0, 0);
    assert_null(next_message(&h, WIRE_HELLO));
    assert_int_not_equal(leave(&h), 0);
}

static void carries(void **state)
{
    static const struct { const char *file; bool yes; } rows[] = {
        {"rank0.log", true}, {"rank12345.log", true}, {"setup.log", true}, {"agent.log", true},
        {"rank.log", false}, {"rank0.log.1", false}, {"rank0.log/../x", false}, {"spool", false},
        {"rank123456.log", false}, {"setup.node3.log", true}, {"setup.node.log", false}, {"../rank0.log", false}, {"", false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_int_equal(log_feed_carries(rows[i].file), rows[i].yes);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {   /* nor does a controller take them */
        json_t *body = json_pack("{s:s, s:i, s:s}", "file", rows[i].file, "offset", 0, "data", "");
        assert_int_equal(log_copy_take("/nowhere", body, NULL), rows[i].yes ? 0 : -1);
        json_decref(body);
    }
}

static void refuses_bytes(void **state)
{
    static const char *const texts[] = {"\"\\u0101\"", "\"\\u20ac\"", "\"\\ud83d\\ude00\"", "7"};
    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        size_t size;
        json_t *v = json_loads(texts[i], JSON_DECODE_ANY, NULL);
        assert_non_null(v);
        assert_null(log_feed_bytes(v, &size));
        json_decref(v);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(carries),
        cmocka_unit_test(refuses_bytes),
        cmocka_unit_test_setup_teardown(starts_once, up_place, down_place),
        cmocka_unit_test_setup_teardown(logs_travel, up_place, down_place),
        cmocka_unit_test_setup_teardown(buries, up_place, down_place),
        cmocka_unit_test_setup_teardown(waits_for_one_that_comes_up, up_place, down_place),
        cmocka_unit_test_setup_teardown(finds_nobody, up_place, down_place),
        cmocka_unit_test_setup_teardown(succeeds_alone, up_place, down_place),
        cmocka_unit_test_setup_teardown(dismisses, up_place, down_place),
        cmocka_unit_test_setup_teardown(wants_privacy, up_place, down_place),
    };
    unsigned char bits[16];
    assert_int_equal(getrandom(bits, sizeof(bits), 0), sizeof(bits));
    for (size_t i = 0; i < sizeof(bits); i++)
        snprintf(nonce + 2 * i, 3, "%02x", bits[i]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
