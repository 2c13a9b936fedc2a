/* SPDX-License-Identifier: Apache-2.0 */
/* node_channel.h - between a member and its head: each message once and in order, over broken
 * connections
 *
 * The member dials, one address of the door after the other, and again when the connection breaks or
 * nothing is heard; the head waits to be called (agent/nodes/leader_listener.h). A message that was
 * sent is kept until the other side has acknowledged it and is repeated after a reconnect; one that
 * was only said (pages, output) may be missing. Both sides say something at least once a second.
 *
 * Nothing heard for the limit: lost, once and for good. Time in which this very process did not run
 * does not count, for nothing could be heard in it. The limit of a member is told by the head, the
 * head's own is LINK_HEAD_SHARE times that: when the head gives a member up, it has ended its ranks.
 *
 * Hooks come from the loop only. After node_channel_close() none comes any more, and it frees
 * itself.
 */
#ifndef AGENT_NODES_NODE_CHANNEL_H
#define AGENT_NODES_NODE_CHANNEL_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "agent/wire/tls_psk.h"
#include "agent/wire/wire.h"

struct node_channel;
struct err;
struct frame_reader;

#define LINK_HEAD_SHARE 1.5

struct node_channel_hooks {
    void (*up)(void *arg); /* connected, for the first time or again: say anew what is only said */
    void (*message)(void *arg, const struct wire_row *row, const json_t *body);
    void (*lost)(void *arg, const char *text); /* "was not heard of for 15 s (connection refused)" */
    void *arg;
};

/* The member's end. Dials at once; `door` as leader_endpoint() made it. join_ms: limit until the
 * head has answered for the first time. */
struct node_channel_call {
    struct wire_id id;
    int            node;
    const json_t  *door;
    int            join_ms;
};
int node_channel_dial(struct node_channel **out, uv_loop_t *loop,
                      const struct node_channel_call *call,
                      const struct node_channel_hooks *hooks, struct err *err);

/* The head's end: until somebody has called, join_ms is the limit. */
int node_channel_await(struct node_channel **out, uv_loop_t *loop, int join_ms, int lost_ms,
                       const struct node_channel_hooks *hooks, struct err *err);
/* Somebody has called and said `call`. NULL: the stream and its reader are the link's now; else why
 * not, and they are the caller's. */
const char *node_channel_take(struct node_channel *l, struct tls_psk *s,
                              struct frame_reader *reader,
                              const json_t *call);

void node_channel_close(struct node_channel *l); /* NULL is fine */

/* Both take the body. Sent: kept until it has arrived. -1: no memory, or a body against its row. */
int node_channel_send(struct node_channel *l, enum wire_message number, json_t *body,
                      struct err *err);
/* Said: false if it was not, for there is no connection or it is slow. */
bool node_channel_say(struct node_channel *l, enum wire_message number, json_t *body);

bool node_channel_is_up(const struct node_channel *l);

/* How long nothing was heard of the other side; it says something at least once a second. */
int node_channel_silent_ms(const struct node_channel *l);

/* What to add to a time of the other side's CLOCK_MONOTONIC to get ours; false: not yet known. */
bool node_channel_clock(const struct node_channel *l, int64_t *add_ns);

/* As tls_psk_address(), of the newest connection. */
bool node_channel_address(const struct node_channel *l, bool other, char out[TLS_PSK_ADDRESS]);

#endif
