/* SPDX-License-Identifier: Apache-2.0 */
/* progress.c - a rank's messages to its agent and the agent's commands; see progress.h
 *
 * A line is at most PIPE_BUF (4096) bytes, so that one write() to a pipe is all or
 * nothing.  The event descriptor is non-blocking: a `step` line is dropped if the pipe is
 * full, any other line waits in poll().  A closed pipe is not an
 * error: the run continues, and end of file on the control descriptor will stop it.
 */
#include "engine/contract/progress.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/contract/flight.h"
#include "engine/base/clock.h"
#include "engine/base/env.h"
#include "engine/base/err.h"
#include "engine/base/json_make.h"
#include "engine/base/utf8.h"

_Static_assert((int)PROGRESS_LINE <= PIPE_BUF, "a line must be one atomic write");

struct progress {
    int    event_fd;   /* -1: no reader */
    int    control_fd; /* -1: no commands */
    char   in[PROGRESS_LINE];
    size_t in_len;
    bool   in_skip;    /* skipping the rest of an overlong line */
    enum progress_command asked; /* the strongest command not yet reported */
    json_t *said;      /* key: value, of all ranks; NULL: none yet */
    json_t *rejoin;    /* the newest rejoin command; NULL: none, or taken */
};

static volatile sig_atomic_t term_seen;

static void on_term(int signo)
{
    (void)signo;
    term_seen = 1;
}

static int fd_from_env(const char *name, int *fd, struct err *err)
{
    int n = -1;
    *fd = -1;
    if (env_int(name, 0, &n, err) < 0)
        return -1;
    if (n < 0)
        return 0;
    int flags = fcntl(n, F_GETFL);
    if (flags < 0)
        return err_set(err, ERR_USAGE, "%s names descriptor %d, which is not open", name, n);
    fcntl(n, F_SETFL, flags | O_NONBLOCK);
    fcntl(n, F_SETFD, FD_CLOEXEC);
    *fd = n;
    return 0;
}

int progress_open(struct progress **out, struct err *err)
{
    struct progress *p = calloc(1, sizeof(*p));
    if (!p)
        return err_set(err, ERR_MEMORY, "out of memory for progress lines");
    p->event_fd = p->control_fd = -1;
    if (fd_from_env("JOBCTL_EVENT_FD", &p->event_fd, err) < 0 ||
        fd_from_env("JOBCTL_CONTROL_FD", &p->control_fd, err) < 0) {
        progress_close(p);
        return -1;
    }
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct sigaction term = {.sa_handler = on_term, .sa_flags = SA_RESTART};
    sigaction(SIGPIPE, &ignore, NULL);
    term_seen = 0;
    sigaction(SIGTERM, &term, NULL);
    *out = p;
    return 0;
}

void progress_close(struct progress *p)
{
    if (!p)
        return;
    int keep = errno;
    if (p->event_fd >= 0)
        close(p->event_fd);
    if (p->control_fd >= 0)
        close(p->control_fd);
    json_decref(p->said);
    json_decref(p->rejoin);
    free(p);
    errno = keep;
}

/* Takes over the reference. */
static void send_line(struct progress *p, json_t *line, bool may_drop)
{
    char text[PROGRESS_LINE];
    size_t n = 0;
    if (p->event_fd >= 0 && line)
        n = json_dumpb(line, text, sizeof(text) - 1, JSON_COMPACT);
    json_decref(line);
    if (n == 0 || n > sizeof(text) - 1)
        return;
    text[n++] = '\n';
    for (;;) {
        ssize_t put = write(p->event_fd, text, n);
        if (put == (ssize_t)n)
            return;
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0 && errno == EAGAIN) {
            if (may_drop)
                return;
            struct pollfd pfd = {.fd = p->event_fd, .events = POLLOUT};
            poll(&pfd, 1, -1);
            continue;
        }
        if (put >= 0) { /* not a pipe: finish the line */
            memmove(text, text + put, n - (size_t)put);
            n -= (size_t)put;
            continue;
        }
        close(p->event_fd); /* the reader has closed the pipe */
        p->event_fd = -1;
        return;
    }
}

