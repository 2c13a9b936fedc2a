/* SPDX-License-Identifier: Apache-2.0 */
/* remote_local.c - attempts on this machine: find the agent, or start it, or prove it gone
 *
 *   look     who is named in the run directory?
 *     nobody                 -> start one, or (may_start false) prove that none will come
 *     somebody alive         -> connect; when the stream ends, look again
 *     somebody dead          -> bury: lock and fence the directory, wait until no process with
 *                               the attempt's nonce is left, read the spool to its end, lost
 *
 * Each step is called by the timer, so no hook is called from within open().
 * The link is freed when its timer and its stream are closed.
 */
#include "controller/remote.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/frame.h"
#include "agent/identity.h"
#include "agent/log.h"
#include "agent/run_dir.h"
#include "agent/spool.h"
#include "agent/sweep.h"
#include "agent/unix_socket.h"
#include "engine/err.h"

enum {
    LOOK_AGAIN_MS = 20,
    LOOK_SELDOM_MS = 500,
    SWEEP_MS = 50,
    SWEEP_GRACE_MS = 5000,      /* ranks of a dead agent write a checkpoint and leave by themselves */
    STARTS = 3,
    EXIT_LOCKED = 3
};

struct stream {
    uv_pipe_t            pipe;
    struct link         *link;      /* NULL: forgotten, only to be freed */
    struct frame_reader *reader;
    bool                 greeted;
    char                 bytes[65536];
};

struct start {
    uv_process_t process;
    struct link *link;
    int          said;              /* its stderr */
};

struct link {
    uv_loop_t        *loop;
    uv_timer_t        timer;
    struct link_hooks hooks;
    struct stream    *stream;
    struct start     *start;
    bool              closed;
    bool              may_start;
    int               handles;      /* not yet closed; 0 after close(): free */
    int               starts, looks;
    uint64_t          bury_until;
    int64_t           job, attempt;
    char              nonce[NONCE_CHARS + 1];
    char              tag[48];
    char              text[400];    /* why it is lost */
    char             *run_dir;
    void            (*step)(struct link *link);
};

static void look(struct link *link);
static void bury(struct link *link);

static void link_release(struct link *link)
{
    if (--link->handles > 0)
        return;
    free(link->run_dir);
    free(link);
}

static void timer_fired(uv_timer_t *timer)
{
    struct link *link = timer->data;
    if (!link->closed)
        link->step(link);
}

static void later(struct link *link, uint64_t ms, void (*step)(struct link *link))
{
    if (link->closed)
        return;
    link->step = step;
    uv_timer_start(&link->timer, timer_fired, ms, 0);
}

static void path_in(char *out, size_t size, const struct link *link, const char *name)
{
    snprintf(out, size, "%s/%s", link->run_dir, name);
}

/* ---- the stream ---- */

static void stream_closed(uv_handle_t *handle)
{
    struct stream *s = handle->data;
    frame_reader_destroy(s->reader);
    if (s->link)
        link_release(s->link);
    free(s);
}

static void stream_close(struct stream *s)
{
    if (!uv_is_closing((uv_handle_t *)&s->pipe))
        uv_close((uv_handle_t *)&s->pipe, stream_closed);
}

static void stream_ended(struct stream *s)
{
    struct link *link = s->link;
    stream_close(s);
    if (link && link->stream == s) {
        link->stream = NULL;
        later(link, LOOK_AGAIN_MS, look);
    }
}

struct parcel {
    uv_write_t write;
    void      *bytes;
};

static void parcel_sent(uv_write_t *write, int status)
{
    struct parcel *p = write->data;
    (void)status;               /* a broken stream is seen by its reader */
    free(p->bytes);
    free(p);
}

static void stream_send(struct stream *s, enum wire_message number, const json_t *body)
{
    struct err err = { 0 };
    size_t size = 0;
    struct parcel *p = calloc(1, sizeof(*p));
    if (!p || !(p->bytes = frame_make(number, body, &size, &err))) {
        log_error(s->link->tag, "message %d not sent: %s", (int)number,
                  p ? err.text : "out of memory");
        free(p);
        return;
    }
    p->write.data = p;
    uv_buf_t buf = uv_buf_init(p->bytes, (unsigned)size);
    if (uv_write(&p->write, (uv_stream_t *)&s->pipe, &buf, 1, parcel_sent) != 0) {
        free(p->bytes);
        free(p);
    }
}

