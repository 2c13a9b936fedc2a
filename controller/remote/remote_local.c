/* SPDX-License-Identifier: Apache-2.0 */
/* remote_local.c - launch: local: finds the attempt's agent, starts it, or proves it dead
 *
 *   look     which agent does the run directory name?
 *     none                   -> start one, or (may_start false) prove that none will start
 *     a live one             -> connect; when the stream ends, look again
 *     one of another job     -> leave it alone: the store is older than the directory
 *     a dead one             -> bury: lock and fence the directory, wait until no process with
 *                               the attempt's nonce is left, read the spool to its end, lost
 */
#include "controller/remote/remote.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "agent/container/container_sweep.h"
#include "agent/os/identity.h"
#include "agent/os/log.h"
#include "agent/os/run_dir.h"
#include "agent/os/subprocess.h"
#include "agent/os/unix_socket.h"
#include "agent/ranks/cleanup_pass.h"
#include "agent/ranks/control_group.h"
#include "agent/wire/wire.h"
#include "controller/remote/agent_stream.h"
#include "controller/remote/remote_link.h"
#include "engine/base/err.h"
#include "engine/contract/exit_code.h"
#include "engine/base/field.h"
#include "engine/contract/install.h"

enum {
    LOOK_AGAIN_MS = 20,
    LOOK_SELDOM_MS = 500,
    CLEANUP_MS = 50,
    CLEANUP_GRACE_MS = 5000, /* ranks of a dead agent write a checkpoint and exit */
    ANSWER_MS = 5000,        /* ... to a stop at once; else it is killed: it is stopped itself, or hangs */
    STARTS = 3,
    EXIT_LOCKED = 3,
    AGENT_BYTES = 64 * 1024 /* of free disk, without which no agent starts */
};

struct local {
    struct remote_link base;
    struct subprocess *start; /* of an agent; NULL: none */
    bool               alone;     /* the only agent of its attempt on this machine */
    bool               strange;   /* the run directory is another job's */
    bool               damage_told;
    bool               unanswered;    /* it has been told to stop at once, and has said nothing since */
    bool               killed;        /* by us, for that */
    bool               unstarted; /* its agent could not be started */
    bool               no_nvml;   /* as in struct remote_link_spec */
    int                starts, looks;
    uint64_t           bury_until;
    char               gpus[512]; /* GPUs of its agent, "" = all */
};

static struct local *local_of(struct remote_link *base)
{
    return (struct local *)base;
}

static void look(struct remote_link *base);
static void bury(struct remote_link *base);

/* ---- the stream ---- */

static void channel_text(void *arg, enum wire_message number, const json_t *body)
{
    struct local *link = arg;
    link->looks = 0;
    link->unanswered = false;
    link->base.unreadable[0] = 0;
    link->base.hooks.message(link->base.hooks.arg, number, body);
}

static void unreadable(void *arg, const char *text)
{
    struct local *link = arg;
    remote_link_unreadable(&link->base, text);
}

static void stream_ended(void *arg)
{
    struct local *link = arg;
    link->base.stream = NULL;
    remote_link_later(&link->base, remote_link_pause_ms(&link->base, LOOK_AGAIN_MS), look);
}

static int stream_open(struct local *link, int fd, struct err *err)
{
    const struct wire_id id = remote_link_id(&link->base);
    const struct agent_stream_hooks hooks = { channel_text, unreadable, stream_ended, link };
    return agent_stream_open(&link->base.stream, link->base.loop, fd, &id, &hooks, err);
}

/* ---- starting an agent ---- */

static void start_ended(void *arg, const struct subprocess_end *e)
{
    struct local *link = arg;
    char words[300];
    const bool killed = e->code >= SUBPROCESS_SIGNALLED;
    link->start = NULL;
    if (e->code == 0 || e->code == EXIT_LOCKED) {
        remote_link_later(&link->base, e->code == 0 ? 0 : LOOK_AGAIN_MS, look);
        return;
    }
    link->unstarted = true;
    link->base.cause = e->code == EXIT_DISK_FULL ? CAUSE_DISK_FULL : CAUSE_NONE;
    subprocess_last_line(words, sizeof(words), e->said, "jobctl-agent");
    snprintf(link->base.text, sizeof(link->base.text), "cannot start its agent (%s %d)%s%s",
             killed ? "signal" : "exit code", killed ? e->code - SUBPROCESS_SIGNALLED : e->code,
             words[0] ? ": " : "", words);
    remote_link_later(&link->base, 0, bury);
}

/* The start of the k-th entry of a list "a,b,c", or NULL. */
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

