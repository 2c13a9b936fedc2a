/* SPDX-License-Identifier: Apache-2.0 */
/* attach.c - see attach.h; one thread serves one connection */
#include "agent/attempt/attach.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "agent/attempt/host_cache.h"
#include "agent/attempt/spool.h"
#include "agent/code/code_tree.h"
#include "agent/container/container_sweep.h"
#include "agent/os/identity.h"
#include "agent/os/run_dir.h"
#include "agent/os/subprocess.h"
#include "agent/os/unix_socket.h"
#include "agent/ranks/cleanup_pass.h"
#include "agent/ranks/control_group.h"
#include "agent/wire/frame.h"
#include "agent/wire/log_feed.h"
#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/contract/exit_code.h"
#include "engine/base/field.h"
#include "engine/base/json_make.h"
#include "engine/base/scratch.h"
#include "engine/base/write_all.h"

enum {
    LOOK_MS = 20,
    LOGS_MS = 200, /* maximum delay of a log line */
    ALIVE_MS = 1000,
    USED_MS = 3600 * 1000, /* how often a long connection marks its programs as used */
    CLEANUP_MS = 50,
    CLEANUP_GRACE_MS = 5000, /* time for ranks of a dead agent to write a checkpoint and exit */
    REACH_MS = 30000,        /* limit to reach a live agent that does not answer */
    DYING_MS = 500,
    STARTS = 3,
    EXIT_LOCKED = 3,
    FRAMES = 512 * 1024 /* larger than any message of an agent */
};

struct attach {
    int out;
    const char *program;
    json_t *order; /* the body of ATTACH */
    struct wire_id id;
    char key_dir[PATH_MAX], run_dir[PATH_MAX + 24];
    struct log_feed *logs;
    char *bytes;
    int64_t said_ms; /* time of the last message sent */
    int64_t used_ms; /* time of the last host cleanup; 0: none yet */
    size_t held;     /* bytes of an incomplete frame */
    bool full;       /* no agent could be started: the disk has no room for one */
};

/* ---- to the controller ---- */

/* Sends a message of the attach process itself. Takes the body. */
static int say(struct attach *a, enum wire_message number, json_t *body, struct err *err)
{
    size_t size = 0;
    char *frame = frame_pack(number, &a->id, body, &size, err);
    int rc = frame ? write_all(a->out, frame, size) : -1;
    if (frame && rc < 0)
        err_set(err, ERR_SYSTEM, "the connection to the controller broke: %s", strerror(errno));
    a->said_ms = clock_ms();
    free(frame);
    return rc;
}

static int say_logs(struct attach *a, struct err *err)
{
    for (json_t *body; (body = log_feed_next(a->logs));)
        if (say(a, WIRE_LOG, body, err) < 0)
            return -1;
    return 0;
}

static int say_alive(struct attach *a, struct err *err)
{
    return clock_ms() - a->said_ms < ALIVE_MS ? 0 : say(a, WIRE_KEEPALIVE, json_object(), err);
}

/* ---- ATTACH ---- */

/* Reads byte by byte: the bytes after it are for the agent. */
static int read_attach(struct attach *a, int in, struct err *err)
{
    struct frame_reader *reader;
    const struct wire_row *row = NULL;
    int rc = 0;
    if (frame_reader_create(&reader, TO_AGENT, err) < 0)
        return -1;
    while (rc == 0 && !a->order) {
        char byte;
        ssize_t n = read(in, &byte, 1);
        if (n < 0 && errno == EINTR)
            continue;
        if (n != 1)
            rc = err_set(err, ERR_SYSTEM, "the controller closed the connection before ATTACH");
        else if (frame_read(reader, &byte, 1, &row, &a->order, err) < 0)
            rc = -1;
    }
    frame_reader_destroy(reader);
    if (rc < 0)
        return -1;
    if (row->number != WIRE_ATTACH)
        return err_set(err, ERR_DATA, "the first message must be attach, not %s", row->name);
    if (wire_check(row, a->order, err) < 0)
        return -1;
    a->id = wire_id_of(a->order);
    return 0;
}

static int make_path(const char *path, struct err *err)
{
    struct stat st;
    if (scratch_mkdirs(path, err) < 0)
        return -1;
    /* Anyone who can write here could make an agent run commands as this user. */
    if (stat(path, &st) < 0 || st.st_uid != geteuid() || (st.st_mode & 022))
        return err_set(err, ERR_SYSTEM,
                       "'%s' must belong to this user and must not be writable by others",
                       path);
    return 0;
}

