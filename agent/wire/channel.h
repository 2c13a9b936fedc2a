/* SPDX-License-Identifier: Apache-2.0 */
/* channel.h - sequence numbers, acknowledgements, replay and silence between two processes
 *
 * Pure: no clock, no I/O.
 *
 * Two processes exchange messages over one connection at a time, and any connection may break. Each
 * side numbers its reliable messages 1, 2, 3... and keeps them until the other side acknowledges
 * them. On a new connection each side states the last number that it received, and the other side replays the later
 * messages. A receiver takes each number once and in order. So every reliable message is delivered exactly once, over
 * any number of connections, until the other side is lost.
 *
 * The owner does the I/O: it asks channel_next() for the next message, reports what it sent and received, and calls
 * channel_look() regularly for decisions about silence. Agent and controller use one (agent/attempt/session.h; the
 * spool on disk keeps the messages), leader and followers as well (agent/nodes/node_channel.h; the channel keeps them
 * in memory).
 *
 * Times are milliseconds of a monotonic clock.
 */
#ifndef AGENT_WIRE_CHANNEL_H
#define AGENT_WIRE_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Each side sends something at least this often, if it looks four times as often. */
enum { CHANNEL_ALIVE_MS = 1000 };

/* A message, ready to be sent. */
struct channel_frame {
    void  *bytes;
    size_t size;
};

/* All zeros except looked_ms = now: a new channel. The owner sets limit_ms, and newest if it keeps the messages
 * itself (`kept` stays NULL); it only reads the other fields. */
struct channel {
    int64_t newest;   /* number of this side's newest message */
    int64_t acked;    /* the other side has all messages up to this one */
    int64_t sent;     /* the last one sent on this connection */
    int64_t received; /* the last one taken from the other side */
    int64_t told;     /* the last acknowledgement sent */

    bool tried; /* this side makes the connections: it can make another */
    bool up;    /* a connection carries messages */
    bool open;  /* the other side has stated what it received: reliable messages may be sent */

    int64_t limit_ms;  /* silence after which the other side is lost; 0: none */
    int64_t silent_ms; /* since the last message, or since the channel came up */
    int64_t quiet_ms;  /* the same for this connection */
    int64_t looked_ms, said_ms;

    struct channel_frame *kept; /* message n: slot n % room */
    size_t                room, kept_bytes;
};

/* Frees its frames, not `c` itself. */
void channel_free(struct channel *c);

/* --- connections --- */

void channel_try(struct channel *c); /* this side connects */
void channel_up(struct channel *c);
void channel_down(struct channel *c);

/* The other side has the messages up to `received`: the rest is sent (again). */
void channel_open(struct channel *c, int64_t received);
/* Could the peer have received that? False: it is not the peer of this channel. */
bool channel_can_open(const struct channel *c, int64_t received);

/* --- sending --- */

/* Keeps the frame of message newest + 1, which is freed by free() once acknowledged. -1: no memory;
 * the caller keeps the frame. */
int channel_keep(struct channel *c, void *bytes, size_t size);

/* The frame of message sent + 1; NULL: not open, or all were sent. */
const struct channel_frame *channel_next(const struct channel *c);

/* Message `seq` was sent; 0: an unreliable one. */
void channel_said(struct channel *c, int64_t seq, int64_t now_ms);

/* The acknowledgement to send with a keepalive. */
int64_t channel_tell(struct channel *c);

/* The other side acknowledges a message; false, without effect, if that message was never sent. */
bool channel_ack(struct channel *c, int64_t seq);

/* --- receiving --- */

enum channel_order { CHANNEL_NEW, CHANNEL_REPEATED, CHANNEL_GAP };

/* Classifies message `seq` for a receiver that has all messages up to `received`. */
enum channel_order channel_order(int64_t received, int64_t seq);
/* The same for this channel; a new message is recorded as received. */
enum channel_order channel_take(struct channel *c, int64_t seq);

/* Something has arrived. */
void channel_heard(struct channel *c);

/* --- silence --- */

enum channel_due { CHANNEL_FINE, CHANNEL_SAY_ALIVE, CHANNEL_RECONNECT, CHANNEL_LOST };

/* Call every `every_ms`. A longer time since the last call means that this process was suspended,
 * and could receive nothing: it counts as twice every_ms of silence. RECONNECT: nothing has arrived on
 * the connection that this side made, for a quarter of the limit. */
enum channel_due channel_look(struct channel *c, int64_t now_ms, int every_ms);

#endif