static int start_spawn(struct local *link, struct err *err)
{
    char program[PATH_MAX], job[24], attempt[24], nonce[128], origin[80], gpus[sizeof(link->gpus) + 32];
    install_path(program, sizeof(program), "jobctl-agent");
    snprintf(job, sizeof(job), "%lld", (long long)link->base.job);
    snprintf(attempt, sizeof(attempt), "%lld", (long long)link->base.attempt);
    snprintf(nonce, sizeof(nonce), "JOBCTL_AGENT_NONCE=%s", link->base.nonce);
    snprintf(origin, sizeof(origin), IDENTITY_ORIGIN_ENV "=%s", link->base.origin);
    snprintf(gpus, sizeof(gpus), "CUDA_VISIBLE_DEVICES=%s", link->gpus);
    const char *nvml = link->no_nvml ? IDENTITY_NO_NVML_ENV "=1" : NULL;
    const struct subprocess_spec s = {
        .argv = (const char *const[]){program, "run", "--dir", link->base.run_dir, "--job", job,
                                      "--attempt", attempt, NULL},
        .set = (const char *const[]){nonce, origin, link->gpus[0] ? gpus : nvml, link->gpus[0] ? nvml : NULL, NULL},
        .err = SUBPROCESS_PIPE,
        .session = true};
    const struct subprocess_hooks hooks = {.ended = start_ended, .arg = link};
    return subprocess_open(&link->start, link->base.loop, &s, 0, &hooks, err);
}

static void start(struct local *link)
{
    struct err err = {0};
    if (link->starts++ >= STARTS) {
        snprintf(link->base.text, sizeof(link->base.text),
                 "its agent exited right after each of %d starts", STARTS);
        bury(&link->base);
    } else if (start_spawn(link, &err) < 0) {
        snprintf(link->base.text, sizeof(link->base.text), "cannot start its agent: %.300s", err.text);
        bury(&link->base);
    }
}

/* ---- end an attempt whose agent is dead ---- */

static void sweep(struct remote_link *base);

static void cleaned(struct local *link)
{
    if (link->strange) {
        link->base.hooks.lost(link->base.hooks.arg, link->base.text);
        return;
    }
    control_group_remove(link->base.run_dir);
    remote_link_read_spool(&link->base);
}

static void cleanup(struct remote_link *base)
{
    struct local *link = local_of(base);
    char left[256] = "", group[CONTROL_GROUP_PATH];
    bool patient = uv_now(link->base.loop) < link->bury_until;
    control_group_find(group, link->base.run_dir);
    const struct cleanup_pass s = { .group = group, .nonce = link->base.nonce, .signo = patient ? 0 : SIGKILL,
                             .run_dir = link->alone ? NULL : link->base.run_dir };
    int n = cleanup_pass_run(&s, left, sizeof(left));
    if (n != 0) {
        if (!patient)
            log_warn(link->base.tag, "killed processes that its agent had left: %s", left);
        remote_link_later(&link->base, CLEANUP_MS, cleanup);
        return;
    }
    sweep(&link->base);
}

/* An access to its files by a thread: what it is to know, and what it found. */
struct look_task {
    struct remote_link_task base;
    char                    run_dir[PATH_MAX], nonce[NONCE_CHARS + 1], origin[40];
    bool                    dismiss, alone;
    struct identity         who;
    bool                    known, alive, fenced, locked;
    bool                    strange;    /* an attempt of another job */
    bool                    full;       /* the disk of the run directory has no room for an agent */
    bool                    unnamed;    /* an agent answers, and agent.json does not tell which */
    struct err              damage;     /* why agent.json cannot be read */
    int                     fd;         /* connected to its socket; -1: not */
    struct err              err;
};

static void look_destroy(struct file_task *task)
{
    const struct look_task *t = (const struct look_task *)task;
    if (t->fd >= 0)
        close(t->fd);
    free(task);
}

static void look_begin(struct local *link, void (*work)(struct file_task *),
                       void (*then)(struct remote_link *, struct remote_link_task *), remote_link_step again)
{
    struct look_task *t = calloc(1, sizeof(*t));
    if (!t) {
        log_error(link->base.tag, "out of memory to look for an agent");
        remote_link_later(&link->base, LOOK_SELDOM_MS, again);
        return;
    }
    t->base = (struct remote_link_task){ { .work = work, .destroy = look_destroy }, then };
    snprintf(t->run_dir, sizeof(t->run_dir), "%s", link->base.run_dir);
    snprintf(t->nonce, sizeof(t->nonce), "%s", link->base.nonce);
    snprintf(t->origin, sizeof(t->origin), "%s", link->base.origin);
    t->dismiss = link->base.dismiss;
    t->alone = link->alone;
    t->fd = -1;
    remote_link_access(&link->base, &t->base, "looking for the agent");
}