static int make_run_dir(struct attach *a, struct err *err)
{
    const char *key = json_string_value(json_object_get(a->order, "key"));
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    bool xdg = state && state[0] == '/';
    if (!key[0] || strspn(key, "0123456789abcdef-") != strlen(key) || a->id.attempt < 1)
        return err_set(err, ERR_DATA, "the key of the job is invalid");
    if (!xdg && (!home || home[0] != '/'))
        return err_set(err, ERR_SYSTEM, "HOME is not set on this machine");
    int n = snprintf(a->key_dir, sizeof(a->key_dir), "%s%s/jobctl/hosted/%s", xdg ? state : home,
                     xdg ? "" : "/.local/state", key);
    if (n < 0 || (size_t)n >= sizeof(a->key_dir))
        return err_set(err, ERR_SYSTEM, "the path of this machine's state directory is too long");
    snprintf(a->run_dir, sizeof(a->run_dir), "%s/%lld", a->key_dir, (long long)a->id.attempt);
    if (make_path(a->key_dir, err) < 0)
        return -1;
    return make_path(a->run_dir, err);
}

/* ---- ending an attempt ---- */

static void cleanup_all(const char *run_dir, const char *nonce)
{
    char group[CONTROL_GROUP_PATH];
    control_group_find(group, run_dir);
    const int64_t patient_until = clock_ms() + CLEANUP_GRACE_MS;
    struct cleanup_pass s = {.nonce = nonce, .group = group};
    while (cleanup_pass_run(&s, NULL, 0) > 0) {
        s.signo = clock_ms() > patient_until ? SIGKILL : 0;
        clock_wait(-1, CLEANUP_MS);
    }
    control_group_remove(run_dir);
    container_sweep(run_dir, nonce, true, NULL);
}

/* On return no process of the attempt is alive, and none will start. */
static void bury(const char *run_dir, const char *nonce)
{
    int lock;
    struct err err = {0};
    while ((lock = run_dir_lock(run_dir, &err)) < 0 && err.code == ERR_CONFLICT) {
        err = (struct err){0};
        clock_wait(-1, LOOK_MS);
    }
    if (lock >= 0) {
        run_dir_fence(run_dir, NULL, NULL);
        close(lock);
    }
    cleanup_all(run_dir, nonce);
}

/* Ends an attempt of this job that the controller has given up; its agent is identified by its
 * identity file. An agent of another job that has the same id, given again by a restored store, is left alone. */
static void dismiss(const struct attach *a, const char *run_dir)
{
    struct identity who;
    if (identity_read(&who, run_dir, NULL) < 0 ||
        !identity_is_of(&who, who.nonce, field_text(a->order, "origin")))
        return;
    if (identity_alive(&who))
        kill((pid_t)who.pid, SIGKILL);
    bury(run_dir, who.nonce);
}

static void dismiss_older(const struct attach *a)
{
    DIR *d = opendir(a->key_dir);
    for (struct dirent *e; d && (e = readdir(d));) {
        char dir[PATH_MAX + 300], *end;
        long long attempt = strtoll(e->d_name, &end, 10);
        if (*end || attempt < 1 || attempt >= a->id.attempt)
            continue;
        snprintf(dir, sizeof(dir), "%s/%s", a->key_dir, e->d_name);
        dismiss(a, dir);
    }
    if (d)
        closedir(d);
}

static int give_spooled(void *arg, const json_t *event)
{
    return say(arg, WIRE_EVENT, json_deep_copy(event), NULL) < 0;
}

static int say_gone(struct attach *a, const char *text, struct err *err)
{
    return say(a, WIRE_AGENT_GONE, json_make("{s:s, s:b}", "text", text, "full", (int)a->full), err);
}

/* Sends all remaining events and logs of the attempt, then AGENT_GONE. */
static int give_remains(struct attach *a, const char *text, struct err *err)
{
    char spool[PATH_MAX + 64];
    const json_int_t acked = json_integer_value(json_object_get(a->order, "acked"));
    bury(a->run_dir, a->id.nonce);
    snprintf(spool, sizeof(spool), "%s/" RUN_DIR_SPOOL, a->run_dir);
    if (say_logs(a, err) < 0)
        return -1;
    if (access(spool, R_OK) == 0)
        spool_read(spool, acked, give_spooled, a, NULL);
    return say_gone(a, text, err);
}

/* Not even its directory could be made. */
static int give_nothing(struct attach *a, struct err *err)
{
    char text[400];
    if (exit_code_of(err) != EXIT_DISK_FULL)
        return -1;
    snprintf(text, sizeof(text), "%.*s", (int)sizeof(text) - 1, err->text);
    *err = (struct err){0};
    a->full = json_is_true(json_object_get(a->order, "may_start"));
    return say_gone(a, text, err);
}

