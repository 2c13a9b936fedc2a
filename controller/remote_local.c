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
 * The link is freed when its timer is closed.
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

#include "agent/identity.h"
#include "agent/log.h"
#include "agent/run_dir.h"
#include "agent/spool.h"
#include "agent/sweep.h"
#include "agent/unix_socket.h"
#include "agent/wire.h"
#include "controller/agent_stream.h"
#include "engine/err.h"

enum {
    LOOK_AGAIN_MS = 20,
    LOOK_SELDOM_MS = 500,
    SWEEP_MS = 50,
    SWEEP_GRACE_MS = 5000,      /* ranks of a dead agent write a checkpoint and leave by themselves */
    STARTS = 3,
    EXIT_LOCKED = 3
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
    struct agent_stream *stream;
    struct start     *start;
    bool              closed;
    bool              may_start, dismiss;
    bool              alone;        /* of its attempt on this machine */
    int               starts, looks;
    uint64_t          bury_until;
    int64_t           job, attempt;
    char              nonce[NONCE_CHARS + 1];
    char              tag[48];
    char              text[400];    /* why it is lost */
    char             *run_dir;
    char              gpus[512];    /* what its agent sees, "" = as it is */
    void            (*step)(struct link *link);
};

static void look(struct link *link);
static void bury(struct link *link);

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

static void heard(void *arg, enum wire_message number, const json_t *body)
{
    struct link *link = arg;
    link->looks = 0;
    link->hooks.message(link->hooks.arg, number, body);
}

static void stream_ended(void *arg)
{
    struct link *link = arg;
    link->stream = NULL;
    later(link, LOOK_AGAIN_MS, look);
}

static int stream_open(struct link *link, int fd, struct err *err)
{
    const struct wire_id id = { link->job, link->attempt, link->nonce };
    const struct agent_stream_hooks hooks = { heard, stream_ended, link };
    return agent_stream_open(&link->stream, link->loop, fd, &id, &hooks, err);
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

/* The place of the k-th entry of a list "a,b,c", or NULL. */
static const char *entry(const char *list, int64_t k)
{
    while (list && k-- > 0)
        if ((list = strchr(list, ',')))
            list++;
    return list && *list ? list : NULL;
}

void remote_share_gpus(char *out, size_t size, int64_t each, int node)
{
    const char *seen = getenv("CUDA_VISIBLE_DEVICES");
    size_t at = 0;
    out[0] = 0;
    for (int64_t k = node * each; each > 0 && k < (node + 1) * each && at + 80 < size; k++) {
        const char *one = entry(seen, k);
        at += (size_t)snprintf(out + at, size - at, "%s", at ? "," : "");
        if (one)
            at += (size_t)snprintf(out + at, size - at, "%.*s", (int)strcspn(one, ",") % 64, one);
        else
            at += (size_t)snprintf(out + at, size - at, "%lld", (long long)k);
    }
}

static int start_spawn(struct link *link, struct start *s)
{
    char program[PATH_MAX], job[24], attempt[24], nonce[128], gpus[sizeof(link->gpus) + 32];
    remote_agent_program(program, sizeof(program));
    snprintf(job, sizeof(job), "%lld", (long long)link->job);
    snprintf(attempt, sizeof(attempt), "%lld", (long long)link->attempt);
    snprintf(nonce, sizeof(nonce), "JOBCTL_AGENT_NONCE=%s", link->nonce);
    size_t n = 0;
    while (environ[n])
        n++;
    char **env = calloc(n + 3, sizeof(*env));
    if (!env)
        return UV_ENOMEM;
    n = 0;
    for (char **e = environ; *e; e++)
        if (!link->gpus[0] || strncmp(*e, "CUDA_VISIBLE_DEVICES=", 21) != 0)
            env[n++] = *e;
    env[n++] = nonce;
    if (link->gpus[0]) {
        snprintf(gpus, sizeof(gpus), "CUDA_VISIBLE_DEVICES=%s", link->gpus);
        env[n] = gpus;
    }
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
    const struct wire_id ours = { link->job, link->attempt, link->nonce };
    const struct wire_id said = wire_id_of(event);
    if (wire_check(row, event, &err) < 0 || !wire_id_same(&ours, &said)) {
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
    const struct sweep s = { .nonce = link->nonce, .kill = !patient,
                             .run_dir = link->alone ? NULL : link->run_dir };
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

/* An agent that finds the fence ends its ranks and leaves. */
static void dismiss(struct link *link)
{
    struct err err = { 0 };
    snprintf(link->text, sizeof(link->text), "its agent was told to leave");
    if (!run_dir_fenced(link->run_dir) && run_dir_fence(link->run_dir, &err) < 0)
        log_warn(link->tag, "%s", err.text);
    later(link, LOOK_SELDOM_MS, look);
}

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
    if (link->dismiss && known && identity_alive(&who)) {
        dismiss(link);
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
    link->dismiss = spec->dismiss;
    link->alone = spec->nodes < 2;
    snprintf(link->gpus, sizeof(link->gpus), "%s", spec->gpus ? spec->gpus : "");
    link->job = spec->job;
    link->attempt = spec->attempt;
    snprintf(link->nonce, sizeof(link->nonce), "%s", spec->nonce);
    snprintf(link->tag, sizeof(link->tag), "%lld.%lld", (long long)spec->job,
             (long long)spec->attempt);
    uv_timer_init(loop, &link->timer);
    link->timer.data = link;
    later(link, spec->delay_ms, look);
    *out = link;
    return 0;
}

static void local_send(struct link *link, enum wire_message number, json_t *body)
{
    if (link->stream)
        agent_stream_send(link->stream, number, body);
    json_decref(body);
}

static void timer_closed(uv_handle_t *handle)
{
    struct link *link = handle->data;
    free(link->run_dir);
    free(link);
}

static void local_close(struct link *link)
{
    link->closed = true;
    uv_close((uv_handle_t *)&link->timer, timer_closed);
    if (link->start) {
        link->start->link = NULL;
        uv_unref((uv_handle_t *)&link->start->process);
    }
    agent_stream_close(link->stream);
    link->stream = NULL;
}

const struct remote remote_local = {
    .name = "local",
    .open = local_open,
    .send = local_send,
    .close = local_close,
};
