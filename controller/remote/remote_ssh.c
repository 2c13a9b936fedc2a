/* SPDX-License-Identifier: Apache-2.0 */
/* remote_ssh.c - launch: ssh: attempts on another machine, through a helper process
 *
 * jobctl-ssh (controller/ssh/) connects to `jobctl-agent attach` on the host, which finds, starts
 * or buries the agent and relays its messages. When the helper exits, the link starts another with
 * growing pauses; training continues meanwhile. A host that is unreachable for HOST_LOST_MS is lost
 * without proof: vanished(). A host that was never reached is reported at once, if the link may yield: nothing was
 * launched there. A stop ends a link whose agent was never heard of at once: it had no LAUNCH, without which
 * it ends by itself. A first attempt whose host has no address is refused; later ones wait, as names come and go with
 * a network.
 */
#include "controller/remote/remote.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/os/log.h"
#include "agent/os/subprocess.h"
#include "controller/remote/agent_stream.h"
#include "controller/remote/log_copy.h"
#include "controller/remote/remote_link.h"
#include "controller/spec/config.h"
#include "engine/base/err.h"
#include "engine/contract/install.h"
#include "engine/base/json_make.h"

enum {
    HOST_LOST_MS = 120 * 1000,
    SILENT_MS = 10 * 1000,      /* a host that sends nothing, not even a keepalive */
    PAUSE_MS = 100,
    PAUSE_MAX_MS = 5000,
    EXIT_REFUSED = 2,           /* of jobctl-ssh: the user must fix something first */
    EXIT_NO_NAME = 3,           /* the resolver has no such host */
    EXIT_UNREACHED = 5          /* no connection, or no login */
};

struct ssh {
    struct remote_link base;
    struct subprocess *helper;   /* NULL: not running */
    bool               reached;  /* an agent of this attempt was reached at least once */
    bool               known;    /* it, or another link before */
    bool               stop, yields;
    int                status;   /* of the helper of this session */
    uint64_t           lost_ms, silent_ms;
    uint64_t           tried_at; /* start of this session */
    uint64_t           heard_at; /* last message in it; 0: none yet, the helper has deadlines */
    uint64_t           away_since, pause_ms;
    char               host[64], key[48];
    char               code[PATH_MAX];  /* jobs/<id>/code, to be sent before an agent is started; "": none */
    char               why[400]; /* the last error of the newest helper */
};

static struct ssh *ssh_of(struct remote_link *base)
{
    return (struct ssh *)base;
}

static void reach(struct remote_link *base);

static void reach_later(struct ssh *link, uint64_t ms)
{
    remote_link_later(&link->base, ms, reach);
}

/* ---- end of a session ---- */

static void tell_waiting(struct ssh *link)
{
    char text[500];
    snprintf(text, sizeof(text), "%s%s", link->why, link->reached ? "; its processes there keep "
                                                                    "running" : "");
    if (link->base.hooks.waiting)
        link->base.hooks.waiting(link->base.hooks.arg, text);
}

static void tell_vanished(struct ssh *link)
{
    char text[560];
    snprintf(text, sizeof(text), "%s has not answered for %llu s: %s", link->host,
             (unsigned long long)(uv_now(link->base.loop) - link->away_since) / 1000, link->why);
    link->base.hooks.vanished(link->base.hooks.arg, text);
}

/* Why no agent of the attempt can be started; CAUSE_NONE: one may have been, or may be with the next try. */
static enum cause unstarted(const struct ssh *link, int status)
{
    if (!link->base.may_start || link->reached)
        return CAUSE_NONE;
    if (status == EXIT_REFUSED || (status == EXIT_NO_NAME && link->base.attempt == 1))
        return CAUSE_HOST_UNUSABLE;
    return link->yields && !link->known && (status == EXIT_UNREACHED || status == EXIT_NO_NAME) ? CAUSE_HOST_UNREACHABLE
                                                                                                 : CAUSE_NONE;
}

/* Nothing of the attempt was launched. */
static void give_up_stopped(struct ssh *link)
{
    char text[500];
    snprintf(text, sizeof(text), "%s was not reached: %s", link->host, link->why);
    link->base.hooks.lost(link->base.hooks.arg, text);
}

