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

enum shm_slot_state { SHM_SLOT_EMPTY, SHM_SLOT_TAKEN, SHM_SLOT_LEFT, SHM_SLOT_DEAD };

struct shm_slot {
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

struct shm_segment {
    uint64_t magic;
    uint32_t world;
    uint32_t slots;                      /* that a seat's windows are cut in */
    uint64_t chunk;                      /* bytes of one rank's part of a round */
    uint64_t slot_bytes;                 /* of one rank's windows */
    uint64_t windows;                    /* where they begin */
    uint64_t bytes;                      /* of all */
    alignas(64) _Atomic uint64_t fault;  /* 0, or a struct dist_fault packed */
    struct shm_slot slot[];
};

/* One rank's hold on it. */
struct shm_segment_hold {
    struct shm_segment *page; /* NULL until it has been handed out */
    size_t              bytes;
    int                 rank, world;
    int                 listener, line; /* rank 0's socket; a socket to rank 0; -1 */
    uint64_t            key;
    char                address[48];
    bool                has_slot;
};

int shm_segment_begin(struct shm_segment_hold *h, int rank, int world, const char *name,
                      struct err *err);
/* 1: all ranks have a seat. 0: not yet. -1. */
int shm_segment_poll(struct shm_segment_hold *h, struct err *err);
void shm_segment_leave(struct shm_segment_hold *h);

/* The first fault stays: returns it. Wakes everybody. From any thread. */
struct dist_fault shm_segment_raise(struct shm_segment *p, struct dist_fault f);
struct dist_fault shm_segment_fault(const struct shm_segment *p);

/* Wake those who sleep, after a counter of this rank has changed. */
void shm_segment_ring(struct shm_segment_hold *h);
/* Until somebody rings; `idle` is asked again before, for news must not be slept over. */
void shm_segment_sleep(struct shm_segment_hold *h, bool (*idle)(void *arg), void *arg, int64_t ns);

/* What has become of a rank: notes its death. */
enum shm_slot_state shm_segment_state(struct shm_segment *p, int rank);

/* A rank's windows. */
static inline char *shm_segment_window(struct shm_segment *p, int rank)
{
    return (char *)p + p->windows + p->slot_bytes * (uint64_t)rank;
}

#endif
