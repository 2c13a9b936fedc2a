/* SPDX-License-Identifier: Apache-2.0 */
/* dist_mesh_internal.h - inside of a mesh of nodes, shared by dist_mesh*.c only */
#ifndef ENGINE_DIST_DIST_MESH_INTERNAL_H
#define ENGINE_DIST_DIST_MESH_INTERNAL_H

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/dist/dist_internal.h"
#include "engine/dist/dist_link.h"

/* TCP connections between ranks on different nodes (dist_link.h)
 *
 * Each rank opens a port that the system chooses, publishes its address through
 * struct dist_bootstrap, connects to all lower ranks and accepts connections from higher ones.  A
 * hello carries the key (of job, attempt and generation), the rank and the number of the
 * connection, and gets the same in reply; any other data closes the connection.  No call
 * waits: the caller repeats dist_connect_poll() until its deadline.
 */
struct dist_connect;
struct dist_link;
struct dist_bootstrap;
struct err;

struct dist_connect_config {
    int                          rank, world;
    const int                   *names; /* keys of `meet` are "tcp.<name>"; NULL: the ranks */
    uint64_t                     key[2];
    const struct dist_bootstrap *bootstrap;
    struct dist_link            *links; /* [world], owned by the caller; filled here */
};

int dist_connect_open(struct dist_connect **out, const struct dist_connect_config *config, struct err *err);
/* 1: all links are connected. 0: not yet. -1. */
int dist_connect_poll(struct dist_connect *d, struct err *err);
/* The first rank with a missing connection, or -1. */
int dist_connect_absent(const struct dist_connect *d);
void dist_connect_close(struct dist_connect *d);

enum { MESH_CHUNK_MIN = 65536, MESH_SLOTS = 4 };

/* Precedes each piece of data. */
struct head {
    uint64_t key, seq, bytes;
    uint32_t stage, round;
};

struct peer {
    struct dist_link *link;
    uint64_t          seq, what[2], count[2]; /* the peer's newest call; identity at [seq % 2] */
    uint64_t          heard_of;               /* the newest of our calls announced to it */
    int               waits_for;              /* rank that it waits for, or -1 */
    /* sending: the current piece, and rounds sent */
    struct head       head_out;
    const char       *from;
    size_t            head_left, left;
    uint64_t          puts_out, results_out;
    /* receiving: the same */
    struct head       head_in;
    char             *to;
    size_t            head_have, more;
    uint64_t          puts_in, results_in;
    bool              broken; /* its data connection has ended */
};

struct mesh {
    struct dist         *d;
    struct dist_connect *connect; /* while connecting */
    struct dist_link    *links;
    struct peer         *peers; /* [world]; this rank's own is unused */
    struct pollfd       *polls;
    const char         **sources;
    char                *inbox; /* [world][MESH_SLOTS] chunks */
    size_t               chunk;
    uint64_t             key[2];
    pthread_mutex_t      say;   /* guards sending of messages, also by another thread */
    _Atomic uint64_t     fault; /* packed */
    int                  bell;  /* eventfd, written by another thread */
    /* the current call */
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

/* --- dist_mesh_rounds.c: data of the current call ---------------------------------------- */

void mesh_begin_call(struct mesh *m, const struct dist_call *c);

/* Number of put rounds that each rank sends to each other; of result rounds of rank i. */
uint64_t mesh_put_rounds(const struct mesh *m, const struct dist_call *c);
uint64_t mesh_results_of(const struct mesh *m, const struct dist_call *c, int i);

/* Sends what peer i accepts now; true: some data moved. */
bool mesh_send_to(struct mesh *m, const struct dist_call *c, int i);
/* Receives from peer i. 1: some data; 0: none; -1: malformed. */
int mesh_receive_from(struct mesh *m, const struct dist_call *c, int i);
/* Adds up what has arrived from all ranks; true: something was added. */
bool mesh_reduce(struct mesh *m, const struct dist_call *c);

#endif