/* Both its process and its stream have ended. */
static void judge(struct ssh *link, int status)
{
    if (link->base.closed)
        return;
    const uint64_t now = uv_now(link->base.loop);
    if (!link->away_since)      /* never answered: unreachable since the first try */
        link->away_since = link->heard_at ? now : link->tried_at;
    if (!link->why[0])
        snprintf(link->why, sizeof(link->why), "the connection to %s ended", link->host);
    if (link->stop && !link->known) {
        give_up_stopped(link);
        return;
    }
    const enum cause cause = unstarted(link, status);
    if (cause != CAUSE_NONE) {
        link->base.hooks.not_started(link->base.hooks.arg, cause, link->why);
        return;
    }
    if (now - link->away_since >= link->lost_ms) {
        tell_vanished(link);
        return;
    }
    tell_waiting(link);
    reach_later(link, link->pause_ms);
    link->pause_ms = 2 * link->pause_ms < PAUSE_MAX_MS ? 2 * link->pause_ms : PAUSE_MAX_MS;
}

static void helper_ended(void *arg, const struct subprocess_end *e)
{
    struct ssh *link = arg;
    char words[sizeof(link->why)];
    const int signo = e->code - SUBPROCESS_SIGNALLED;
    link->helper = NULL;
    subprocess_last_line(words, sizeof(words), e->said, "jobctl-ssh");
    if (words[0])
        memcpy(link->why, words, sizeof(words));
    if (signo > 0 && !link->why[0])
        snprintf(link->why, sizeof(link->why), "jobctl-ssh for %s was killed by signal %d", link->host, signo);
    link->status = signo > 0 ? 0 : e->code;
    if (!link->base.stream)
        judge(link, link->status);
}

static void unreadable(void *arg, const char *text)
{
    struct ssh *link = arg;
    snprintf(link->why, sizeof(link->why), "cannot understand the agent on %.100s: %.200s", link->host, text);
}

static void stream_ended(void *arg)
{
    struct ssh *link = arg;
    link->base.stream = NULL;
    if (!link->helper)
        judge(link, link->status);
    else
        subprocess_kill(link->helper, SIGTERM);   /* our own child, no longer needed */
}

/* A host without room for an agent: tried again by the rule of full disks. */
static void hear_gone(struct ssh *link, const json_t *body)
{
    const struct remote_link_hooks *h = &link->base.hooks;
    const char *said = json_string_value(json_object_get(body, "text"));
    char text[560];
    if (!json_is_true(json_object_get(body, "full")) || !h->not_started) {
        h->lost(h->arg, said);
        return;
    }
    snprintf(text, sizeof(text), "no room on %.100s: %.400s", link->host, said);
    h->not_started(h->arg, CAUSE_DISK_FULL, text);
}

/* ---- a session ---- */

/* The kernel of a machine with stopped processes keeps a connection open forever. */
static void listen_for(struct remote_link *base)
{
    struct ssh *link = ssh_of(base);
    const uint64_t silent = uv_now(link->base.loop) - link->heard_at;
    if (!link->base.stream)
        return;
    if (silent < link->silent_ms) {
        remote_link_later(&link->base, link->silent_ms - silent, listen_for);
        return;
    }
    snprintf(link->why, sizeof(link->why), "%s stopped sending", link->host);
    link->away_since = link->heard_at;
    remote_link_hang_up(&link->base);
    if (link->helper)
        subprocess_kill(link->helper, SIGKILL);
    else
        judge(link, 0);
}


static void channel_text(void *arg, enum wire_message number, const json_t *body)
{
    struct ssh *link = arg;
    struct err err = { 0 };
    if (!link->heard_at)
        remote_link_later(&link->base, link->silent_ms, listen_for);
    link->heard_at = uv_now(link->base.loop);
    switch (number) {
    case WIRE_LOG:
        if (log_copy_take(link->base.run_dir, body, &err) < 0)
            log_warn(link->base.tag, "%s", err.text);
        return;
    case WIRE_AGENT_GONE:
        hear_gone(link, body);
        return;
    case WIRE_HELLO:
        if (link->away_since)
            log_info(link->base.tag, "%s answers again after %llu ms", link->host,
                     (unsigned long long)(uv_now(link->base.loop) - link->away_since));
        link->away_since = 0;
        link->pause_ms = PAUSE_MS;
        link->reached = link->known = true;
        break;
    default:
        break;
    }
    link->base.hooks.message(link->base.hooks.arg, number, body);
}