static bool is_ours(const struct link *link, const json_t *body)
{
    const struct wire_id ours = { link->job, link->attempt, link->nonce };
    const struct wire_id said = wire_id_of(body);
    return wire_id_same(&ours, &said);
}

/* The fence: who speaks for another attempt must not go on. */
static void send_away(struct stream *s, const json_t *body)
{
    json_t *stop = json_pack("{s:O, s:O, s:O, s:s, s:i, s:b}", "job",
                             json_object_get(body, "job"), "attempt",
                             json_object_get(body, "attempt"), "nonce",
                             json_object_get(body, "nonce"), "reason",
                             "another attempt has taken its place", "grace_ms", 0, "checkpoint", 0);
    log_warn(s->link->tag, "an agent of another attempt answered; told it to stop");
    if (stop)
        stream_send(s, WIRE_STOP, stop);
    json_decref(stop);
}

/* False: the stream is done for. */
static bool message_taken(struct stream *s, const struct wire_row *row, const json_t *body)
{
    struct link *link = s->link;
    struct err err = { 0 };
    if (wire_check(row, body, &err) < 0) {
        log_error(link->tag, "%s", err.text);
        return false;
    }
    if (!is_ours(link, body)) {
        send_away(s, body);
        return false;
    }
    if (!s->greeted && row->number != WIRE_HELLO) {
        log_error(link->tag, "the agent does not begin with hello");
        return false;
    }
    s->greeted = true;
    link->looks = 0;
    link->hooks.message(link->hooks.arg, row->number, body);
    return true;
}

static void stream_read(uv_stream_t *handle, ssize_t n, const uv_buf_t *buf)
{
    struct stream *s = handle->data;
    struct err err = { 0 };
    size_t at = 0;
    if (n < 0) {
        stream_ended(s);
        return;
    }
    while (at < (size_t)n && s->link && s->link->stream == s) {
        const struct wire_row *row = NULL;
        json_t *body = NULL;
        int used = frame_read(s->reader, buf->base + at, (size_t)n - at, &row, &body, &err);
        if (used < 0) {
            log_error(s->link->tag, "%s", err.text);
            stream_ended(s);
            return;
        }
        at += (size_t)used;
        bool go_on = !body || message_taken(s, row, body);
        json_decref(body);
        if (!go_on && s->link && s->link->stream == s) {
            stream_ended(s);
            return;
        }
    }
}

static void stream_room(uv_handle_t *handle, size_t wanted, uv_buf_t *buf)
{
    struct stream *s = handle->data;
    (void)wanted;
    *buf = uv_buf_init(s->bytes, sizeof(s->bytes));
}

static int stream_open(struct link *link, int fd, struct err *err)
{
    struct stream *s = calloc(1, sizeof(*s));
    if (!s || frame_reader_create(&s->reader, TO_CONTROLLER, err) < 0) {
        free(s);
        close(fd);
        return err_set(err, ERR_MEMORY, "out of memory for a stream");
    }
    s->link = link;
    uv_pipe_init(link->loop, &s->pipe, 0);
    s->pipe.data = s;
    link->handles++;
    link->stream = s;
    if (uv_pipe_open(&s->pipe, fd) != 0) {
        close(fd);
        stream_ended(s);
        return err_set(err, ERR_SYSTEM, "cannot use the agent's socket");
    }
    if (uv_read_start((uv_stream_t *)&s->pipe, stream_room, stream_read) != 0)
        stream_ended(s);
    return 0;
}

/* ---- starting an agent ---- */

static void start_closed(uv_handle_t *handle)
{
    struct start *s = handle->data;
    if (s->said >= 0)
        close(s->said);
    free(s);
}

/* What the starter said on stderr, on one line. */
static void start_words(char *out, size_t size, int said)
{
    ssize_t n = pread(said, out, size - 1, 0);
    out[n > 0 ? n : 0] = 0;
    for (char *p = out; *p; p++)
        if (*p == '\n')
            *p = p[1] ? ' ' : 0;
}