/* JSON has no NaN: a number that is not finite becomes null. */
static json_t *real(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

/* The line is bounded. */
static json_t *words(const char *text)
{
    return json_text_n(text, utf8_fit(text, strlen(text), 1023));
}

void progress_started(struct progress *p, int rank, int world_size, int64_t resume_step,
                      int64_t steps, int64_t params, const char *backend)
{
    send_line(p,
              json_make("{s:s, s:i, s:i, s:I, s:I, s:I, s:o}", "ev", "started", "rank", rank,
                        "world_size", world_size, "resume_step", (json_int_t)resume_step, "steps",
                        (json_int_t)steps, "params", (json_int_t)params, "backend",
                        words(backend)),
              false);
}

/* To a microsecond: a line is a row of the store. */
static void add_phases(json_t *line, const double *phase_ms)
{
    static const enum flight_phase phases[] = {PHASE_DATA, PHASE_FORWARD, PHASE_BACKWARD, PHASE_REDUCE, PHASE_OPTIMIZER};
    for (size_t i = 0; phase_ms && i < sizeof(phases) / sizeof(phases[0]); i++) {
        char key[32];
        snprintf(key, sizeof(key), "%s_ms", flight_phase_name(phases[i]));
        json_object_set_new(line, key, real(round(phase_ms[phases[i]] * 1000) / 1000));
    }
}

void progress_step(struct progress *p, int64_t step, int64_t steps, double loss, double grad_norm,
                   double lr, double samples_per_s, double step_ms, const double *phase_ms)
{
    json_t *line = json_make("{s:s, s:I, s:I, s:o, s:o, s:o, s:o, s:o}", "ev", "step", "step",
                             (json_int_t)step, "steps", (json_int_t)steps, "loss", real(loss),
                             "grad_norm", real(grad_norm), "lr", real(lr), "samples_per_s",
                             real(samples_per_s), "step_ms", real(step_ms));
    add_phases(line, phase_ms);
    send_line(p, line, true);
}

void progress_checkpoint(struct progress *p, int64_t step, const char *path, int64_t bytes,
                         double ms, double stall_ms, const char *digest)
{
    send_line(p,
              json_make("{s:s, s:I, s:o, s:I, s:o, s:o, s:o}", "ev", "checkpoint", "step",
                        (json_int_t)step, "path", words(path), "bytes", (json_int_t)bytes, "ms",
                        real(ms), "stall_ms", real(stall_ms), "digest", words(digest)),
              false);
}

void progress_quarantined(struct progress *p, const char *path, const char *reason)
{
    send_line(p,
              json_make("{s:s, s:o, s:o}", "ev", "quarantined", "path", words(path), "reason", words(reason)),
              false);
}

void progress_sample(struct progress *p, int64_t step, const char *path)
{
    send_line(p, json_make("{s:s, s:I, s:o}", "ev", "sample", "step", (json_int_t)step, "path", words(path)), false);
}

void progress_no_room(struct progress *p, const struct progress_room *r)
{
    send_line(p,
              json_make("{s:s, s:b, s:I, s:I, s:I, s:f, s:o, s:o}", "ev", "no_room", "over", (int)r->over, "step",
                        (json_int_t)r->step, "bytes", (json_int_t)r->need, "free", (json_int_t)r->left, "wait_s",
                        r->wait_s, "path", words(r->path), "text", words(r->text)),
              false);
}

void progress_encoding(struct progress *p, const struct progress_encoding *e)
{
    send_line(p,
              json_make("{s:s, s:b, s:I, s:I, s:I, s:o, s:o, s:o}", "ev", "encoding", "over", (int)e->over, "done",
                        (json_int_t)e->done, "total", (json_int_t)e->total, "saved", (json_int_t)e->saved, "per_s", real(e->per_s), "left_s",
                        real(e->left_s), "text", words(e->text)),
              false);
}

void progress_snapshots(struct progress *p, const struct progress_snapshots *s)
{
    send_line(p,
              json_make("{s:s, s:i, s:I, s:o, s:o, s:o}", "ev", "snapshots", "every", s->every, "bytes",
                        (json_int_t)s->bytes, "copy_s", real(s->copy_s), "step_s", real(s->step_s), "text",
                        words(s->text)),
              false);
}

void progress_warning(struct progress *p, const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    send_line(p, json_make("{s:s, s:o}", "ev", "warning", "text", words(text)), false);
}

void progress_warning_lasts(struct progress *p, const char *text)
{
    send_line(p, json_make("{s:s, s:o, s:b}", "ev", "warning", "text", words(text), "lasts", true), false);
}

void progress_fetch(struct progress *p, const char *text)
{
    send_line(p, json_make("{s:s, s:o}", "ev", "fetch", "text", words(text)), false);
}

void progress_failed(struct progress *p, const char *cause, int exit_code, const char *text, int64_t step)
{
    json_t *line = json_make("{s:s, s:o, s:i, s:o}", "ev", "failed", "cause", words(cause),
                             "exit_code", exit_code, "text", words(text));
    if (line && step >= 0)
        json_object_set_new(line, "step", json_integer(step));
    send_line(p, line, false);
}

void progress_done(struct progress *p, int64_t step, double loss)
{
    send_line(p, json_make("{s:s, s:I, s:o}", "ev", "done", "step", (json_int_t)step, "loss", real(loss)), false);
}

void progress_detached(struct progress *p, const char *cause, const char *text, int64_t step)
{
    send_line(p,
              json_make("{s:s, s:o, s:o, s:I}", "ev", "detached", "cause", words(cause), "text",
                        words(text), "step", (json_int_t)step),
              false);
}

static void take_command(struct progress *p, const char *line, size_t n)
{
    json_t *o = json_loadb(line, n, 0, NULL);
    const char *cmd = json_string_value(json_object_get(o, "cmd"));
    enum progress_command c = CMD_NONE;
    if (cmd && strcmp(cmd, "checkpoint") == 0)
        c = CMD_CHECKPOINT;
    else if (cmd && strcmp(cmd, "stop") == 0)
        c = CMD_STOP;
    const char *key = json_string_value(json_object_get(o, "key"));
    json_t *value = json_object_get(o, "value");
    if (cmd && strcmp(cmd, "rendezvous") == 0 && key && json_is_string(value)) {
        p->said = p->said ? p->said : json_object();
        json_object_set(p->said, key, value);
    }
    if (cmd && strcmp(cmd, "rejoin") == 0) {
        json_decref(p->rejoin);
        json_decref(p->said);
        p->rejoin = json_incref(o);
        p->said = NULL;
    }
    p->asked = c > p->asked ? c : p->asked;
    json_decref(o);
}

static void take_lines(struct progress *p)
{
    char *end;
    while ((end = memchr(p->in, '\n', p->in_len))) {
        size_t n = (size_t)(end - p->in);
        if (!p->in_skip)
            take_command(p, p->in, n);
        p->in_skip = false;
        p->in_len -= n + 1;
        memmove(p->in, end + 1, p->in_len);
    }
    if (p->in_len == sizeof(p->in)) {
        p->in_skip = true;
        p->in_len = 0;
    }
}

static void read_commands(struct progress *p)
{
    while (p->control_fd >= 0) {
        ssize_t n = read(p->control_fd, p->in + p->in_len, sizeof(p->in) - p->in_len);
        if (n > 0) {
            p->in_len += (size_t)n;
            take_lines(p);
        } else if (n < 0 && errno == EINTR) {
            continue;
        } else if (n < 0 && errno == EAGAIN) {
            break;
        } else { /* the agent is gone: stop now, and in every later call */
            close(p->control_fd);
            p->control_fd = -1;
            term_seen = 1;
        }
    }
}

enum progress_command progress_poll(struct progress *p)
{
    read_commands(p);
    enum progress_command most = term_seen ? CMD_STOP : p->asked;
    p->asked = CMD_NONE;
    return most;
}

bool progress_stop_asked(struct progress *p)
{
    read_commands(p);
    return term_seen || p->asked == CMD_STOP;
}

json_t *progress_rejoin(struct progress *p)
{
    read_commands(p);
    json_t *word = p->rejoin;
    p->rejoin = NULL;
    return word;
}

void progress_wait(struct progress *p, int timeout_ms)
{
    clock_wait(p->control_fd, timeout_ms);
}

/* --- rendezvous ---------------------------------------------------------------------------- */

bool progress_has_agent(const struct progress *p)
{
    return p->event_fd >= 0 && p->control_fd >= 0;
}

void progress_rendezvous(struct progress *p, const char *key, const char *value)
{
    send_line(p, json_make("{s:s, s:o, s:o}", "ev", "rendezvous", "key", words(key), "value", words(value)), false);
}

const char *progress_rendezvous_find(struct progress *p, const char *key)
{
    read_commands(p);
    return json_string_value(json_object_get(p->said, key));
}
