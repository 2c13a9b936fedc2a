/* SPDX-License-Identifier: Apache-2.0 */
/* shm_segment.h - shared memory of the ranks of one node: creation, handshake, wake-ups, death
 *
 * Rank 0 creates it (memfd) and passes it on through a socket in the abstract namespace:
 * neither has a name in the file system, so nothing is left behind, no matter how the ranks end.  Each rank has a seat:
 * counters that only this rank writes, a futex that wakes it, and a robust mutex that it holds as long as it lives: the
 * kernel reports its death.
 *
 * Only ranks of the same user are accepted, and only with the same name (job, attempt,
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
    /* Rounds completed per stage of a collective by this rank: see dist_shm.c. */
    alignas(64) _Atomic uint64_t put;
    alignas(64) _Atomic uint64_t red;
    alignas(64) _Atomic uint64_t got;
    /* The current call; its identity is at [seq % 2], since a rank may be one call ahead. */
    alignas(64) _Atomic uint64_t seq;
    _Atomic uint64_t what[2], count[2];
    /* Increased by others; the futex on which this rank sleeps. */
    alignas(64) _Atomic uint32_t bell;
    _Atomic uint32_t sleeping;
    _Atomic int32_t waits_for; /* the rank on another node that blocks this one, + 1 */
    alignas(64) pthread_mutex_t life;
    _Atomic uint32_t state;
    int32_t pid;
};

struct shm_segment {
    uint64_t magic;
    uint32_t world;
    uint32_t slots;                      /* slots per seat's window */
    uint64_t chunk;                      /* bytes per rank and round */
    uint64_t slot_bytes;                 /* of one rank's windows */
    uint64_t windows;                    /* offset of the windows */
    uint64_t bytes;                      /* of all */
    alignas(64) _Atomic uint64_t fault;  /* 0, or a struct dist_fault packed */
    struct shm_slot slot[];
};

/* One rank's handle. */
struct shm_segment_hold {
    struct shm_segment *page; /* NULL until received */
    size_t              bytes;
    int                 rank, world;
    int                 listener, line; /* rank 0's listening socket; socket to rank 0; -1 */
    uint64_t            key;
    char                address[48];
    bool                has_slot;
};

int shm_segment_begin(struct shm_segment_hold *h, int rank, int world, const char *name, struct err *err);
/* 1: all ranks have a seat. 0: not yet. -1. */
int shm_segment_poll(struct shm_segment_hold *h, struct err *err);
void shm_segment_leave(struct shm_segment_hold *h);

/* Raises a fault and returns the first one raised. Wakes all ranks. From any thread. */
struct dist_fault shm_segment_raise(struct shm_segment *p, struct dist_fault f);
struct dist_fault shm_segment_fault(const struct shm_segment *p);

/* Wakes sleeping ranks after a counter of this rank has changed. */
void shm_segment_ring(struct shm_segment_hold *h);
/* Sleeps until woken; calls `idle` once more before, so that no event is missed. */
void shm_segment_sleep(struct shm_segment_hold *h, bool (*idle)(void *arg), void *arg, int64_t ns);

/* The state of a rank: detects its death. */
enum shm_slot_state shm_segment_state(struct shm_segment *p, int rank);

/* A rank's windows. */
static inline char *shm_segment_window(struct shm_segment *p, int rank)
{
    return (char *)p + p->windows + p->slot_bytes * (uint64_t)rank;
}

#endif
