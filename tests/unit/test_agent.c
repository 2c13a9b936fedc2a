/* SPDX-License-Identifier: Apache-2.0 */
/* test_agent.c - the real jobctl-agent over its socket: lives, deaths, stops, absent controllers */
#include <dirent.h>
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

#include "agent/frame.h"
#include "agent/identity.h"
#include "agent/run_dir.h"
#include "agent/spool.h"
#include "agent/sweep.h"
#include "agent/unix_socket.h"
#include "engine/err.h"
#include "engine/flight.h"

/* Drawn at the start: agents end what carries their nonce, and two runs of this test on one
 * machine must not end each other's. */
static char nonce[33];
enum { PATIENCE_MS = 20000 };

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

static int64_t now_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static void in_dir(char *out, const char *name) /* out: 300 bytes */
{
    snprintf(out, 300, "%s/%s", dir, name);
}

static void read_file(const char *name, char *out, size_t size)
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

static int start_agent(void)
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

static void make_place(void)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(dir, sizeof(dir), "%.50s/agent.XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(dir));
    ssize_t n = readlink("/proc/self/exe", binary, sizeof(binary) - 1);
    binary[n] = '\0';
    /* .../obj/tests/unit/test_agent */
    for (int i = 0; i < 4; i++)
        *strrchr(binary, '/') = '\0';
    strcat(binary, "/bin/jobctl-agent");
}

static int up(void **state)
{
    (void)state;
    make_place();
    return start_agent();
}

/* An engine in shell: it speaks and obeys as engine/progress.h says. */
static const char fake_engine[] =
    "#!/bin/sh\n"
    "test \"$1 $2 $3\" = \"train --spec $JOBCTL_RUN_DIR/spec.json\" || exit 70\n"
    "grep -q bad_config \"$3\" && { echo 'train.steps: bad' >&2; exit 64; }\n"
    "say() { echo \"$1\" >&3; }\n"
    "save() { say '{\"ev\":\"checkpoint\",\"step\":5,\"path\":\"/c/5\",\"digest\":\"d\"}'; }\n"
    "trap 'exit 99' TERM\n"
    "say '{\"ev\":\"started\",\"rank\":0,\"world_size\":1,\"resume_step\":0,\"steps\":9}'\n"
    "say '{\"ev\":\"step\",\"step\":5,\"steps\":9,\"loss\":0.25}'\n"
    "while read -r line <&4; do\n"
    "  save\n"
    "  case $line in *stop*) exit 75 ;; esac\n"
    "done\n"
    "exit 75\n";

/* The agent looks for the engine beside itself, so it is copied beside this one. */
static int up_engine(void **state)
{
    (void)state;
    char path[300], command[4600];
    make_place();
    in_dir(path, "jobctl-train");
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0700);
    assert_int_equal(write(fd, fake_engine, sizeof(fake_engine) - 1), sizeof(fake_engine) - 1);
    close(fd);
    snprintf(command, sizeof(command), "cp '%s' '%s/jobctl-agent'", binary, dir);
    assert_int_equal(system(command), 0);
    in_dir(binary, "jobctl-agent");
    return start_agent();
}

static int64_t agent_pid(void)
{
    struct identity id;
    if (identity_read(&id, dir, NULL) < 0 || !identity_alive(&id))
        return 0;
    return id.pid;
}

/* Ends the agent if it is still there, and whatever carries the mark. */
static int down(void **state)
{
    (void)state;
    int64_t pid = agent_pid();
    if (pid > 0)
        kill((pid_t)pid, SIGKILL);
    struct sweep s = {.nonce = nonce, .kill = true};
    int left = 1;
    for (int i = 0; i < 1000 && (left || agent_pid()); i++) {
        left = sweep_run(&s, NULL, 0);
        poll(NULL, 0, 2);
    }
    static char log[1 << 20];
    read_file("agent.log", log, sizeof(log));
    if (strstr(log, "Sanitizer") || strstr(log, "runtime error")) {
        print_message("%s\n", log);
        left++;
    }
    DIR *d = opendir(dir);
    for (struct dirent *e; (e = readdir(d));)
        unlinkat(dirfd(d), e->d_name, 0);
    closedir(d);
    rmdir(dir);
    return left;
}

/* --- talking ---------------------------------------------------------------------------- */

static void hang_up(struct peer *p)
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
static json_t *receive(struct peer *p, enum wire_message *number)
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

static void send_to(struct peer *p, enum wire_message number, json_t *body)
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

static void dial(struct peer *p)
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

