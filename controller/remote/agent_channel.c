/* SPDX-License-Identifier: Apache-2.0 */
/* agent_channel.c - see agent_channel.h */
#include "controller/remote/agent_channel.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/os/log.h"
#include "agent/os/subprocess.h"
#include "controller/remote/agent_listener.h"
#include "controller/remote/agent_stream.h"
#include "engine/base/err.h"
#include "engine/contract/install.h"

static uint64_t settled_ms(const char *variable, uint64_t unsaid)
{
    const char *text = getenv(variable);
    long s = text ? strtol(text, NULL, 10) : 0;
    return s > 0 ? (uint64_t)s * 1000 : unsaid;
}

/* ---- the session ---- */

static void tell_way(struct agent_channel *h, const char *text, bool best)
{
    const struct remote_link *link = h->link;
    log_info(link->tag, "its agent is connected %s", text);
    if (link->hooks.channel_text)
        link->hooks.channel_text(link->hooks.arg, text, best);
}

static void tell_files(struct agent_channel *h)
{
    char text[400];
    if (h->why_not[0])
        snprintf(text, sizeof(text), "through files in its directory, because it cannot connect "
                                     "here (%s)",
                 h->why_not);
    else
        snprintf(text, sizeof(text), "through files in its directory, because it did not connect here");
    tell_way(h, text, false);
}

/* Reports the agent's own account of its connection attempts if it changed. */
static bool learn_why(struct agent_channel *h, const json_t *body)
{
    char text[sizeof(h->why_not)];
    const char *call_error = json_string_value(json_object_get(body, "call_error"));
    if (!call_error || !h->expected)
        return false;
    snprintf(text, sizeof(text), "%.300s", call_error);
    err_make_printable(text);
    if (strcmp(text, h->why_not) == 0)
        return false;
    memcpy(h->why_not, text, sizeof(text));
    return true;
}

static void channel_text(void *arg, enum wire_message number, const json_t *body)
{
    struct agent_channel *h = arg;
    h->heard_at = uv_now(h->link->loop);
    h->link->unreadable[0] = 0;
    if (!h->calls && (learn_why(h, body) || number == WIRE_HELLO))
        tell_files(h);
    h->message(h->link, number, body);
}

static void unreadable(void *arg, const char *text)
{
    struct agent_channel *h = arg;
    remote_link_unreadable(h->link, text);
}

static void stream_ended(void *arg)
{
    struct agent_channel *h = arg;
    h->link->stream = NULL;
    h->calls = false;
    h->since = uv_now(h->link->loop);
    h->ended(h->link);
}

/* A session over a stream, or over a descriptor if there is none. Takes it. */
static int converse(struct agent_channel *h, struct byte_stream *bytes, int fd)
{
    struct err err = { 0 };
    struct remote_link *link = h->link;
    const struct wire_id id = remote_link_id(link);
    const struct agent_stream_hooks hooks = { channel_text, unreadable, stream_ended, h };
    h->heard_at = uv_now(link->loop);
    if ((bytes ? agent_stream_take(&link->stream, bytes, &id, &hooks, &err)
               : agent_stream_open(&link->stream, link->loop, fd, &id, &hooks, &err)) == 0)
        return 0;
    link->stream = NULL;
    log_error(link->tag, "%s", err.text);
    return -1;
}

/* ---- the agent connects over TLS ---- */

static void came(void *arg, struct byte_stream *bytes, const char *address)
{
    struct agent_channel *h = arg;
    char text[80];
    remote_link_hang_up(h->link);
    h->calls = converse(h, bytes, -1) == 0;
    h->was_files = false;
    h->why_not[0] = 0;
    snprintf(text, sizeof(text), "over TLS, from %s", address);
    if (h->calls)
        tell_way(h, text, true);
}

/* ---- files ---- */

/* `jobctl-agent file-channel`, which carries the messages of both sides. */
static int carrier_start(const struct remote_link *link, int fd, struct err *err)
{
    char path[PATH_MAX];
    struct subprocess *carrier;
    install_path(path, sizeof(path), "jobctl-agent");
    const struct subprocess_spec s = {
        .argv = (const char *const[]){path, "file-channel", link->run_dir, NULL},
        .in = fd,
        .err = 2,
        .session = true};
    int rc = subprocess_open(&carrier, link->loop, &s, 0, &(struct subprocess_hooks){0}, err);
    subprocess_close(&carrier, 0);  /* the stream ends with the process */
    return rc;
}

static void use_files(struct agent_channel *h)
{
    int ends[2];
    struct err err = { 0 };
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return;
    int rc = carrier_start(h->link, ends[1], &err);
    close(ends[1]);
    if (rc != 0) {
        log_error(h->link->tag, "cannot start jobctl-agent file-channel: %s", err.text);
        close(ends[0]);
        return;
    }
    h->was_files = true;
    converse(h, NULL, ends[0]);
}

/* TCP detects lost packets, but not a hung proxy or host that still acknowledges them. */
static void doubt(struct agent_channel *h, uint64_t silent_ms)
{
    if (!h->calls || silent_ms < settled_ms("JOBCTL_CALL_SILENT_S", AGENT_CHANNEL_SILENT_MS))
        return;
    log_warn(h->link->tag, "its agent timed out after %llu s; closing the connection",
             (unsigned long long)silent_ms / 1000);
    remote_link_hang_up(h->link);
    stream_ended(h);
}

void agent_channel_look(struct agent_channel *h)
{
    const uint64_t now = uv_now(h->link->loop);
    if (h->link->stream) {
        doubt(h, now - h->heard_at);
        return;
    }
    if (!h->since)
        h->since = now;
    if (now - h->since < remote_link_pause_ms(h->link, 0))
        return;
    if (!h->expected || h->was_files ||
        now - h->since >= settled_ms("JOBCTL_CALL_WAIT_S", AGENT_CHANNEL_WAIT_MS))
        use_files(h);
}

/* ---- open, close ---- */

void agent_channel_open(struct agent_channel *h, struct remote_link *link, int node)
{
    char name[80];
    struct err err = { 0 };
    h->link = link;
    snprintf(name, sizeof(name), "%lld.%lld.%d", (long long)link->job, (long long)link->attempt, node);
    if (agent_listener_expect(&h->expected, link->loop, link->run_dir, name, came, h, &err) < 0) {
        log_warn(link->tag, "its agent cannot connect: %s", err.text);
        snprintf(h->why_not, sizeof(h->why_not), "%.300s", err.text);
    }
}

void agent_channel_close(struct agent_channel *h)
{
    agent_listener_forget(h->expected);
    h->expected = NULL;
}
