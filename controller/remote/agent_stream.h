/* SPDX-License-Identifier: Apache-2.0 */
/* agent_stream.h - the message stream between controller and one agent, over any descriptor
 *
 * Frames in, frames out, in the wire version of the agent's HELLO, and the fence:
 * a peer that does not start with HELLO is disconnected; an agent of another
 * attempt is sent STOP.  Every launcher (remote.h) supplies a connected descriptor or stream.
 */
#ifndef CONTROLLER_REMOTE_AGENT_STREAM_H
#define CONTROLLER_REMOTE_AGENT_STREAM_H

#include <jansson.h>
#include <uv.h>

#include "agent/wire/wire.h"

struct agent_stream;
struct byte_stream;
struct err;

/* A hook may close the stream. */
struct agent_stream_hooks {
    void (*message)(void *arg, enum wire_message number, const json_t *body);
    /* The peer's frames are of an unknown wire version or malformed; `ended` follows. */
    void (*unreadable)(void *arg, const char *text);
    void (*ended)(void *arg);   /* by the peer, or after `unreadable`; already closed */
    void *arg;
};

/* Both take the socket or stream, even on failure. `id` is copied. */
int agent_stream_open(struct agent_stream **out, uv_loop_t *loop, int fd, const struct wire_id *id,
                      const struct agent_stream_hooks *hooks, struct err *err);
int agent_stream_take(struct agent_stream **out, struct byte_stream *bytes, const struct wire_id *id,
                      const struct agent_stream_hooks *hooks, struct err *err);

/* The peer is `jobctl-agent attach`: it may report a dead agent without HELLO. */
void agent_stream_expect_hand(struct agent_stream *s);

void agent_stream_send(struct agent_stream *s, enum wire_message number, const json_t *body);

/* Pending output is still sent; no hook is called any more. Accepts NULL. */
void agent_stream_close(struct agent_stream *s);

#endif