static void launch_spec(struct peer *p, json_t *spec, int64_t acked)
{
    char ckpt[300];
    in_dir(ckpt, "checkpoints");
    json_object_set_new(spec, "workdir", json_string(dir));
    send_to(p, WIRE_LAUNCH,
            json_pack("{s:s, s:o, s:s, s:s, s:s, s:s, s:I, s:{}, s:{s:i, s:i, s:i, s:i},"
                      " s:{s:i, s:i, s:i, s:s}}",
                      "name", "test", "spec", spec, "spec_digest", "", "run_dir", dir, "job_dir",
                      dir, "ckpt_dir", ckpt, "acked", (json_int_t)acked, "secrets", "budget",
                      "restarts", 5, "backoff_min_ms", 100, "backoff_max_ms", 400, "no_progress", 3,
                      "history", "failures_without_progress", 0, "same_fingerprint", 0, "last_step",
                      0, "fingerprint", ""));
}

static void launch(struct peer *p, const char *run, int ranks)
{
    launch_spec(p,
                json_pack("{s:s, s:{s:i}, s:{s:s}}", "run", run, "resources", "ranks", ranks, "env",
                          "GREETING", "hello world"),
                0);
}

/* Reads events until one of this kind; it is p->event then. Seqs have no gaps. */
static json_t *await(struct peer *p, const char *kind)
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
                     json_string_value(json_object_get(json_object_get(body, "body"), "text")),
                     kind);
    }
}

static void ack(struct peer *p)
{
    send_to(p, WIRE_ACK, json_pack("{s:I}", "seq", (json_int_t)p->seq));
}

static const char *text(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "(none)";
}

static int64_t integer(const json_t *o, const char *key)
{
    return json_integer_value(json_object_get(o, key));
}

static pid_t first_pid(const json_t *started)
{
    return (pid_t)json_integer_value(json_array_get(json_object_get(started, "pids"), 0));
}

/* After the last ack the agent leaves, and takes its socket along. */
static void expect_gone(void)
{
    char path[300];
    for (int i = 0; i < PATIENCE_MS / 5 && agent_pid(); i++)
        poll(NULL, 0, 5);
    assert_int_equal(agent_pid(), 0);
    in_dir(path, "agent.sock");
    assert_int_equal(access(path, F_OK), -1);
}

/* --- the tests -------------------------------------------------------------------------- */

static void a_command_runs_to_the_end(void **state)
{
    (void)state;
    struct peer p;
    char log[4096];
    dial(&p);
    assert_int_equal(json_is_true(json_object_get(p.hello, "launched")), 0);
    assert_int_equal(integer(p.hello, "last_seq"), 0);
    launch(&p,
           "echo $GREETING; echo err >&2; echo rank $RANK of $WORLD_SIZE at $MASTER_ADDR,"
           " restarts $TORCHELASTIC_RESTART_COUNT, threads $OMP_NUM_THREADS;"
           " test $MASTER_PORT -gt 1023 && test -f $JOBCTL_FLIGHT && pwd",
           2);
    assert_int_equal(integer(await(&p, "plan"), "np"), 2);
    assert_int_equal(json_array_size(json_object_get(await(&p, "generation_started"), "pids")), 2);
    json_t *ended = await(&p, "attempt_ended");
    assert_string_equal(text(ended, "result"), "succeeded");
    assert_true(json_is_true(json_object_get(ended, "clean")));
    read_file("rank1.log", log, sizeof(log));
    char want[300];
    snprintf(want, sizeof(want),
             "hello world\nerr\nrank 1 of 2 at 127.0.0.1, restarts 0, "
             "threads 1\n%s\n",
             dir);
    assert_string_equal(log, want);
    assert_true(agent_pid() > 0); /* it waits for the ack */
    ack(&p);
    expect_gone();
    hang_up(&p);
}

