/* SPDX-License-Identifier: Apache-2.0 */
/* dist_mesh_internal.h - the inside of a mesh of nodes, shared by dist_mesh*.c only */
#ifndef ENGINE_DIST_DIST_MESH_INTERNAL_H
#define ENGINE_DIST_DIST_MESH_INTERNAL_H

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/dist/dist_connect.h"
#include "engine/dist/dist_internal.h"
#include "engine/dist/dist_link.h"

enum { MESH_CHUNK_MIN = 65536, MESH_SLOTS = 4 };

/* Before each piece of numbers. */
struct head {
    uint64_t key, seq, bytes;
    uint32_t stage, round;
};

struct peer {
    struct dist_link *link;
    uint64_t          seq, what[2], count[2]; /* its newest call; what it is, at [seq % 2] */
    uint64_t          heard_of;               /* the newest of our calls that it knows of */
    int               waits_for;              /* a rank's name, or -1 */
    /* going out: the piece in hand, and rounds sent */
    struct head       head_out;
    const char       *from;
    size_t            head_left, left;
    uint64_t          puts_out, results_out;
    /* coming in: the same */
    struct head       head_in;
    char             *to;
    size_t            head_have, more;
    uint64_t          puts_in, results_in;
    bool              broken; /* its bytes have ended */
};

struct mesh {
    struct dist         *d;
    struct dist_connect *door; /* while they meet */
    struct dist_link    *links;
    struct peer         *peers; /* [world]; the own one is unused */
    struct pollfd       *polls;
    const char         **sources;
    char                *inbox; /* [world][MESH_SLOTS] chunks */
    size_t               chunk;
    uint64_t             key[2];
    pthread_mutex_t      say;   /* words out: also another thread's */
    _Atomic uint64_t     fault; /* packed */
    int                  bell;  /* rung by another thread */
    /* the call in hand */
    uint64_t          seq, rounds, red, results;
    size_t            size, per;
    bool              direct, checked;
};

static inline bool mesh_is_peer(const struct mesh *m, int i)
{
    return i != m->d->c.rank;
}

static inline bool mesh_is_sending(const struct peer *p)
{
    return p->head_left > 0 || p->left > 0;
}

/* --- dist_mesh_rounds.c: the numbers of the call in hand -------------------------------- */

void mesh_begin_call(struct mesh *m, const struct dist_call *c);

/* Rounds of puts that each rank sends to each other one; of results that rank i does. */
uint64_t mesh_put_rounds(const struct mesh *m, const struct dist_call *c);
uint64_t mesh_results_of(const struct mesh *m, const struct dist_call *c, int i);

/* What peer i takes now; did anything move? */
bool mesh_send_to(struct mesh *m, const struct dist_call *c, int i);
/* What has come from it. 1: something; 0: nothing; -1: nonsense. */
int mesh_receive_from(struct mesh *m, const struct dist_call *c, int i);
/* Adds up what has come from all; was there anything? */
bool mesh_reduce(struct mesh *m, const struct dist_call *c);

#endif
