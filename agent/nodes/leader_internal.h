/* SPDX-License-Identifier: Apache-2.0 */
/* leader_internal.h - the inside of a crew, shared by leader*.c only */
#ifndef AGENT_NODES_LEADER_INTERNAL_H
#define AGENT_NODES_LEADER_INTERNAL_H

#include "agent/monitor/page_feed.h"
#include "agent/nodes/leader.h"
#include "agent/nodes/leader_listener.h"
#include "agent/nodes/node_channel.h"
#include "agent/ranks/snapshot_memfds.h"

/* What all members are asked, together. */
enum leader_request {
    REQUEST_JOIN,
    REQUEST_PREPARE,
    REQUEST_SNAPSHOTS,
    REQUEST_SPAWN,
    REQUEST_UNDO, /* one could not spawn: end what the others have started */
    REQUEST_CLEANUP,
    REQUEST_INSPECT,
    LEADER_REQUESTS
};

enum { LEADER_TEXT = 600, LEADER_NAME = 80, LEADER_GONE = 400 };

/* A member as the head sees it. */
struct follower_state {
    struct leader       *leader;
    int                  node;
    struct node_channel *link;
    char                 name[LEADER_NAME], address[TLS_PSK_ADDRESS];
    json_t              *facts, *preflight, *door;
    bool                 lost;
    char                 gone[LEADER_GONE]; /* proven: to be told as lost; "" = no */
    bool                 owes[LEADER_REQUESTS]; /* an answer */
    int                  first_rank, ranks; /* of the present generation */
};

/* A rank on another node. */
struct remote_rank {
    int64_t          add_ns; /* to its times; of the look that the page is of */
    bool             ended;
    struct page_view seen;
    json_t          *spent; /* where its time went, when it parted; or NULL */
};

struct leader {
    uv_loop_t              *loop;
    struct leader_hooks     hooks;
    struct leader_options   o;
    char                    nonce[128], version[64];
    json_t                 *names;
    struct leader_listener *door;
    uv_timer_t              later; /* answers are told from the loop ... */
    uv_timer_cb             look;  /* ... by this */
    bool                    closed, shutdown, abandoned; /* orphan: it was never given out */
    struct follower_state  *followers; /* [nodes]; 0 is not used */
    char                    address[TLS_PSK_ADDRESS]; /* of the head, as members use it */

    bool asked[LEADER_REQUESTS];
    char text[LEADER_TEXT];    /* why one could not: of PREPARE or SPAWN */
    bool clean;                /* of CLEANUP */
    char left[LEADER_TEXT];
    struct {                   /* of SNAPSHOTS */
        int                          generation; /* that is to start */
        struct snapshot_memfds_claim common[SNAPSHOT_MEMFDS_SETS];
        int                          n, heard;   /* claims; members */
    } kept;

    int                  generation; /* that is being started, or runs */
    json_t              *deferred;   /* [[node, number, body]...]: said before `spawned` was told */
    int                  world;
    int64_t             *pids;       /* [world] */
    struct remote_rank **remote;     /* [world]; NULL where a rank is not on a member */
};

/*
 * From the bottom up: ask, hear, then leader.c; a file calls those below it.
 */

/* leader_requests.c.  Answers are looked at from the loop, soon. */
void leader_look_later(struct leader *c);
void leader_begin_request(struct leader *c, enum leader_request ask);
void leader_answered(struct follower_state *s, enum leader_request ask);
bool leader_is_answered(const struct leader *c, int ask);
/* To one, or to all that are not lost; asked, they owe an answer. All take the body. */
int leader_send(struct follower_state *s, enum wire_message number, json_t *body, struct err *err);
void leader_send_all(struct leader *c, enum wire_message number, json_t *body);
void leader_request_all(struct leader *c, enum leader_request ask, enum wire_message number,
                        json_t *body);
/* It is lost, because of what follows its name; told at once. */
void leader_lose(struct follower_state *s, const char *fmt,
                 ...) __attribute__((format(printf, 2, 3)));

/* leader_replies.c: a message of a member. */
void leader_receive(struct follower_state *s, enum wire_message number, const json_t *body);
/* What was held until now, in its order. */
void leader_receive_deferred(struct leader *c);

#endif
