/* SPDX-License-Identifier: Apache-2.0 */
/* agent_fixture.h - the real jobctl-agent in a private directory, and a controller that talks to it
 * over its socket; for test_agent*.c, each of which is one program */
#ifndef TESTS_AGENT_FIXTURE_H
#define TESTS_AGENT_FIXTURE_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/attempt/spool.h"
#include "agent/os/identity.h"
#include "agent/os/run_dir.h"
#include "agent/os/unix_socket.h"
#include "agent/ranks/cleanup_pass.h"
#include "agent/wire/frame.h"
#include "engine/base/err.h"
#include "engine/contract/flight.h"
#include "tests/unit/engine/contract/scratch_dir.h"

/* Drawn at the start: agents end what carries their nonce, and two runs of this test on one
 * machine must not end each other's. */
static char nonce[33];
enum { PATIENCE_MS = 60000 };

static char dir[100], binary[4096];

/* One connection to the agent. */
struct peer {
    int fd;
    struct frame_reader *reader;
    char bytes[65536];
    size_t at, size;
    int64_t seq; /* of the last event */
    json_t *hello, *event;
};

static inline int64_t now_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static inline void in_dir(char *out, const char *name) /* out: 300 bytes */
{
    snprintf(out, 300, "%s/%s", dir, name);
}

static inline void read_file(const char *name, char *out, size_t size)
{
    char path[300];
    in_dir(path, name);
    out[0] = '\0';
    int fd = open(path, O_RDONLY);
    ssize_t n = fd < 0 ? 0 : read(fd, out, size - 1);
    out[n > 0 ? n : 0] = '\0';
    if (fd >= 0)
        close(fd);
}

/* --- starting and ending ---------------------------------------------------------------- */

static inline int start_agent(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        setenv("JOBCTL_AGENT_NONCE", nonce, 1);
        setenv("RANK", "77", 1); /* of another launcher: must not reach the ranks */
        execl(binary, "jobctl-agent", "run", "--dir", dir, "--job", "7", "--attempt", "1", NULL);
        _exit(126);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WEXITSTATUS(status);
}

static inline void make_place(void)
{
    scratch_dir_create(dir, sizeof(dir), "agent");
    ssize_t n = readlink("/proc/self/exe", binary, sizeof(binary) - 1);
    binary[n] = '\0';
    /* .../obj/tests/process/.../test_agent */
    char *objects = strstr(binary, "/obj/tests/");
    assert_non_null(objects);
    *objects = '\0';
    strcat(binary, "/bin/jobctl-agent");
}

static inline int up(void **state)
{
    (void)state;
    make_place();
    return start_agent();
}

static inline int64_t agent_pid(void)
{
    struct identity id;
    if (identity_read(&id, dir, NULL) < 0 || !identity_alive(&id))
        return 0;
    return id.pid;
}

/* Ends the agent if it is still there, and whatever carries the mark. */
static inline int down(void **state)
{
    (void)state;
    int64_t pid = agent_pid();
    if (pid > 0)
        kill((pid_t)pid, SIGKILL);
    struct cleanup_pass s = {.nonce = nonce, .signo = SIGKILL};
    int left = 1;
    for (int i = 0; i < 1000 && (left || agent_pid()); i++) {
        left = cleanup_pass_run(&s, NULL, 0);
        poll(NULL, 0, 2);
    }
    static char log[1 << 20];
    read_file("agent.log", log, sizeof(log));
    if (strstr(log, "Sanitizer") || strstr(log, "runtime error")) {
        print_message("%s\n", log);
        left++;
    }
    return scratch_dir_remove(dir) == 0 ? left : -1;
}

/* --- talking ---------------------------------------------------------------------------- */

static inline void hang_up(struct peer *p)
{
    if (p->fd >= 0)
        close(p->fd);
    frame_reader_destroy(p->reader);
    json_decref(p->hello);
    json_decref(p->event);
    p->reader = NULL;
    p->hello = p->event = NULL;
    p->fd = -1;
}

/* The next message, or NULL when the agent has closed the connection. */
static inline json_t *receive(struct peer *p, enum wire_message *number)
{
    int64_t end = now_ms() + PATIENCE_MS;
    for (;;) {
        const struct wire_row *row;
        json_t *body;
        struct err err = {0};
        while (p->at < p->size) {
            int used = frame_read(p->reader, p->bytes + p->at, p->size - p->at, &row, &body, &err);
            if (used < 0)
                fail_msg("%s", err.text);
            p->at += (size_t)used;
            if (body) {
                *number = row->number;
                return body;
            }
        }
        struct pollfd pf = {.fd = p->fd, .events = POLLIN};
        if (poll(&pf, 1, (int)(end - now_ms())) <= 0) {
            char log[8192];
            read_file("agent.log", log, sizeof(log));
            fail_msg("the agent says nothing; its log:\n%s", log);
        }
        ssize_t n = read(p->fd, p->bytes, sizeof(p->bytes));
        if (n <= 0)
            return NULL;
        p->at = 0;
        p->size = (size_t)n;
    }
}