static void start_exited(uv_process_t *process, int64_t status, int signo)
{
    struct start *s = process->data;
    struct link *link = s->link;
    if (link) {
        char words[300];
        start_words(words, sizeof(words), s->said);
        link->start = NULL;
        if (status == 0 || status == EXIT_LOCKED) {
            later(link, status == 0 ? 0 : LOOK_AGAIN_MS, look);
        } else {
            snprintf(link->text, sizeof(link->text), "its agent could not be started (%s %d)%s%s",
                     signo ? "signal" : "exit", signo ? signo : (int)status,
                     words[0] ? ": " : "", words);
            later(link, 0, bury);
        }
    }
    uv_close((uv_handle_t *)process, start_closed);
}

/* The agent of this very build lies beside this very program. */
void remote_agent_program(char *out, size_t size)
{
    ssize_t n = readlink("/proc/self/exe", out, size - 1);
    out[n > 0 ? n : 0] = 0;
    char *slash = strrchr(out, '/');
    size_t at = slash ? (size_t)(slash + 1 - out) : 0;
    snprintf(out + at, size - at, "jobctl-agent");
}

static int start_spawn(struct link *link, struct start *s)
{
    char program[PATH_MAX], job[24], attempt[24], nonce[128];
    remote_agent_program(program, sizeof(program));
    snprintf(job, sizeof(job), "%lld", (long long)link->job);
    snprintf(attempt, sizeof(attempt), "%lld", (long long)link->attempt);
    snprintf(nonce, sizeof(nonce), "JOBCTL_AGENT_NONCE=%s", link->nonce);
    size_t n = 0;
    while (environ[n])
        n++;
    char **env = calloc(n + 2, sizeof(*env));
    if (!env)
        return UV_ENOMEM;
    memcpy(env, environ, n * sizeof(*env));
    env[n] = nonce;
    char *args[] = { program, (char[]){ "run" }, (char[]){ "--dir" }, link->run_dir,
                     (char[]){ "--job" }, job, (char[]){ "--attempt" }, attempt, NULL };
    uv_stdio_container_t io[3] = { { .flags = UV_IGNORE }, { .flags = UV_IGNORE },
                                   { .flags = UV_INHERIT_FD, .data.fd = s->said } };
    uv_process_options_t options = { .exit_cb = start_exited, .file = program, .args = args,
                                     .env = env, .flags = UV_PROCESS_DETACHED, .stdio = io,
                                     .stdio_count = 3 };
    int rc = uv_spawn(link->loop, &s->process, &options);
    free(env);
    return rc;
}

static void start(struct link *link)
{
    if (link->starts++ >= STARTS) {
        snprintf(link->text, sizeof(link->text), "its agent was started %d times and did not stay",
                 STARTS);
        bury(link);
        return;
    }
    struct start *s = calloc(1, sizeof(*s));
    if (!s) {
        later(link, LOOK_SELDOM_MS, look);
        return;
    }
    s->process.data = s;
    s->link = link;
    s->said = memfd_create("jobctl-agent-said", MFD_CLOEXEC);
    int rc = start_spawn(link, s);
    if (rc == 0) {
        link->start = s;
        return;
    }
    snprintf(link->text, sizeof(link->text), "its agent could not be started: %s",
             uv_strerror(rc));
    s->link = NULL;
    uv_close((uv_handle_t *)&s->process, start_closed);
    bury(link);
}

/* ---- the end of an attempt whose agent is gone ---- */

static int give_spooled(void *arg, const json_t *event)
{
    struct link *link = arg;
    struct err err = { 0 };
    const struct wire_row *row = wire_find(WIRE_EVENT, TO_CONTROLLER);
    if (wire_check(row, event, &err) < 0 || !is_ours(link, event)) {
        log_error(link->tag, "the spool holds something else than its events: %s", err.text);
        return 1;
    }
    link->hooks.message(link->hooks.arg, WIRE_EVENT, event);
    return link->closed;
}

static void read_spool(struct link *link)
{
    char spool[PATH_MAX];
    struct err err = { 0 };
    path_in(spool, sizeof(spool), link, RUN_DIR_SPOOL);
    if (access(spool, R_OK) == 0 &&
        spool_read(spool, link->hooks.acked(link->hooks.arg), give_spooled, link, &err) < 0)
        log_error(link->tag, "%s", err.text);
    if (!link->closed)
        link->hooks.lost(link->hooks.arg, link->text);
}

