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
#include <unistd.h>

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
#include "engine/contract/err.h"
#include "engine/contract/install.h"

enum {
    LOOK_AGAIN_MS = 20,
    LOOK_SELDOM_MS = 500,
    CLEANUP_MS = 50,
    CLEANUP_GRACE_MS = 5000, /* ranks of a dead agent write a checkpoint and exit */
    STARTS = 3,
    EXIT_LOCKED = 3
};

struct local {
    struct remote_link base;
    struct subprocess *start; /* of an agent; NULL: none */
    bool               alone;     /* the only agent of its attempt on this machine */
    bool               strange;   /* the run directory is another job's */
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

static void path_in(char *out, size_t size, const struct local *link, const char *name)
{
    snprintf(out, size, "%s/%s", link->base.run_dir, name);
}

/* ---- the stream ---- */

static void channel_text(void *arg, enum wire_message number, const json_t *body)
{
    struct local *link = arg;
    link->looks = 0;
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
    char program[PATH_MAX], job[24], attempt[24], nonce[128], gpus[sizeof(link->gpus) + 32];
    install_path(program, sizeof(program), "jobctl-agent");
    snprintf(job, sizeof(job), "%lld", (long long)link->base.job);
    snprintf(attempt, sizeof(attempt), "%lld", (long long)link->base.attempt);
    snprintf(nonce, sizeof(nonce), "JOBCTL_AGENT_NONCE=%s", link->base.nonce);
    snprintf(gpus, sizeof(gpus), "CUDA_VISIBLE_DEVICES=%s", link->gpus);
    const struct subprocess_spec s = {
        .argv = (const char *const[]){program, "run", "--dir", link->base.run_dir, "--job", job,
                                      "--attempt", attempt, NULL},
        .set = (const char *const[]){nonce, link->gpus[0] ? gpus : NULL, NULL},
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
    if (link->strange) {
        link->base.hooks.lost(link->base.hooks.arg, link->base.text);
        return;
    }
    control_group_remove(link->base.run_dir);
    remote_link_read_spool(&link->base);
}

static void bury(struct remote_link *base)
{
    struct local *link = local_of(base);
    struct err err = { 0 };
    if (!link->base.text[0])
        snprintf(link->base.text, sizeof(link->base.text), "the agent of attempt %lld died",
                 (long long)link->base.attempt);
    int lock = run_dir_lock(link->base.run_dir, &err);
    if (lock < 0 && err.code == ERR_CONFLICT) {
        /* an agent is starting or exiting */
        remote_link_later(&link->base, LOOK_AGAIN_MS, look);
        return;
    }
    if (lock >= 0) {
        if (run_dir_fence(link->base.run_dir, NULL, &err) < 0)
            log_warn(link->base.tag, "%s", err.text);
        close(lock);
    }
    link->bury_until = uv_now(link->base.loop) + CLEANUP_GRACE_MS;
    cleanup(&link->base);
}

/* ---- looking ---- */

/* An agent that finds the fence stops its ranks and exits. */
static void dismiss(struct local *link)
{
    struct err err = { 0 };
    snprintf(link->base.text, sizeof(link->base.text), "its agent was stopped");
    if (!run_dir_fenced(link->base.run_dir) && run_dir_fence(link->base.run_dir, NULL, &err) < 0)
        log_warn(link->base.tag, "%s", err.text);
    remote_link_later(&link->base, LOOK_SELDOM_MS, look);
}

/* After a restore of an older store, ids name other jobs than the directories: neither that agent nor its lock, fence
 * and spool are touched. Processes with the nonce of this attempt are its own. */
static void leave_alone(struct local *link, const struct identity *who)
{
    snprintf(link->base.text, sizeof(link->base.text),
             "%.250s holds an attempt of another job%s, which is left alone: the store is older than the directory",
             link->base.run_dir, identity_alive(who) ? ", whose agent runs" : "");
    log_error(link->base.tag, "%s", link->base.text);
    link->strange = true;
    link->bury_until = uv_now(link->base.loop) + CLEANUP_GRACE_MS;
    cleanup(&link->base);
}

static void look(struct remote_link *base)
{
    struct local *link = local_of(base);
    struct err err = { 0 };
    struct identity who;
    char socket[PATH_MAX];
    const bool known = identity_read(&who, link->base.run_dir, NULL) == 0;
    if (known && !identity_is_of(&who, link->base.nonce, link->base.origin)) {
        leave_alone(link, &who);
        return;
    }
    if (!known && link->base.may_start && !run_dir_fenced(link->base.run_dir)) {
        start(link);
        return;
    }
    if (link->base.dismiss && known && identity_alive(&who)) {
        dismiss(link);
        return;
    }
    if (!known || !identity_alive(&who)) {
        if (!known)
            snprintf(link->base.text, sizeof(link->base.text),
                     "the agent of attempt %lld never started", (long long)link->base.attempt);
        bury(&link->base);
        return;
    }
    path_in(socket, sizeof(socket), link, RUN_DIR_SOCKET);
    int fd = unix_socket_connect(socket, true, &err);
    if (fd < 0 || stream_open(link, fd, &err) < 0) {
        if (++link->looks == 50)
            log_warn(link->base.tag, "its agent runs (pid %lld) but cannot be reached: %s",
                     (long long)who.pid, err.text);
        remote_link_later(&link->base, link->looks < 50 ? LOOK_AGAIN_MS : LOOK_SELDOM_MS, look);
    }
}

static int local_open(struct remote_link **out, uv_loop_t *loop,
                      const struct remote_link_spec *spec,
                      const struct remote_link_hooks *hooks, struct err *err)
{
    *out = remote_link_create(sizeof(struct local), loop, spec, hooks, err);
    if (!*out)
        return -1;
    struct local *link = local_of(*out);
    link->alone = spec->nodes < 2;
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
    .send = remote_link_send,
    .close = local_close,
};