static void send_attach(struct ssh *link)
{
    const struct remote_link *l = &link->base;
    json_t *body = json_make("{s:I, s:I, s:s, s:s, s:b, s:b, s:I, s:o, s:s*, s:o*}", "job", (json_int_t)l->job,
                             "attempt", (json_int_t)l->attempt, "nonce", l->nonce, "key", link->key,
                             "may_start", (int)l->may_start, "dismiss", (int)l->dismiss, "acked",
                             (json_int_t)l->hooks.acked(l->hooks.arg), "logs",
                             log_copy_have(l->run_dir), "origin", l->origin[0] ? l->origin : NULL,
                             "forget", l->forget ? json_true() : NULL);
    if (body)
        agent_stream_send(l->stream, WIRE_ATTACH, body);
    json_decref(body);
}

bool remote_ssh_there(void)
{
    char program[PATH_MAX];
    install_path(program, sizeof(program), "jobctl-ssh");
    return access(program, X_OK) == 0;
}

/* In a session of its own its children find no terminal to prompt on. */
static int spawn(struct ssh *link, int fd, struct err *err)
{
    char program[PATH_MAX];
    const bool code = link->code[0] && !link->known && !link->reached;
    install_path(program, sizeof(program), "jobctl-ssh");
    const struct subprocess_spec s = {
        .argv = (const char *const[]){program, "attach", link->host, code ? link->code : NULL, link->key, NULL},
        .in = fd,
        .out = fd,
        .err = SUBPROCESS_PIPE,
        .session = true};
    const struct subprocess_hooks hooks = {.ended = helper_ended, .arg = link};
    return subprocess_open(&link->helper, link->base.loop, &s, 0, &hooks, err);
}

static void reach(struct remote_link *base)
{
    struct ssh *link = ssh_of(base);
    struct err err = { 0 };
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) {
        reach_later(link, PAUSE_MAX_MS);
        return;
    }
    link->why[0] = 0;
    link->status = 0;
    link->tried_at = uv_now(link->base.loop);
    link->heard_at = 0;
    int rc = spawn(link, pair[1], &err);
    close(pair[1]);
    if (rc != 0) {
        close(pair[0]);
        snprintf(link->why, sizeof(link->why), "cannot start jobctl-ssh: %.300s", err.text);
        judge(link, 0);
        return;
    }
    const struct wire_id id = remote_link_id(&link->base);
    const struct agent_stream_hooks hooks = { channel_text, unreadable, stream_ended, link };
    if (agent_stream_open(&link->base.stream, link->base.loop, pair[0], &id, &hooks, &err) < 0) {
        log_error(link->base.tag, "%s", err.text);   /* the helper exits; handled there */
        return;
    }
    agent_stream_expect_hand(link->base.stream);
    send_attach(link);
}

static int ssh_open(struct remote_link **out, uv_loop_t *loop, const struct remote_link_spec *spec,
                    const struct remote_link_hooks *hooks, struct err *err)
{
    *out = remote_link_create(sizeof(struct ssh), loop, spec, hooks, err);
    if (!*out)
        return -1;
    struct ssh *link = ssh_of(*out);
    const uint64_t lost_ms = (uint64_t)config_host_lost_ms(HOST_LOST_MS);
    link->lost_ms = spec->dismiss ? UINT64_MAX : lost_ms;
    link->silent_ms = lost_ms / 2 < SILENT_MS ? lost_ms / 2 : SILENT_MS;
    link->pause_ms = PAUSE_MS;
    link->known = spec->known;
    link->yields = spec->yields;
    snprintf(link->host, sizeof(link->host), "%s", spec->host);
    snprintf(link->key, sizeof(link->key), "%s", spec->key);
    snprintf(link->code, sizeof(link->code), "%s", spec->code && spec->may_start ? spec->code : "");
    reach_later(link, spec->delay_ms);
    return 0;
}

/* Ends the wait for a host that has not answered in this session. */
static void stop_unknown(struct remote_link *base)
{
    struct ssh *link = ssh_of(base);
    if (link->helper)
        subprocess_kill(link->helper, SIGTERM);
    else if (!base->stream)
        judge(link, 0);
}

static void ssh_send(struct remote_link *base, enum wire_message number, json_t *body)
{
    struct ssh *link = ssh_of(base);
    if (number == WIRE_STOP && !link->known && !link->heard_at)
        remote_link_later(base, 0, stop_unknown);
    link->stop = link->stop || number == WIRE_STOP;
    remote_link_send(base, number, body);
}

/* The helper exits at the end of its input. */
static void ssh_close(struct remote_link *base)
{
    subprocess_close(&ssh_of(base)->helper, 0);
    remote_link_close(base);
}

const struct remote remote_ssh = {
    .name = "ssh",
    .open = ssh_open,
    .send = ssh_send,
    .close = ssh_close,
};
