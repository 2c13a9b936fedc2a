/* SPDX-License-Identifier: Apache-2.0 */
/* agent_stream.h - what the controller and one agent say to each other, over any descriptor
 *
 * Frames in, frames out, in the wire version of the agent's HELLO, and the fence:
 * who does not begin with HELLO, or speaks for another attempt, is told to stop
 * and is not heard.  Every
 * launcher (remote.h) brings a connected descriptor of its own kind and
 * leaves the rest to this.
 */
#ifndef CONTROLLER_REMOTE_AGENT_STREAM_H
#define CONTROLLER_REMOTE_AGENT_STREAM_H

#include <jansson.h>
#include <uv.h>

#include "agent/wire/wire.h"

struct agent_stream;
struct err;

/* A hook may close the stream. */
struct agent_stream_hooks {
    void (*message)(void *arg, enum wire_message number, const json_t *body);
    /* What came is of another wire version, or nonsense; `ended` follows. */
    void (*unreadable)(void *arg, const char *text);
    void (*ended)(void *arg);   /* by the other end, or after unreadable; do not close it any more */
    void *arg;
};

/* Takes the descriptor of a socket, even where it fails. `id` is copied. */
int agent_stream_open(struct agent_stream **out, uv_loop_t *loop, int fd, const struct wire_id *id,
                      const struct agent_stream_hooks *hooks, struct err *err);

/* `jobctl-agent attach` speaks: of an agent that is dead it may tell without HELLO. */
void agent_stream_expect_hand(struct agent_stream *s);

void agent_stream_send(struct agent_stream *s, enum wire_message number, const json_t *body);

/* What was sent still goes out; no hook is called any more. Accepts NULL. */
void agent_stream_close(struct agent_stream *s);

#endif
