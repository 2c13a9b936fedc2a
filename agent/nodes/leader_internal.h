/* SPDX-License-Identifier: Apache-2.0 */
/* leader_internal.h - state of the leader, shared by leader*.c only */
#ifndef AGENT_NODES_LEADER_INTERNAL_H
#define AGENT_NODES_LEADER_INTERNAL_H

#include "agent/monitor/page_feed.h"
#include "agent/nodes/leader.h"
#include "agent/nodes/node_channel.h"
#include "agent/ranks/snapshot_memfds.h"

/* Requests to all followers. */
enum leader_request {
    REQUEST_JOIN,
    REQUEST_PREPARE,
    REQUEST_SNAPSHOTS,
    REQUEST_SPAWN,
    REQUEST_UNDO, /* a follower failed to spawn: kill the ranks started by the others */
    REQUEST_CLEANUP,
    REQUEST_INSPECT,
    LEADER_REQUESTS
};

enum { LEADER_TEXT = 600, LEADER_NAME = 80, LEADER_GONE = 400 };

/* State of a follower. */
struct follower_state {
    struct leader       *leader;
    int                  node;
    struct node_channel *link;
    char                 name[LEADER_NAME], address[TLS_PSK_ADDRESS];
    json_t              *facts, *preflight, *endpoint;
    bool                 lost;
    char gone[LEADER_GONE];                 /* proven gone: report as lost; "" = no */
    bool owes[LEADER_REQUESTS];             /* an answer is outstanding */
    int                  first_rank, ranks; /* of the present generation */
};

/* A rank on another node. */
struct remote_rank {
    int64_t add_ns; /* offset of its clock, for the times on its page */
    bool             ended;
    struct page_view seen;
    json_t *spent; /* its time by phase, once it has detached; or NULL */
};

struct leader {
    uv_loop_t              *loop;
    struct leader_hooks     hooks;
    struct leader_options   o;
    char                    nonce[128], version[64];
    json_t                 *names;
    struct tls_listener *listener;
    uv_timer_t later;              /* answers are delivered from the loop ... */
    uv_timer_cb             look;  /* ... by this */
    bool closed, shutdown, abandoned;  /* abandoned: never handed out */
    struct follower_state  *followers; /* [nodes]; 0 is not used */
    char address[TLS_PSK_ADDRESS];     /* of the leader, as seen by followers */

    bool asked[LEADER_REQUESTS];
    char text[LEADER_TEXT];    /* why PREPARE or SPAWN failed */
    bool clean;                /* of CLEANUP */
    char left[LEADER_TEXT];
    struct {                   /* of SNAPSHOTS */
        int generation;        /* to be started */
        struct snapshot_memfds_claim common[SNAPSHOT_MEMFDS_SETS];
        int n, heard; /* claims; followers heard */
    } kept;

    int generation;   /* being started, or running */
    json_t *deferred; /* [[node, number, body]...]: messages before `spawned` */
    int                  world;
    int64_t             *pids;       /* [world] */
    struct remote_rank **remote;     /* [world]; NULL for ranks on this node */
};

/*
 * Call order, bottom up: leader_requests, leader_replies, leader.c; a file calls only those before it.
 */

/* leader_requests.c.  Answers are evaluated from the loop, soon. */
void leader_look_later(struct leader *c);
void leader_begin_request(struct leader *c, enum leader_request ask);
void leader_answered(struct follower_state *s, enum leader_request ask);
bool leader_is_answered(const struct leader *c, int ask);
/* To one follower, or to all that are not lost; after a request they owe an answer. All take the
 * body. */
int leader_send(struct follower_state *s, enum wire_message number, json_t *body, struct err *err);
void leader_send_all(struct leader *c, enum wire_message number, json_t *body);
void leader_request_all(struct leader *c, enum leader_request ask, enum wire_message number,
                        json_t *body);
/* Marks it as lost, for the reason that follows its name; reported at once. */
void leader_lose(struct follower_state *s, const char *fmt,
                 ...) __attribute__((format(printf, 2, 3)));

/* leader_replies.c: a message of a follower. */
void leader_receive(struct follower_state *s, enum wire_message number, const json_t *body);
/* Delivers the deferred messages, in order. */
void leader_receive_deferred(struct leader *c);

#endif