static inline void send_to(struct peer *p, enum wire_message number, json_t *body)
{
    struct err err = {0};
    size_t size;
    json_object_set_new(body, "job", json_integer(7));
    json_object_set_new(body, "attempt", json_integer(1));
    if (!json_object_get(body, "nonce"))
        json_object_set_new(body, "nonce", json_string(nonce));
    char *frame = frame_make(number, body, &size, &err);
    if (!frame)
        fail_msg("%s", err.text);
    assert_int_equal(send(p->fd, frame, size, MSG_NOSIGNAL), size);
    free(frame);
    json_decref(body);
}

static inline void dial(struct peer *p)
{
    char path[300];
    struct err err = {0};
    enum wire_message number;
    *p = (struct peer){0};
    in_dir(path, "agent.sock");
    p->fd = unix_socket_connect(path, false, &err);
    if (p->fd < 0)
        fail_msg("%s", err.text);
    assert_int_equal(frame_reader_create(&p->reader, TO_CONTROLLER, NULL), 0);
    p->hello = receive(p, &number);
    assert_non_null(p->hello);
    assert_int_equal(number, WIRE_HELLO);
}

/* The body of a LAUNCH; takes the spec. */
static inline json_t *launch_body(json_t *spec, int64_t acked)
{
    char ckpt[300];
    in_dir(ckpt, "checkpoints");
    json_object_set_new(spec, "workdir", json_string(dir));
    return json_pack("{s:s, s:o, s:s, s:s, s:s, s:s, s:I, s:{}, s:{s:i, s:i, s:i, s:i},"
                     " s:{s:i, s:i, s:i, s:s}}",
                     "name", "test", "spec", spec, "spec_digest", "", "run_dir", dir, "job_dir",
                     dir, "ckpt_dir", ckpt, "acked", (json_int_t)acked, "secrets", "budget",
                     "restarts", 5, "backoff_min_ms", 100, "backoff_max_ms", 400, "no_progress", 3,
                     "history", "failures_without_progress", 0, "same_fingerprint", 0, "last_step",
                     0, "fingerprint", "");
}

static inline void launch_spec(struct peer *p, json_t *spec, int64_t acked)
{
    send_to(p, WIRE_LAUNCH, launch_body(spec, acked));
}

/* One of several nodes. */
static inline void launch_group(struct peer *p, json_t *spec, json_t *group)
{
    json_t *body = launch_body(spec, 0);
    json_object_set_new(body, "group", group);
    send_to(p, WIRE_LAUNCH, body);
}

static inline void launch(struct peer *p, const char *run, int ranks)
{
    launch_spec(p,
                json_pack("{s:s, s:{s:i}, s:{s:s}}", "run", run, "resources", "ranks", ranks, "env",
                          "GREETING", "hello world"),
                0);
}

/* Reads events until one of this kind; it is p->event then. Seqs have no gaps. */
static inline json_t *await(struct peer *p, const char *kind)
{
    for (;;) {
        enum wire_message number;
        json_t *body = receive(p, &number);
        if (!body)
            fail_msg("the agent hung up before %s", kind);
        if (number != WIRE_EVENT) {
            json_decref(body);
            continue;
        }
        int64_t seq = json_integer_value(json_object_get(body, "seq"));
        if (p->seq)
            assert_int_equal(seq, p->seq + 1);
        p->seq = seq;
        json_decref(p->event);
        p->event = body;
        const char *got = json_string_value(json_object_get(body, "kind"));
        if (strcmp(got, kind) == 0)
            return json_object_get(body, "body");
        if (strcmp(got, "attempt_ended") == 0)
            fail_msg("the attempt ended (%s) before %s",
                     json_string_value(json_object_get(json_object_get(body, "body"), "text")), kind);
    }
}

static inline void ack(struct peer *p)
{
    send_to(p, WIRE_ACK, json_pack("{s:I}", "seq", (json_int_t)p->seq));
}

static inline const char *text(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "(none)";
}

static inline int64_t integer(const json_t *o, const char *key)
{
    return json_integer_value(json_object_get(o, key));
}

static inline pid_t first_pid(const json_t *started)
{
    return (pid_t)json_integer_value(json_array_get(json_object_get(started, "pids"), 0));
}

/* After the last ack the agent leaves, and takes its socket along. */
static inline void expect_gone(void)
{
    char path[300];
    for (int i = 0; i < PATIENCE_MS / 5 && agent_pid(); i++)
        poll(NULL, 0, 5);
    assert_int_equal(agent_pid(), 0);
    in_dir(path, "agent.sock");
    assert_int_equal(access(path, F_OK), -1);
}

/* Each run has a nonce of its own. */
static inline int draw_nonce(void)
{
    unsigned char raw[16];
    if (getrandom(raw, sizeof(raw), 0) != sizeof(raw))
        return -1;
    for (size_t i = 0; i < sizeof(raw); i++)
        snprintf(nonce + 2 * i, 3, "%02x", raw[i]);
    return 0;
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, up, down)

#endif
