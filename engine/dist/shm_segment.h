/* SPDX-License-Identifier: Apache-2.0 */
/* shm_segment.h - the memory that the ranks of one node share, and how they come to share it
 *
 * Rank 0 makes it (memfd) and hands it out through a socket in the abstract namespace:
 * neither has a name in any directory, so nothing is left behind, however the ranks
 * end.  Each rank has a seat: counters that only it writes, a bell that wakes it, and
 * a robust mutex that it holds as long as it lives: the kernel tells of its death.
 *
 * Only ranks of the same user are let in, and only with the same name (job, attempt,
 * generation) and number of ranks.
 */
#ifndef ENGINE_DIST_SHM_SEGMENT_H
#define ENGINE_DIST_SHM_SEGMENT_H

#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/dist/dist.h"

struct err;

enum seat_state { SEAT_EMPTY, SEAT_TAKEN, SEAT_LEFT, SEAT_DEAD };

struct dist_seat {
    /* Rounds of the stages of a collective that this rank has done: see dist_shm.c. */
    alignas(64) _Atomic uint64_t put;
    alignas(64) _Atomic uint64_t red;
    alignas(64) _Atomic uint64_t got;
    /* The call in hand; what it is stands at [seq % 2], since a rank may be one call ahead. */
    alignas(64) _Atomic uint64_t seq;
    _Atomic uint64_t what[2], count[2];
    /* Rung by others; the futex on which this rank sleeps. */
    alignas(64) _Atomic uint32_t bell;
    _Atomic uint32_t sleeping;
    _Atomic int32_t waits_for; /* the rank on another node that keeps this one waiting, + 1 */
    alignas(64) pthread_mutex_t life;
    _Atomic uint32_t state;
    int32_t pid;
};

struct dist_page {
    uint64_t magic;
    uint32_t world;
    uint32_t slots;                      /* that a seat's windows are cut in */
    uint64_t chunk;                      /* bytes of one rank's part of a round */
    uint64_t seat_bytes;                 /* of one rank's windows */
    uint64_t windows;                    /* where they begin */
    uint64_t bytes;                      /* of all */
    alignas(64) _Atomic uint64_t fault;  /* 0, or a struct dist_fault packed */
    struct dist_seat seat[];
};

/* One rank's hold on it. */
struct dist_hold {
    struct dist_page *page;   /* NULL until it has been handed out */
    size_t            bytes;
    int               rank, world;
    int               listener, line; /* rank 0's socket; a socket to rank 0; -1 */
    uint64_t          key;
    char              address[48];
    bool              seated;
};

int page_begin(struct dist_hold *h, int rank, int world, const char *name, struct err *err);
/* 1: all ranks have a seat. 0: not yet. -1. */
int page_poll(struct dist_hold *h, struct err *err);
void page_leave(struct dist_hold *h);

/* The first fault stays: returns it. Wakes everybody. From any thread. */
struct dist_fault page_raise(struct dist_page *p, struct dist_fault f);
struct dist_fault page_fault(const struct dist_page *p);

/* Wake those who sleep, after a counter of this rank has changed. */
void page_ring(struct dist_hold *h);
/* Until somebody rings; `idle` is asked again before, for news must not be slept over. */
void page_sleep(struct dist_hold *h, bool (*idle)(void *arg), void *arg, int64_t ns);

/* What has become of a rank: notes its death. */
enum seat_state page_state(struct dist_page *p, int rank);

/* A rank's windows. */
static inline char *page_window(struct dist_page *p, int rank)
{
    return (char *)p + p->windows + p->seat_bytes * (uint64_t)rank;
}

#endif
