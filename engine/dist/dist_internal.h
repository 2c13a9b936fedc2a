/* SPDX-License-Identifier: Apache-2.0 */
/* dist_internal.h - interface of a backend of collectives; included only by dist*.c
 *
 * dist.c orders the calls, checks deadlines and writes messages.  A backend
 * (struct dist_ops) moves bytes: it works on the oldest call until that is complete, and
 * knows which rank blocks it.
 */
#ifndef ENGINE_DIST_DIST_INTERNAL_H
#define ENGINE_DIST_DIST_INTERNAL_H

#include <stdatomic.h>
#include <stdbool.h>

#include "engine/dist/dist.h"

enum dist_kind {
    DIST_ALL_REDUCE,
    DIST_REDUCE_SCATTER,
    DIST_ALL_GATHER,
    DIST_BROADCAST,
    DIST_BARRIER
};

enum { DIST_QUEUE = 256 };

struct dist_call {
    enum dist_kind kind;
    enum dist_type type;
    enum dist_op   op;
    int            root;
    char          *data;
    size_t         n;      /* elements */
    uint64_t       seq;
};

struct dist_ops {
    const char *name;
    int  (*begin)(struct dist *d, struct err *err);
    /* 1 connected, 0 not yet, -1. Never blocks for long. */
    int  (*connect)(struct dist *d, struct err *err);
    /* NULL, or called when a call has entered the queue. */
    void (*begun)(struct dist *d, const struct dist_call *call);
    /* Work on `call`: 1 complete, 0 blocked, -1 with d->fault set. Adds its progress to
     * d->progress. */
    int  (*advance)(struct dist *d, const struct dist_call *call);
    /* Returns when something may have changed, at most after some milliseconds. */
    void (*sleep)(struct dist *d);
    /* The rank that blocks this one, in `call` or (NULL) in connect(). */
    void (*blame)(struct dist *d, const struct dist_call *call, struct dist_fault *fault);
    /* Tell all ranks that the job failed; from any thread. Returns the fault that came first. */
    struct dist_fault (*raise)(struct dist *d, struct dist_fault fault);
    void (*destroy)(struct dist *d);
    /* NULL, or dist_about(). */
    const char *(*about)(const struct dist *d, const char **doubt);
    /* For a part of a whole (dist_nodes.c): faults raised by others, also between calls. */
    struct dist_fault (*told)(struct dist *d);
    /* NULL, or dist_lost(). */
    struct dist_fault (*lost)(struct dist *d);
    /* Tell the ranks here that this rank waits for a rank on another node; -1 = no longer. */
    void (*suspect)(struct dist *d, int name);
};

struct dist {
    struct dist_config     c;
    char                   name[DIST_NAME];
    const struct dist_ops *ops;
    void                  *way;        /* state of the backend */
    atomic_bool            connected;
    struct dist_call       queue[DIST_QUEUE];
    uint64_t               head, tail; /* calls completed, begun: queue[(seq - 1) % DIST_QUEUE] */
    uint64_t               progress;
    int64_t                began_ms, moved_ms; /* time when it began; time of the last progress */
    int64_t                timeout_ms; /* of the current wait, or of the last one */
    struct dist_fault      fault;
    char                   why[256];    /* details of DIST_SYSTEM, or "" */
    struct dist_stats      stats;
    atomic_bool            aborted;
    /* For a part of a larger whole (dist_nodes.c), else NULL: */
    const int             *names;       /* rank in the whole of each rank here */
    const int             *first;       /* rank i here takes parts first[i] to first[i + 1] - 1 */
    int                    parts;       /*   of this many parts */
};

extern const struct dist_ops dist_none, dist_shm, dist_mesh, dist_nodes, dist_nccl, dist_host;

/* The number of rank i of d in the whole, for faults. */
static inline int dist_name(const struct dist *d, int i)
{
    return d->names ? d->names[i] : i;
}

/* The elements of the call's buffer that rank i of d reduces. */
void dist_part(const struct dist *d, const struct dist_call *c, int i, size_t *from, size_t *to);

/* The current call, or NULL. */
static inline const struct dist_call *dist_in_hand(const struct dist *d)
{
    return d->head < d->tail ? &d->queue[d->head % DIST_QUEUE] : NULL;
}

static inline bool dist_is_sum(const struct dist_call *c)
{
    return c->kind == DIST_ALL_REDUCE || c->kind == DIST_REDUCE_SCATTER;
}

/* Everything that must agree between ranks, besides the number of elements. */
static inline uint64_t dist_what(const struct dist_call *c)
{
    return (uint64_t)c->kind | (uint64_t)c->type << 8 | (uint64_t)c->op << 16 |
           (uint64_t)c->root << 32;
}

/* A fault packed into one word, 0 = none. */
uint64_t dist_pack(struct dist_fault f);
struct dist_fault dist_unpack(uint64_t w);

static inline size_t dist_size(enum dist_type t)
{
    static const unsigned char size[DIST_TYPES] = {1, 4, 8, 8};
    return size[t];
}

/* dst[n] = x[0] op x[1] op ..., element by element, in this order; dst may be one of them. (dist_sum.c) */
void dist_fold(char *dst, const char *const *x, int many, size_t n, enum dist_type type, enum dist_op op);

/* memcpy() for data that another processor reads next; no overlap. (dist_copy.c) */
void dist_copy_out(void *to, const void *from, size_t bytes);

#endif
