/* SPDX-License-Identifier: Apache-2.0 */
/* node_channel.h - reliable, ordered messages between a follower and its leader
 *
 * The follower connects, trying the addresses of the endpoint in turn, and again when the
 * connection breaks or falls silent; the leader accepts (agent/wire/tls_listener.h). A reliable
 * message is kept until the other side has acknowledged it, and repeated after a reconnect; an
 * unreliable one (pages, output) may be lost. Both sides send something at least once a second.
 *
 * Silence beyond the limit means that the other side is lost, permanently. Time during which this process did not run
 * does not count, because it could receive nothing. The leader sends the follower its limit and itself uses
 * LINK_HEAD_SHARE times that limit: when the leader considers a follower lost, the follower has killed its ranks.
 *
 * Hooks are called from the loop only. After node_channel_close() no hook is called any more, and
 * the channel frees itself.
 */
#ifndef AGENT_NODES_NODE_CHANNEL_H
#define AGENT_NODES_NODE_CHANNEL_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "agent/wire/byte_stream.h"
#include "agent/wire/wire.h"

struct node_channel;
struct err;
struct frame_reader;

#define LINK_HEAD_SHARE 1.5

struct node_channel_hooks {
    void (*up)(void *arg); /* connected or reconnected: repeat unreliable state */
    void (*message)(void *arg, const struct wire_row *row, const json_t *body);
    void (*lost)(void *arg,
                 const char *text); /* "sent no heartbeat for 15 s (connection refused)" */
    void *arg;
};

/* The follower's end. Connects at once; `endpoint` as made by leader_endpoint(). join_ms: limit for
 * the leader's first answer. */
struct node_channel_call {
    struct wire_id id;
    int            node;
    const json_t  *endpoint;
    int            join_ms;
};
int node_channel_dial(struct node_channel **out, uv_loop_t *loop, const struct node_channel_call *call,
                      const struct node_channel_hooks *hooks, struct err *err);

/* The leader's end: until a follower has connected, join_ms is the limit. */
int node_channel_await(struct node_channel **out, uv_loop_t *loop, int join_ms, int lost_ms,
                       const struct node_channel_hooks *hooks, struct err *err);
/* A follower has connected and sent `call`. NULL: the channel owns stream and reader now; else
 * the reason for the refusal, and the caller keeps them. */
const char *node_channel_take(struct node_channel *l, struct byte_stream *s, struct frame_reader *reader,
                              const json_t *call);

void node_channel_close(struct node_channel *l); /* accepts NULL */

/* Both take the body. Reliable: kept until acknowledged. -1: no memory, or a body that does not match its row. */
int node_channel_send(struct node_channel *l, enum wire_message number, json_t *body, struct err *err);
/* Unreliable: false if not sent, because there is no connection or it is slow. */
bool node_channel_say(struct node_channel *l, enum wire_message number, json_t *body);

bool node_channel_is_up(const struct node_channel *l);

/* Time since the last message of the other side, which sends one at least once a second. */
int node_channel_silent_ms(const struct node_channel *l);

/* Offset from the other side's CLOCK_MONOTONIC to the local one; false: not known yet. */
bool node_channel_clock(const struct node_channel *l, int64_t *add_ns);

/* Like byte_stream_address(), of the newest connection. */
bool node_channel_address(const struct node_channel *l, bool other, char out[BYTE_STREAM_ADDRESS]);

#endif