/* ---- a live agent ---- */

/* Starts an agent; returns once it listens. -1: *err has its error message. */
static int start_agent(struct attach *a, struct err *err)
{
    char job[24], attempt[24], nonce[NONCE_CHARS + 32], origin[80], said[300] = "";
    int fd = memfd_create("jobctl-agent-said", MFD_CLOEXEC);
    snprintf(nonce, sizeof(nonce), "JOBCTL_AGENT_NONCE=%.*s", NONCE_CHARS, a->id.nonce);
    snprintf(origin, sizeof(origin), IDENTITY_ORIGIN_ENV "=%.40s", field_text(a->order, "origin"));
    snprintf(job, sizeof(job), "%lld", (long long)a->id.job);
    snprintf(attempt, sizeof(attempt), "%lld", (long long)a->id.attempt);
    const char *const args[] = {a->program, "run", "--dir", a->run_dir, "--job", job, "--attempt",
                                attempt, NULL};
    const struct subprocess_spec s = {
        .argv = args, .set = (const char *const[]){nonce, origin, NULL}, .out = fd, .err = fd};
    const int code = subprocess_run(&s, NULL, -1, err);
    subprocess_last_line(said, sizeof(said), fd, "jobctl-agent");
    close(fd);
    if (code < 0)
        return -1;
    a->full = code == EXIT_DISK_FULL;
    if (a->full)
        return err_set(err, ERR_SYSTEM, "%s", said);
    return code == 0 || code == EXIT_LOCKED
               ? 0
               : err_set(err, ERR_SYSTEM, "cannot start the agent (status %d): %s", code, said);
}

/* Relays from the agent: whole frames, preceded by the log lines written until now. */
static int pass_frames(struct attach *a, int agent, struct err *err)
{
    ssize_t n = read(agent, a->bytes + a->held, FRAMES - a->held);
    if (n < 0 && errno == EINTR)
        return 1;
    if (n <= 0)
        return 0;
    a->held += (size_t)n;
    size_t whole = 0;
    while (a->held - whole >= FRAME_HEADER) {
        const unsigned char *p = (const unsigned char *)a->bytes + whole;
        size_t size = FRAME_HEADER + ((size_t)p[0] | (size_t)p[1] << 8 | (size_t)p[2] << 16 | (size_t)p[3] << 24);
        if (size > FRAMES)
            return err_set(err, ERR_DATA, "the agent sent a message of %zu bytes", size);
        if (a->held - whole < size)
            break;
        whole += size;
    }
    if (whole == 0)
        return 1;
    if (say_logs(a, err) < 0 || write_all(a->out, a->bytes, whole) < 0)
        return -1;
    a->said_ms = clock_ms();
    memmove(a->bytes, a->bytes + whole, a->held - whole);
    a->held -= whole;
    return 1;
}

static int pass_back(int in, int agent)
{
    char bytes[65536];
    ssize_t n = read(in, bytes, sizeof(bytes));
    if (n < 0 && errno == EINTR)
        return 1;
    if (n <= 0)
        return 0;
    return write_all(agent, bytes, (size_t)n) == 0 ? 1 : 2; /* 2: end of input */
}

/* Called when idle. */
static void tidy(struct attach *a)
{
    char host_cache[PATH_MAX];
    if (a->used_ms && clock_ms() - a->used_ms < USED_MS)
        return;
    a->used_ms = clock_ms();
    snprintf(host_cache, sizeof(host_cache), "%s", a->key_dir);
    *strrchr(host_cache, '/') = '\0';
    host_cache_use(a->program);
    host_cache_tidy(a->program, host_cache, a->run_dir, time(NULL));
}

enum ended { CONTROLLER_ENDED, AGENT_ENDED, BROKEN };

static enum ended converse(struct attach *a, int in, int agent, struct err *err)
{
    a->held = 0;
    for (;;) {
        struct pollfd fds[2] = {{.fd = in, .events = POLLIN}, {.fd = agent, .events = POLLIN}};
        int n = poll(fds, 2, LOGS_MS), rc = 1;
        if (n < 0 && errno != EINTR)
            return BROKEN;
        if (n == 0 && (say_logs(a, err) < 0 || say_alive(a, err) < 0))
            return BROKEN;
        if (n == 0)
            tidy(a);
        if (n > 0 && fds[1].revents && (rc = pass_frames(a, agent, err)) <= 0)
            return rc == 0 ? AGENT_ENDED : BROKEN;
        if (n > 0 && fds[0].revents && pass_back(in, agent) == 0)
            return CONTROLLER_ENDED;
    }
}

