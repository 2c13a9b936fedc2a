/* SPDX-License-Identifier: Apache-2.0 */
/* far_host.c - see far_host.h */
#include "controller/base/far_host.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/buf.h"
#include "agent/os/subprocess.h"
#include "controller/base/client.h"
#include "controller/base/far_answer.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/contract/install.h"
#include "engine/base/json_make.h"

enum {
    LINE_MAX_BYTES = 16 << 20,
    ANSWER_MS = 120 * 1000,
    SLOW_MS = 2000,
    END_MS = 3000,              /* a helper whose stream has ended is about to end */
    EXIT_REFUSED = 2, EXIT_NO_NAME = 3 /* of jobctl-ssh */
};

static const char *far_host;    /* NULL: this machine */
static bool reached;            /* it has answered once */

/* A helper; said: its stderr. fd -1: the connection is the caller's, or has ended. */
static struct session {
    pid_t pid;
    int   fd, said;
} asking = {0, -1, -1}, given = {0, -1, -1};

/* ---- the name ---- */

int far_host_set(const char *host, struct err *err)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._@:[]%";
    far_host = NULL;
    if (!host || !host[0])
        return 0;
    if (host[0] == '-' || host[strspn(host, plain)] || strlen(host) > 250)
        return err_set(err, ERR_USAGE,
                       "-H takes a host as ssh does, such as gpu1 or me@login.example.org, not \"%.60s\"", host);
    far_host = host;
    return 0;
}

const char *far_host_name(void)
{
    return far_host;
}

void far_host_helper(const char *argv[FAR_HOST_WORDS], const char *verb)
{
    static char program[PATH_MAX];
    const char *there = getenv("JOBCTL_HOST_PROGRAM");
    install_path(program, sizeof(program), "jobctl-ssh");
    argv[0] = program;
    argv[1] = verb;
    argv[2] = far_host;
    argv[3] = FAR_HOST_READY;
    argv[4] = there && there[0] ? there : NULL;
    argv[5] = NULL;
}

/* ---- a session ---- */

static int end_of(pid_t pid)
{
    int status = 0;
    for (int waited = 0; waited < END_MS; waited += 20) {
        if (waitpid(pid, &status, WNOHANG) != 0)
            return WIFEXITED(status) ? WEXITSTATUS(status) : 0;
        poll(NULL, 0, 20);
    }
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    return 0;
}

/* The reason of the helper's end, which is near. */
static void take_reason(struct session *s, struct err *err)
{
    char words[400] = "";
    const int code = end_of(s->pid);
    subprocess_last_line(words, sizeof(words), s->said, "jobctl-ssh");
    const bool refused = code == EXIT_REFUSED || (code == EXIT_NO_NAME && !reached);
    err_set(err, refused ? ERR_USAGE : ERR_SYSTEM, "%s%s", words[0] ? words : "the connection ended: ",
            words[0] ? "" : far_host);
    close(s->said);
    *s = (struct session){0, -1, -1};
}

static void end_session(struct session *s)
{
    if (s->fd >= 0)
        close(s->fd);
    if (s->pid > 0) {
        kill(s->pid, SIGTERM);
        end_of(s->pid);
        close(s->said);
    }
    *s = (struct session){0, -1, -1};
}

/* Its connection is another one's, and ends it. */
static void forget(struct session *s)
{
    if (s->pid > 0) {
        waitpid(s->pid, NULL, WNOHANG);
        close(s->said);
    }
    *s = (struct session){0, -1, -1};
}

static int failed(struct session *s, struct err *err)
{
    close(s->fd);
    s->fd = -1;
    take_reason(s, err);
    return -1;
}

static int spawn(struct session *s, int theirs, struct err *err)
{
    const char *argv[FAR_HOST_WORDS];
    far_host_helper(argv, "relay");
    if (access(argv[0], X_OK) < 0)
        return err_set(err, ERR_USAGE, "-H needs jobctl-ssh next to jobctl, which is built where libssh is found: "
                       "docs/INSTALL.md");
    s->said = memfd_create("jobctl-ssh-said", MFD_CLOEXEC);
    const struct subprocess_spec spec = {.argv = argv, .in = theirs, .out = theirs, .err = s->said, .session = true};
    s->pid = s->said < 0 ? err_set(err, ERR_SYSTEM, "cannot create a memory file: %m") : subprocess_start(&spec, err);
    if (s->pid > 0)
        return 0;
    if (s->said >= 0)
        close(s->said);
    *s = (struct session){0, -1, -1};
    return -1;
}

static int open_session(struct session *s, struct err *err)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return err_set(err, ERR_SYSTEM, "cannot create a socket pair: %m");
    const int rc = spawn(s, pair[1], err);
    close(pair[1]);
    if (rc < 0)
        close(pair[0]);
    else
        s->fd = pair[0];
    return rc;
}

/* ---- questions ---- */

static int send_line(struct session *s, const json_t *question, struct err *err)
{
    char *text = json_dumps(question, JSON_COMPACT);
    const size_t size = text ? strlen(text) : 0;
    size_t at = 0;
    ssize_t n = text ? 1 : -1;
    if (text)
        text[size] = '\n';      /* in place of the end: it is sent by its length */
    while (n > 0 && at <= size)
        if ((n = send(s->fd, text + at, size + 1 - at, MSG_NOSIGNAL)) > 0)
            at += (size_t)n;
        else if (n < 0 && errno == EINTR)
            n = 1;
    free(text);
    return n > 0 ? 0 : failed(s, err);
}