/* By a thread: its container runtime is asked, if it had one. */
static void sweep_work(struct file_task *task)
{
    struct look_task *t = (struct look_task *)task;
    container_sweep(t->run_dir, t->nonce, t->alone, &t->err);
}

static void sweep_then(struct remote_link *base, struct remote_link_task *task)
{
    const struct look_task *t = (const struct look_task *)task;
    if (t->err.code)
        log_warn(base->tag, "%s", t->err.text);
    cleaned(local_of(base));
}

static void sweep(struct remote_link *base)
{
    look_begin(local_of(base), sweep_work, sweep_then, sweep);
}

/* Even the run directory may be missing then: that of its job is looked at, or that of all jobs. */
static bool is_full(const char *run_dir)
{
    char dir[PATH_MAX];
    struct statvfs s;
    snprintf(dir, sizeof(dir), "%s", run_dir);
    while (statvfs(dir, &s) < 0) {
        char *end = strrchr(dir, '/');
        if (errno != ENOENT || !end || end == dir)
            return false;
        *end = '\0';
    }
    return (uint64_t)s.f_bavail * s.f_frsize < AGENT_BYTES;
}

/* No agent lives or starts here any more. */
static void bury_work(struct file_task *task)
{
    struct look_task *t = (struct look_task *)task;
    t->full = is_full(t->run_dir);
    int lock = run_dir_lock(t->run_dir, &t->err);
    t->locked = lock < 0 && t->err.code == ERR_CONFLICT;
    t->err = (struct err){ 0 };
    if (lock < 0)
        return;
    run_dir_fence(t->run_dir, NULL, &t->err);
    close(lock);
}

static void bury_then(struct remote_link *base, struct remote_link_task *task)
{
    struct local *link = local_of(base);
    const struct look_task *t = (const struct look_task *)task;
    if (t->locked) {
        /* an agent is starting or exiting */
        remote_link_later(base, LOOK_AGAIN_MS, look);
        return;
    }
    if (t->err.code)
        log_warn(base->tag, "%s", t->err.text);
    if (link->unstarted && t->full)
        base->cause = CAUSE_DISK_FULL;
    link->bury_until = uv_now(base->loop) + (link->killed ? 0 : CLEANUP_GRACE_MS);
    cleanup(base);
}

static void bury(struct remote_link *base)
{
    struct local *link = local_of(base);
    if (!link->base.text[0])
        snprintf(link->base.text, sizeof(link->base.text), "the agent of attempt %lld died",
                 (long long)link->base.attempt);
    look_begin(link, bury_work, bury_then, bury);
}

/* ---- an agent that does not answer ---- */

/* The agent of this attempt, if it lives. */
static void kill_work(struct file_task *task)
{
    struct look_task *t = (struct look_task *)task;
    t->known = identity_read(&t->who, t->run_dir, &t->err) == 0 && identity_is_of(&t->who, t->nonce, t->origin) &&
               identity_alive(&t->who) && kill((pid_t)t->who.pid, SIGKILL) == 0;
}

/* Its end closes the stream. */
static void kill_then(struct remote_link *base, struct remote_link_task *task)
{
    const struct look_task *t = (const struct look_task *)task;
    if (!t->known)
        return;
    local_of(base)->killed = true;
    snprintf(base->text, sizeof(base->text), "its agent did not answer within %d s of `cancel --now` and was killed",
             ANSWER_MS / 1000);
    log_warn(base->tag, "%s (pid %lld)", base->text, (long long)t->who.pid);
}

static void kill_silent(struct remote_link *base)
{
    if (local_of(base)->unanswered && base->stream)
        look_begin(local_of(base), kill_work, kill_then, kill_silent);
}

static void local_send(struct remote_link *base, enum wire_message number, json_t *body)
{
    struct local *link = local_of(base);
    if (number == WIRE_STOP && field_int(body, "grace_ms", 1) == 0 && !field_true(body, "checkpoint"))
        link->unanswered = true;
    remote_link_send(base, number, body);
    if (link->unanswered && base->stream)
        remote_link_later(base, ANSWER_MS, kill_silent);
}

/* ---- looking ---- */

/* Where agent.json is damaged the lock tells whether an agent lives, and its HELLO will tell which. */
static bool answers_unnamed(struct look_task *t, const char *socket)
{
    if (run_dir_held(t->run_dir) == 1)
        t->fd = unix_socket_connect(socket, true, NULL);
    return t->fd >= 0;
}