static void setup_runs_once_and_events_flow(void **state)
{
    (void)state;
    struct peer p;
    char log[4096];
    dial(&p);
    launch_spec(&p,
                json_pack("{s:s, s:s}", "setup", "echo installing; echo x >> installed; sleep 70 & echo $! > service", "run",
                          "echo '{\"ev\":\"started\",\"resume_step\":0,\"steps\":9}' >&3;"
                          "echo '{\"ev\":\"step\",\"step\":4,\"loss\":0.5}' >&3;"
                          "echo 'not json' >&3;"
                          "echo '{\"ev\":\"checkpoint\",\"step\":4,\"path\":\"/c/4\"}' >&3;"
                          "if [ $JOBCTL_GENERATION = 1 ]; then echo bang; exit 3; fi;"
                          "kill -0 $(cat service) && echo resumed at $JOBCTL_RESUME_STEP"),
                0);
    await(&p, "setup_started");
    assert_int_equal(integer(await(&p, "setup_done"), "exit_code"), 0);
    assert_int_equal(integer(await(&p, "rank_started"), "steps"), 9);
    assert_int_equal(integer(await(&p, "step"), "step"), 4);
    assert_string_equal(text(await(&p, "checkpoint"), "path"), "/c/4");
    json_t *ended = await(&p, "generation_ended");
    assert_string_equal(text(ended, "cause"), "user_exit");
    assert_int_equal(integer(ended, "gained"), 4);
    assert_string_equal(json_string_value(json_array_get(json_object_get(ended, "evidence"), 0)),
                        "bang");
    assert_non_null(strstr(text(await(&p, "restart_scheduled"), "text"), "checkpoint of step 4"));
    assert_string_equal(text(await(&p, "attempt_ended"), "result"), "succeeded");
    read_file("rank0.log", log, sizeof(log));
    assert_string_equal(log, "bang\n--- generation 2, from the checkpoint of step 4 ---\n"
                             "resumed at 4\n");
    read_file("installed", log, sizeof(log));
    assert_string_equal(log, "x\n");
    read_file("setup.log", log, sizeof(log));
    assert_string_equal(log, "installing\n");
    ack(&p);
    expect_gone();
    hang_up(&p);
}

