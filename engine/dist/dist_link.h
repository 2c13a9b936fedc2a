/* SPDX-License-Identifier: Apache-2.0 */
/* dist_link.h - link between two ranks on different nodes: messages and data over TCP
 *
 * A link is two connections: one for messages (short, fixed size, always read at once) and
 * one for data (numbers, read when there is buffer space).  So a failure message never waits behind queued data.  Every
 * message carries the key of its job, attempt and generation; messages with another key are rejected.
 */
#ifndef ENGINE_DIST_DIST_LINK_H
#define ENGINE_DIST_DIST_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum dist_link_channel { DIST_LINK_WORDS, DIST_LINK_BYTES, DIST_LINK_CHANNELS };

enum dist_link_kind {
    WORD_CALL = 1, /* this rank is in call `seq`; `what` identifies it */
    WORD_WAITS,    /* this rank waits for rank `what` on its node; UINT64_MAX: no longer */
    WORD_FAULT,    /* failed: `what` is the kind, `count` the rank + 1 */
    WORD_BYE       /* this rank leaves, having completed its calls */
};

struct dist_word {
    uint64_t key;
    uint32_t kind, spare;
    uint64_t seq, what, count;
};

enum { WORDS_OUT = 64 };

struct dist_link {
    int    fd[DIST_LINK_CHANNELS]; /* -1: not yet connected, or closed */
    bool   bye, gone;              /* the peer said goodbye; its messages have ended */
    size_t in_have, out_have;      /* bytes of a partial message; bytes not sent yet */
    char   in[sizeof(struct dist_word)], out[WORDS_OUT * sizeof(struct dist_word)];
};

/* Ends sending; sent data is still delivered. close() would discard data that the peer's system
 * has not acknowledged, so a clean exit waits for dist_link_sent() first. */
void dist_link_end(struct dist_link *l);
/* Has the peer's system acknowledged everything (or will it never)? */
bool dist_link_sent(const struct dist_link *l);
void dist_link_close(struct dist_link *l);

/* Queues a message; dist_link_flush() sends what the system does not accept at once. False: the queue is full, try
 * again. */
bool dist_link_say(struct dist_link *l, const struct dist_word *w);
void dist_link_flush(struct dist_link *l);

/* The next received message; false: none at present. Sets l->gone if none will ever come. */
bool dist_link_hear(struct dist_link *l, uint64_t key, struct dist_word *w);

#endif