static void (*slow_hook)(void *user);
static void *slow_user;

void far_host_when_slow(void (*slow)(void *user), void *user)
{
    slow_hook = slow;
    slow_user = user;
}

/* As poll(). */
static int await(struct pollfd *fd)
{
    if (slow_hook) {
        const int ready = poll(fd, 1, SLOW_MS);
        if (ready != 0)
            return ready;
        slow_hook(slow_user);
        slow_hook = NULL;
    }
    return poll(fd, 1, ANSWER_MS);
}

/* Nothing follows an answer before the next question. */
static int read_line(struct session *s, struct buf *line, const volatile int *stop, struct err *err)
{
    char piece[16 * 1024];
    for (;;) {
        struct pollfd fd = {.fd = s->fd, .events = POLLIN};
        const int ready = await(&fd);
        if (stop && *stop)
            return err_set(err, ERR_CONFLICT, "interrupted");
        if (ready == 0)
            return err_set(err, ERR_SYSTEM, "jobctl on %s did not answer within %d s", far_host, ANSWER_MS / 1000);
        if (ready < 0)
            continue;
        const ssize_t n = read(s->fd, piece, sizeof(piece));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return failed(s, err);
        if (line->size + (size_t)n > LINE_MAX_BYTES || buf_append(line, piece, (size_t)n) < 0)
            return err_set(err, ERR_SYSTEM, "the answer from %s is too long", far_host);
        if (line->data[line->size - 1] == '\n')
            return 0;
    }
}

static int answer_error(const json_t *answer, struct err *err)
{
    const json_t *e = json_object_get(answer, "error");
    if (!e)
        return 0;
    const json_int_t code = json_integer_value(json_object_get(e, "code"));
    return err_set(err, code > ERR_NONE && code <= ERR_BUG ? (enum err_code)code : ERR_SYSTEM, "%s",
                   field_text(e, "text"));
}

static int read_answer(struct session *s, json_t **answer, const volatile int *stop, struct err *err)
{
    struct buf line = {0};
    int rc = read_line(s, &line, stop, err);
    *answer = rc == 0 ? json_loadb(line.data, line.size, 0, NULL) : NULL;
    far_answer_clean(*answer);
    if (rc == 0 && !json_is_object(*answer)) {
        json_decref(*answer);
        *answer = NULL;
        rc = err_set(err, ERR_SYSTEM, "cannot understand the answer from %s", far_host);
    }
    buf_fini(&line);
    return rc;
}

/* The first line of a relay: its version. */
static int check_hello(const json_t *hello, struct err *err)
{
    const char *version = field_text(hello, "version");
    const json_int_t schema = json_integer_value(json_object_get(hello, "schema"));
    if (strcmp(version, JOBCTL_VERSION) != 0)
        return err_set(err, ERR_USAGE, "%s has jobctl %.40s, this is %s; install the same version on both", far_host,
                       version[0] ? version : "of an unknown version", JOBCTL_VERSION);
    if (schema != API_SCHEMA)
        return err_set(err, ERR_USAGE, "jobctl on %s uses schema %lld, this one %d; install the same "
                       "version on both", far_host, (long long)schema, API_SCHEMA);
    return 0;
}

/* `same`: the versions must be equal. */
static int begin(bool same, const volatile int *stop, struct err *err)
{
    json_t *hello = NULL;
    if (asking.fd >= 0)
        return 0;
    if (open_session(&asking, err) < 0)
        return -1;
    int rc = read_answer(&asking, &hello, stop, err);
    if (rc == 0 && same)
        rc = check_hello(hello, err);
    reached = reached || rc == 0;
    json_decref(hello);
    if (rc < 0)
        end_session(&asking);
    return rc;
}

/* A failed session is gone, so that the next call begins another one. */
static int ask(json_t **answer, const json_t *question, const volatile int *stop, struct err *err)
{
    *answer = NULL;
    int rc = send_line(&asking, question, err);
    if (rc == 0)
        rc = read_answer(&asking, answer, stop, err);
    if (rc < 0)
        end_session(&asking);
    return rc < 0 ? rc : answer_error(*answer, err);
}

int far_host_ask(json_t **answer, const json_t *question, struct err *err)
{
    *answer = NULL;
    return begin(true, NULL, err) < 0 ? -1 : ask(answer, question, NULL, err);
}

/* Takes the question. */
static int connect_by(json_t *question, bool same, const volatile int *stop, struct err *err)
{
    json_t *answer = NULL;
    int fd = -1;
    if (begin(same, stop, err) == 0 && ask(&answer, question, stop, err) == 0) {
        fd = asking.fd;
        forget(&given);
        given = (struct session){asking.pid, -1, asking.said};
        asking = (struct session){0, -1, -1};
    }
    json_decref(answer);
    json_decref(question);
    return fd;
}

int far_host_connect(bool start, const volatile int *stop, struct err *err)
{
    return connect_by(json_make("{s:s, s:b}", "do", "connect", "start", (int)start), start, stop, err);
}

int far_host_connect_port(int port, struct err *err)
{
    return connect_by(json_make("{s:s, s:i}", "do", "port", "port", port), true, NULL, err);
}

void far_host_why(struct err *why)
{
    *why = (struct err){.code = ERR_NONE};
    if (given.pid > 0)
        take_reason(&given, why);
}
