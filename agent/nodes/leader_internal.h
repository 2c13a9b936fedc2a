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
enum crew_ask {
    ASK_JOIN,
    ASK_PREPARE,
    ASK_KEPT,
    ASK_SPAWN,
    ASK_UNDO,    /* one could not spawn: end what the others have started */
    ASK_SWEEP,
    ASK_INSPECT,
    CREW_ASKS
};

enum { CREW_TEXT = 600, CREW_NAME = 80, CREW_GONE = 400 };

/* A member as the head sees it. */
struct seat {
    struct crew      *crew;
    int               node;
    struct crew_link *link;
    char              name[CREW_NAME], address[SECURE_ADDRESS];
    json_t           *facts, *preflight, *door;
    bool              lost;
    char              gone[CREW_GONE]; /* proven: to be told as lost; "" = no */
    bool              owes[CREW_ASKS]; /* an answer */
    int               first_rank, ranks; /* of the present generation */
};

/* A rank on another node. */
struct far_rank {
    int64_t          add_ns; /* to its times; of the look that the page is of */
    bool             ended;
    struct page_view seen;
    json_t          *spent; /* where its time went, when it parted; or NULL */
};

struct crew {
    uv_loop_t          *loop;
    struct crew_hooks   hooks;
    struct crew_options o;
    char                nonce[128], version[64];
    json_t             *names;
    struct crew_door   *door;
    uv_timer_t          later; /* answers are told from the loop ... */
    uv_timer_cb         look;  /* ... by this */
    bool                closed, bye, orphan; /* orphan: it was never given out */
    struct seat        *seats; /* [nodes]; 0 is not used */
    char                address[SECURE_ADDRESS]; /* of the head, as members use it */

    bool asked[CREW_ASKS];
    char text[CREW_TEXT];      /* why one could not: of PREPARE or SPAWN */
    bool clean;                /* of SWEEP */
    char left[CREW_TEXT];
    struct {                   /* of KEPT */
        int                   generation; /* that is to start */
        struct keepsake_claim common[KEEPSAKE_SETS];
        int                   n, heard;   /* claims; members */
    } kept;

    int               generation;  /* that is being started, or runs */
    json_t           *held;        /* [[node, number, body]...]: said before `spawned` was told */
    int               world;
    int64_t          *pids;        /* [world] */
    struct far_rank **far;         /* [world]; NULL where a rank is not on a member */
};

/*
 * From the bottom up: ask, hear, then leader.c; a file calls those below it.
 */

/* leader_requests.c.  Answers are looked at from the loop, soon. */
void crew_look_later(struct crew *c);
void crew_begin_ask(struct crew *c, enum crew_ask ask);
void crew_answered(struct seat *s, enum crew_ask ask);
bool crew_is_answered(const struct crew *c, int ask);
/* To one, or to all that are not lost; asked, they owe an answer. All take the body. */
int crew_tell(struct seat *s, enum wire_message number, json_t *body, struct err *err);
void crew_tell_all(struct crew *c, enum wire_message number, json_t *body);
void crew_ask_all(struct crew *c, enum crew_ask ask, enum wire_message number, json_t *body);
/* It is lost, because of what follows its name; told at once. */
void crew_give_up(struct seat *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* leader_replies.c: a message of a member. */
void crew_hear(struct seat *s, enum wire_message number, const json_t *body);
/* What was held until now, in its order. */
void crew_hear_held(struct crew *c);

#endif