static void sweep(struct link *link)
{
    char left[256] = "";
    bool patient = uv_now(link->loop) < link->bury_until;
    const struct sweep s = { .nonce = link->nonce, .kill = !patient };
    int n = sweep_run(&s, left, sizeof(left));
    if (n != 0) {
        if (!patient)
            log_warn(link->tag, "ended what its agent had left: %s", left);
        later(link, SWEEP_MS, sweep);
        return;
    }
    read_spool(link);
}

static void bury(struct link *link)
{
    struct err err = { 0 };
    if (!link->text[0])
        snprintf(link->text, sizeof(link->text), "the agent of attempt %lld died",
                 (long long)link->attempt);
    int lock = run_dir_lock(link->run_dir, &err);
    if (lock < 0 && err.code == ERR_CONFLICT) {
        later(link, LOOK_AGAIN_MS, look);       /* one is coming up, or on its way out */
        return;
    }
    if (lock >= 0) {
        if (run_dir_fence(link->run_dir, &err) < 0)
            log_warn(link->tag, "%s", err.text);
        close(lock);
    }
    link->bury_until = uv_now(link->loop) + SWEEP_GRACE_MS;
    sweep(link);
}

/* ---- looking ---- */

static void look(struct link *link)
{
    struct err err = { 0 };
    struct identity who;
    char socket[PATH_MAX];
    bool known = identity_read(&who, link->run_dir, NULL) == 0 &&
                 strcmp(who.nonce, link->nonce) == 0;
    if (!known && link->may_start && !run_dir_fenced(link->run_dir)) {
        start(link);
        return;
    }
    if (!known || !identity_alive(&who)) {
        if (!known)
            snprintf(link->text, sizeof(link->text), "the agent of attempt %lld never started",
                     (long long)link->attempt);
        bury(link);
        return;
    }
    path_in(socket, sizeof(socket), link, RUN_DIR_SOCKET);
    int fd = unix_socket_connect(socket, true, &err);
    if (fd < 0 || stream_open(link, fd, &err) < 0) {
        if (++link->looks == 50)
            log_warn(link->tag, "its agent lives (pid %lld) but cannot be reached: %s",
                     (long long)who.pid, err.text);
        later(link, link->looks < 50 ? LOOK_AGAIN_MS : LOOK_SELDOM_MS, look);
    }
}

static int local_open(struct link **out, uv_loop_t *loop, const struct link_spec *spec,
                      const struct link_hooks *hooks, struct err *err)
{
    struct link *link = calloc(1, sizeof(*link));
    if (!link || !(link->run_dir = strdup(spec->run_dir))) {
        free(link);
        return err_set(err, ERR_MEMORY, "out of memory for a link to an agent");
    }
    link->loop = loop;
    link->hooks = *hooks;
    link->may_start = spec->may_start;
    link->job = spec->job;
    link->attempt = spec->attempt;
    snprintf(link->nonce, sizeof(link->nonce), "%s", spec->nonce);
    snprintf(link->tag, sizeof(link->tag), "%lld.%lld", (long long)spec->job,
             (long long)spec->attempt);
    uv_timer_init(loop, &link->timer);
    link->timer.data = link;
    link->handles = 1;
    later(link, spec->delay_ms, look);
    *out = link;
    return 0;
}

static void local_send(struct link *link, enum wire_message number, json_t *body)
{
    if (link->stream)
        stream_send(link->stream, number, body);
    json_decref(body);
}

static void timer_closed(uv_handle_t *handle)
{
    link_release(handle->data);
}

static void stream_flushed(uv_shutdown_t *request, int status)
{
    (void)status;
    stream_close(request->data);
    free(request);
}

static void local_close(struct link *link)
{
    link->closed = true;
    uv_close((uv_handle_t *)&link->timer, timer_closed);
    if (link->start) {
        link->start->link = NULL;
        uv_unref((uv_handle_t *)&link->start->process);
    }
    struct stream *s = link->stream;
    if (!s)
        return;
    link->stream = NULL;
    uv_read_stop((uv_stream_t *)&s->pipe);
    uv_shutdown_t *request = calloc(1, sizeof(*request));
    if (request)
        request->data = s;
    if (!request || uv_shutdown(request, (uv_stream_t *)&s->pipe, stream_flushed) != 0) {
        free(request);
        stream_close(s);
    }
}

const struct remote remote_local = {
    .name = "local",
    .open = local_open,
    .send = local_send,
    .close = local_close,
};