static bool dies(const struct identity *who)
{
    for (const int64_t until = clock_ms() + DYING_MS; clock_ms() < until; clock_wait(-1, LOOK_MS))
        if (!identity_alive(who))
            return true;
    return false;
}

static int serve(struct attach *a, int in, struct err *err)
{
    char socket[PATH_MAX + 64], text[400];
    const int64_t give_up = clock_ms() + REACH_MS;
    const bool may_start = json_is_true(json_object_get(a->order, "may_start"));
    int starts = 0;
    snprintf(socket, sizeof(socket), "%s/" RUN_DIR_SOCKET, a->run_dir);
    snprintf(text, sizeof(text), "the agent of attempt %lld died", (long long)a->id.attempt);
    for (;;) {
        struct identity who;
        struct err why = {0};
        bool known = identity_read(&who, a->run_dir, NULL) == 0 &&
                     strcmp(who.nonce, a->id.nonce) == 0;
        /* An agent started by someone else may be coming up: it takes the lock before it writes
         * its identity. */
        if (!known && (starts > 0 || !may_start) && run_dir_held(a->run_dir) == 1 && clock_ms() < give_up) {
            clock_wait(-1, LOOK_MS);
            continue;
        }
        if (!known && may_start && !run_dir_fenced(a->run_dir) && starts++ < STARTS) {
            if (start_agent(a, &why) < 0)
                return give_remains(a, why.text, err);
            continue;
        }
        if (!known)
            snprintf(text, sizeof(text), "the agent of attempt %lld never started", (long long)a->id.attempt);
        if (!known || !identity_alive(&who))
            return give_remains(a, text, err);
        int agent = unix_socket_connect(socket, false, &why);
        if (agent < 0 && clock_ms() > give_up)
            return err_set(err, ERR_SYSTEM, "the agent is alive (pid %lld) but unreachable: %s",
                           (long long)who.pid, why.text);
        if (agent < 0) {
            clock_wait(-1, LOOK_MS);
            continue;
        }
        enum ended ended = converse(a, in, agent, err);
        close(agent);
        if (ended == CONTROLLER_ENDED || (ended == AGENT_ENDED && !dies(&who)))
            return 0;
        if (ended == BROKEN)
            return err_set(err, ERR_SYSTEM, "the connection broke");
    }
}

/* The job was removed: removes its copy of the code (agent/code/code_receive.h), with what it wrote there. */
static int forget(struct attach *a, struct err *err)
{
    char path[PATH_MAX + 16];
    struct err why = {0};
    snprintf(path, sizeof(path), "%s/code", a->key_dir);
    if (code_tree_remove(path, &why) < 0)
        return say_gone(a, why.text, err);
    return say_gone(a, "it is removed", err);
}

static bool is_strange(const struct attach *a)
{
    struct identity who;
    return identity_read(&who, a->run_dir, NULL) == 0 &&
           !identity_is_of(&who, a->id.nonce, field_text(a->order, "origin"));
}

int attach_run(int in, int out, const char *program, struct err *err)
{
    struct attach a = {.out = out, .program = program};
    int rc = -1;
    signal(SIGPIPE, SIG_IGN);
    a.bytes = malloc(FRAMES);
    if (!a.bytes) {
        err_set(err, ERR_MEMORY, "no memory for a connection");
        goto out;
    }
    if (write_all(out, ATTACH_READY, strlen(ATTACH_READY)) < 0 || read_attach(&a, in, err) < 0)
        goto out;
    if (make_run_dir(&a, err) < 0 ||
        log_feed_open(&a.logs, a.run_dir, json_object_get(a.order, "logs"), err) < 0) {
        rc = give_nothing(&a, err);
        goto out;
    }
    dismiss_older(&a);
    if (is_strange(&a)) {
        rc = say(&a, WIRE_AGENT_GONE, json_make("{s:s}", "text", "its directory on the host belongs to an attempt of "
                                                "another job and was not changed"), err);
    } else if (json_is_true(json_object_get(a.order, "dismiss"))) {
        dismiss(&a, a.run_dir);
        rc = json_is_true(json_object_get(a.order, "forget"))
           ? forget(&a, err) : give_remains(&a, "replaced by a newer attempt", err);
    } else {
        rc = serve(&a, in, err);
    }
out:
    log_feed_close(a.logs);
    json_decref(a.order);
    free(a.bytes);
    return rc;
}