static int by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static int64_t now_us(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

/* Times are until the event has been stored, sent and read here. */
static void killed_ranks_are_back_at_once(void **state)
{
    (void)state;
    enum { KILLS = 11 };
    int64_t noticed[KILLS], back[KILLS];
    struct peer p;
    dial(&p);
    launch(&p,
           "echo '{\"ev\":\"checkpoint\",\"step\":'$JOBCTL_GENERATION',\"path\":\"x\"}' >&3;"
           "sleep 50 & if [ $JOBCTL_GENERATION -le 11 ]; then wait; fi; kill $!; exit 0",
           1);
    pid_t pid = first_pid(await(&p, "generation_started"));
    for (int i = 0; i < KILLS; i++) {
        await(&p, "checkpoint");
        int64_t before = now_us();
        assert_int_equal(kill(pid, SIGKILL), 0);
        json_t *ended = await(&p, "generation_ended");
        noticed[i] = now_us() - before;
        assert_string_equal(text(ended, "cause"), "rank_crash");
        assert_string_equal(text(ended, "text"), "rank 0 was killed by SIGKILL (9)");
        json_t *started = await(&p, "generation_started");
        back[i] = now_us() - before;
        assert_int_equal(integer(started, "generation"), i + 2);
        assert_int_equal(integer(started, "resume_step"), i + 1);
        pid = first_pid(started);
    }
    qsort(noticed, KILLS, sizeof(noticed[0]), by_size);
    qsort(back, KILLS, sizeof(back[0]), by_size);
    print_message("             noticed: median %.1f ms, worst %.1f ms; next generation: median "
                  "%.1f ms, worst %.1f ms\n",
                  (double)noticed[KILLS / 2] / 1e3, (double)noticed[KILLS - 1] / 1e3,
                  (double)back[KILLS / 2] / 1e3, (double)back[KILLS - 1] / 1e3);
#ifndef __SANITIZE_ADDRESS__
    assert_true(noticed[KILLS / 2] < 50000);
#endif
    assert_true(back[KILLS / 2] < 500000);
    json_t *last = await(&p, "attempt_ended");
    assert_string_equal(text(last, "result"), "succeeded");
    assert_true(json_is_true(json_object_get(last, "clean")));
    ack(&p);
    expect_gone();
    hang_up(&p);
}

static void one_dead_rank_ends_the_others(void **state)
{
    (void)state;
    struct peer p;
    dial(&p);
    launch(&p,
           "if [ $RANK = 1 ] && [ $JOBCTL_GENERATION = 1 ]; then exit 9; fi;"
           "if [ $JOBCTL_GENERATION = 1 ]; then sleep 60; fi",
           3);
    json_t *ended = await(&p, "generation_ended");
    assert_int_equal(integer(ended, "rank"), 1);
    assert_int_equal(integer(ended, "exit_code"), 9);
    assert_string_equal(text(await(&p, "attempt_ended"), "result"), "succeeded");
    hang_up(&p);
}

static void hopeless_jobs_end(void **state)
{
    (void)state;
    struct peer p;
    dial(&p);
    launch(&p, "echo no luck >&2; exit 5", 1);
    json_t *last = await(&p, "attempt_ended");
    assert_string_equal(text(last, "text"), "the same failure 3 times without progress: "
                                            "rank 0 exited with code 5: no luck");
    assert_true(json_is_true(json_object_get(last, "gave_up")));
    assert_int_equal(integer(last, "generations"), 3);
    hang_up(&p);
}

static void what_cannot_run_is_refused_with_the_fix(void **state)
{
    (void)state;
    struct peer p;
    dial(&p);
    launch_spec(&p, json_pack("{s:s, s:{s:i}}", "run", "true", "resources", "gpus", 99), 0);
    json_t *last = await(&p, "attempt_ended");
    assert_string_equal(text(last, "cause"), "config_error");
    assert_non_null(strstr(text(last, "text"), "set `gpus: auto`"));
    assert_false(json_is_true(json_object_get(last, "retry_helps")));
    hang_up(&p);
}

static void stop_leaves_nothing(void **state)
{
    (void)state;
    struct peer p;
    struct sweep look = {.nonce = nonce};
    dial(&p);
    /* one that ignores SIGTERM, with a child in a session of its own that does too */
    launch(&p,
           "trap '' TERM; (trap '' TERM; setsid sleep 77 & wait) & echo up >&3;"
           "echo '{\"ev\":\"sample\",\"step\":1,\"path\":\"up\"}' >&3; while :; do sleep 1; done",
           1);
    await(&p, "sample");
    assert_true(sweep_run(&look, NULL, 0) >= 2);
    int64_t before = now_ms();
    send_to(&p, WIRE_STOP,
            json_pack("{s:s, s:i, s:b}", "reason", "cancelled by a test", "grace_ms", 200,
                      "checkpoint", 0));
    assert_string_equal(text(await(&p, "stop_asked"), "reason"), "cancelled by a test");
    json_t *last = await(&p, "attempt_ended");
    int64_t took = now_ms() - before;
    assert_string_equal(text(last, "result"), "stopped");
    assert_true(json_is_true(json_object_get(last, "clean")));
    assert_true(took >= 200 && took < 3000);
    char left[300];
    assert_int_equal(sweep_run(&look, left, sizeof(left)), 0);
    ack(&p);
    expect_gone();
    hang_up(&p);
}

static void an_engine_saves_and_stops_on_request(void **state)
{
    (void)state;
    struct peer p;
    dial(&p);
    launch_spec(&p, json_pack("{s:{s:i}}", "train", "steps", 9), 0);
    assert_int_equal(integer(await(&p, "step"), "step"), 5);
    send_to(&p, WIRE_CHECKPOINT, json_object());
    assert_string_equal(text(await(&p, "checkpoint"), "path"), "/c/5");
    int64_t before = now_ms();
    send_to(&p, WIRE_STOP,
            json_pack("{s:s, s:i, s:b}", "reason", "hold", "grace_ms", 20000, "checkpoint", 1));
    await(&p, "checkpoint"); /* it had the time to save: no SIGTERM yet */
    assert_int_equal(integer(await(&p, "rank_exited"), "exit_code"), 75);
    json_t *last = await(&p, "attempt_ended");
    assert_true(now_ms() - before < 5000);
    assert_string_equal(text(last, "result"), "stopped");
    assert_string_equal(text(last, "cause"), "none");
    assert_int_equal(integer(last, "step"), 5);
    ack(&p);
    expect_gone();
    hang_up(&p);
}

static void a_wrong_configuration_is_not_tried_again(void **state)
{
    (void)state;
    struct peer p;
    dial(&p);
    launch_spec(&p, json_pack("{s:{s:s}}", "train", "x", "bad_config"), 0);
    json_t *last = await(&p, "attempt_ended");
    assert_string_equal(text(last, "cause"), "config_error");
    assert_int_equal(integer(last, "generations"), 1);
    assert_int_equal(integer(last, "exit_code"), 64);
    hang_up(&p);
}

static void the_controller_may_vanish_and_return(void **state)
{
    (void)state;
    struct peer p, q;
    char path[300];
    dial(&p);
    launch(&p, "while [ ! -e go ]; do sleep 0.02; done; echo done", 1);
    await(&p, "generation_started");
    int64_t seen = p.seq;
    hang_up(&p); /* without an ack */
    in_dir(path, "go");
    fclose(fopen(path, "w"));
    dial(&q);
    assert_true(json_is_true(json_object_get(q.hello, "launched")));
    assert_int_equal(integer(q.hello, "first_seq"), 1);
    launch(&q, "echo must not run", 1); /* the same nonce: only its acked counts */
    await(&q, "facts");                 /* everything from the first on, again */
    assert_int_equal(q.seq, 1);
    assert_string_equal(text(await(&q, "attempt_ended"), "result"), "succeeded");
    int64_t last = q.seq;
    hang_up(&q);
    dial(&q); /* once more, with an ack of a part */
    launch_spec(&q, json_object(), seen);
    await(&q, "attempt_ended");
    assert_int_equal(q.seq, last);
    ack(&q);
    expect_gone();
    char log[200];
    read_file("rank0.log", log, sizeof(log));
    assert_string_equal(log, "done\n");
    hang_up(&q);
}

static void a_newer_connection_counts_and_strangers_are_refused(void **state)
{
    (void)state;
    struct peer p, q;
    enum wire_message number;
    dial(&p);
    dial(&q);
    assert_null(receive(&p, &number)); /* the older one is closed */
    hang_up(&p);
    send_to(&q, WIRE_STOP,
            json_pack("{s:s, s:s, s:i, s:b}", "nonce", "ffff", "reason", "x", "grace_ms", 1,
                      "checkpoint", 0));
    assert_null(receive(&q, &number)); /* another attempt's word is not obeyed */
    hang_up(&q);
    dial(&q);
    assert_int_equal(send(q.fd, "GET / HTTP/1.0\r\n\r\n", 18, MSG_NOSIGNAL), 18);
    assert_null(receive(&q, &number));
    hang_up(&q);
    dial(&q);
    launch(&q, "true", 1);
    await(&q, "attempt_ended");
    hang_up(&q);
}

static int find_end(void *arg, const json_t *event)
{
    int64_t *seen = arg;
    seen[0]++;
    if (strcmp(json_string_value(json_object_get(event, "kind")), "checkpoint") == 0)
        seen[1]++;
    return 0;
}

static void a_killed_agent_leaves_its_spool_and_no_ranks(void **state)
{
    (void)state;
    struct peer p;
    char path[300];
    dial(&p);
    launch(&p, "echo '{\"ev\":\"checkpoint\",\"step\":4,\"path\":\"/c/4\"}' >&3; sleep 60", 1);
    await(&p, "checkpoint");
    hang_up(&p);
    kill((pid_t)agent_pid(), SIGKILL);
    for (int i = 0; i < 1000 && agent_pid(); i++)
        poll(NULL, 0, 5);
    int64_t seen[2] = {0, 0};
    in_dir(path, "spool");
    assert_true(spool_read(path, 0, find_end, seen, NULL) >= 4);
    assert_int_equal(seen[1], 1);
    /* the ranks got SIGTERM when their agent died; `sweep` makes sure */
    char command[4400];
    snprintf(command, sizeof(command), "'%s' sweep '%s'", binary, dir);
    FILE *f = popen(command, "r");
    char line[100] = "";
    assert_non_null(fgets(line, sizeof(line), f));
    assert_int_equal(pclose(f), 0);
    assert_string_equal(line, "clean\n");
    /* started again, it goes on with its spool as another incarnation */
    assert_int_equal(start_agent(), 0);
    dial(&p);
    assert_int_equal(integer(p.hello, "incarnation"), 2);
    assert_true(integer(p.hello, "last_seq") >= 4);
    hang_up(&p);
}

static void two_agents_do_not_share_a_directory(void **state)
{
    (void)state;
    assert_int_equal(start_agent(), 3); /* ERR_CONFLICT */
    assert_true(agent_pid() > 0);
    struct peer p;
    dial(&p);
    launch(&p, "true", 1);
    await(&p, "attempt_ended");
    ack(&p);
    expect_gone();
    hang_up(&p);
    assert_int_equal(run_dir_fence(dir, NULL), 0); /* the attempt is over for good */
    assert_int_equal(start_agent(), 3);
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
        TEST(a_command_runs_to_the_end),
        TEST(setup_runs_once_and_events_flow),
        TEST(killed_ranks_are_back_at_once),
        TEST(one_dead_rank_ends_the_others),
        TEST(hopeless_jobs_end),
        TEST(what_cannot_run_is_refused_with_the_fix),
        TEST(stop_leaves_nothing),
        cmocka_unit_test_setup_teardown(an_engine_saves_and_stops_on_request, up_engine, down),
        cmocka_unit_test_setup_teardown(a_wrong_configuration_is_not_tried_again, up_engine, down),
        TEST(the_controller_may_vanish_and_return),
        TEST(a_newer_connection_counts_and_strangers_are_refused),
        TEST(a_killed_agent_leaves_its_spool_and_no_ranks),
        TEST(two_agents_do_not_share_a_directory),
    };
    return cmocka_run_group_tests_name("agent", tests, NULL, NULL);
}