static void look_work(struct file_task *task)
{
    struct look_task *t = (struct look_task *)task;
    char socket[PATH_MAX + 40];
    snprintf(socket, sizeof(socket), "%s/" RUN_DIR_SOCKET, t->run_dir);
    t->known = identity_read(&t->who, t->run_dir, &t->damage) == 0;
    t->alive = t->known && identity_alive(&t->who);
    t->strange = t->known && !identity_is_of(&t->who, t->nonce, t->origin);
    if (t->strange)
        return;
    t->unnamed = !t->alive && t->damage.code != ERR_NOT_FOUND && answers_unnamed(t, socket);
    t->alive = t->alive || t->unnamed;
    if (!t->known || (t->alive && t->dismiss))
        t->fenced = run_dir_fenced(t->run_dir);
    if (!t->alive)
        return;
    /* An agent that finds the fence stops its ranks and exits. */
    if (t->dismiss && !t->fenced)
        run_dir_fence(t->run_dir, NULL, &t->err);
    if (!t->dismiss && !t->unnamed)
        t->fd = unix_socket_connect(socket, true, &t->err);
}

static void dismissed(struct local *link, const struct look_task *t)
{
    snprintf(link->base.text, sizeof(link->base.text), "its agent was stopped");
    if (t->err.code)
        log_warn(link->base.tag, "%s", t->err.text);
    remote_link_later(&link->base, LOOK_SELDOM_MS, look);
}

/* After a restore of an older store, ids name other jobs than the directories: neither that agent nor its lock, fence
 * and spool are touched. Processes with the nonce of this attempt are its own. */
static void leave_alone(struct local *link, const struct look_task *t)
{
    snprintf(link->base.text, sizeof(link->base.text),
             "%.250s holds an attempt of another job%s, and was not changed: the store is older than the directory",
             link->base.run_dir, t->alive ? ", whose agent runs" : "");
    log_error(link->base.tag, "%s", link->base.text);
    link->strange = true;
    link->bury_until = uv_now(link->base.loop) + CLEANUP_GRACE_MS;
    cleanup(&link->base);
}

static void join(struct local *link, struct look_task *t)
{
    const int fd = t->fd;
    t->fd = -1;                         /* the stream's */
    if (fd >= 0 && stream_open(link, fd, &t->err) == 0) {
        remote_link_later(&link->base, ANSWER_MS, kill_silent);
        return;
    }
    if (++link->looks == 50)
        log_warn(link->base.tag, "its agent runs (pid %lld) but cannot be reached: %s",
                 (long long)t->who.pid, t->err.text);
    remote_link_later(&link->base, link->looks < 50 ? LOOK_AGAIN_MS : LOOK_SELDOM_MS, look);
}

static void tell_damage(struct local *link, const struct look_task *t)
{
    if (t->damage.code != ERR_DATA || link->damage_told)
        return;
    link->damage_told = true;
    log_warn(link->base.tag, "%s; %s", t->damage.text,
             t->alive ? "its agent answers; asking for its identity" : "no agent answers");
}

static void never_started(struct local *link, const struct look_task *t)
{
    if (t->damage.code == ERR_DATA)
        snprintf(link->base.text, sizeof(link->base.text), "the agent of attempt %lld died; %.300s",
                 (long long)link->base.attempt, t->damage.text);
    else
        snprintf(link->base.text, sizeof(link->base.text), "the agent of attempt %lld never started",
                 (long long)link->base.attempt);
}

static void look_then(struct remote_link *base, struct remote_link_task *task)
{
    struct local *link = local_of(base);
    struct look_task *t = (struct look_task *)task;
    tell_damage(link, t);
    if (t->strange) {
        leave_alone(link, t);
    } else if (t->alive && t->dismiss) {
        dismissed(link, t);
    } else if (t->alive) {
        join(link, t);
    } else if (!t->known && link->base.may_start && !t->fenced) {
        start(link);
    } else {
        if (!t->known)
            never_started(link, t);
        bury(base);
    }
}

static void look(struct remote_link *base)
{
    look_begin(local_of(base), look_work, look_then, look);
}

static int local_open(struct remote_link **out, uv_loop_t *loop, const struct remote_link_spec *spec,
                      const struct remote_link_hooks *hooks, struct err *err)
{
    *out = remote_link_create(sizeof(struct local), loop, spec, hooks, err);
    if (!*out)
        return -1;
    struct local *link = local_of(*out);
    link->alone = spec->nodes < 2;
    link->no_nvml = spec->no_nvml;
    snprintf(link->gpus, sizeof(link->gpus), "%s", spec->gpus ? spec->gpus : "");
    remote_link_later(*out, spec->delay_ms, look);
    return 0;
}

static void local_close(struct remote_link *base)
{
    subprocess_close(&local_of(base)->start, 0);
    remote_link_close(base);
}

const struct remote remote_local = {
    .name = "local",
    .open = local_open,
    .send = local_send,
    .close = local_close,
};
