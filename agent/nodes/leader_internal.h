/* SPDX-License-Identifier: Apache-2.0 */
/* leader_internal.h - state of the leader, shared by leader*.c only */
#ifndef AGENT_NODES_LEADER_INTERNAL_H
#define AGENT_NODES_LEADER_INTERNAL_H

#include "agent/monitor/page_feed.h"
#include "agent/nodes/leader.h"
#include "agent/nodes/node_channel.h"
#include "agent/ranks/launch_env.h"
#include "agent/ranks/snapshot_memfds.h"

/* Requests to the followers of all nodes. */
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
    struct node_channel *link; /* NULL: node 0, whose follower is in this process */
    char                 name[LEADER_NAME], address[BYTE_STREAM_ADDRESS];
    json_t              *facts, *preflight, *endpoint;
    bool                 lost;
    char gone[LEADER_GONE];                 /* proven to have ended: report as lost; "" = no */
    bool owes[LEADER_REQUESTS];             /* it owes an answer */
    int                  first_rank, ranks; /* since leader_place() */
};

/* A rank on another node. */
struct remote_rank {
    int64_t          add_ns; /* offset of its clock, for the times on its page */
    bool             ended;
    struct page_view seen;
};

struct leader {
    uv_loop_t              *loop;
    struct leader_hooks     hooks;
    struct leader_options   o;
    char                    nonce[128], version[64];
    json_t                 *names;
    struct follower        *follower; /* the follower of node 0 */
    struct tls_listener    *listener; /* NULL: single node */
    uv_timer_t              later;    /* answers are delivered from the loop ... */
    uv_timer_cb             look;     /* ... by this */
    bool                    closed, shutdown;
    int                     nodes;
    struct follower_state  *followers; /* [nodes] */

    bool asked[LEADER_REQUESTS];
    char text[LEADER_TEXT]; /* why PREPARE or SPAWN failed */
    int  cleaning;          /* the generation of CLEANUP or UNDO; ... */
    bool clean;
    char left[LEADER_TEXT]; /* ... what is left */
    struct {                /* answers about SNAPSHOTS */
        struct snapshot_memfds_claim common[SNAPSHOT_MEMFDS_SETS];
        int n, heard; /* claims; followers that have joined */
    } kept;

    struct launch_env env; /* settings of the generation that is starting */
    bool    keeps;         /* ranks have snapshot memory (agent/ranks/snapshot_memfds.h) */
    int     generation;    /* being started, or running */
    json_t *deferred;      /* [[node, number, body]...]: messages before `started` */
    int     setups;        /* nodes whose setup is running */
    json_t *setup;         /* EXITED of the first setup that failed, or of the last; NULL: none yet */
    int     setup_node;

    int      np;
    char    *node_ranks;         /* "4,4,2"; NULL: single node */
    struct follower_state **of;  /* [np]: node of each rank; NULL before leader_place() */
    int64_t *pids;               /* [np] */
    struct remote_rank **remote; /* [np]; NULL for ranks on this node */
};

/*
 * Call order, bottom up: leader_requests, leader_start, leader_replies, leader.c; a file calls only those before it.
 */

/* leader_requests.c.  Answers are evaluated from the loop, soon. */
void leader_look_later(struct leader *c);
void leader_begin_request(struct leader *c, enum leader_request ask);
void leader_answered(struct follower_state *s, enum leader_request ask);
bool leader_is_answered(const struct leader *c, int ask);
void leader_give_up(struct leader *c, enum leader_request ask); /* no answer is awaited any more */
/* To one follower, or to all that are not lost; a request obliges them to answer. All take the body. */
int leader_send(struct follower_state *s, enum wire_message number, json_t *body, struct err *err);
int leader_ask(struct follower_state *s, enum leader_request ask, enum wire_message number,
               json_t *body, struct err *err);
void leader_send_all(struct leader *c, enum wire_message number, json_t *body);
void leader_request_all(struct leader *c, enum leader_request ask, enum wire_message number, json_t *body);
/* Marks it as lost, for the reason that follows its name; reported at once. */
void leader_lose(struct follower_state *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* leader_start.c: from leader_start() to `started`. */
void leader_spawn(struct leader *c); /* c->env, with its snapshot chosen */
void leader_spawned(struct leader *c);
void leader_undo(struct leader *c);
void leader_undone(struct leader *c);
void leader_setup_ended(struct follower_state *s, const json_t *body);
/* A follower's EXITED; e->rank: the rank, or the node of a setup. */
void leader_tell_exit(struct follower_state *s, int rank, const json_t *body);

/* leader_replies.c: a follower's message. */
void leader_receive(struct follower_state *s, enum wire_message number, const json_t *body);
/* Delivers the deferred messages, in order. */
void leader_receive_deferred(struct leader *c);

#endif
