/* SPDX-License-Identifier: Apache-2.0 */
/* dist.h - the ranks of a job compute together: collectives, each with a deadline and a culprit
 *
 * All ranks make the same calls in the same order.  A call only notes what to do;
 * dist_poll() does as much of it as is possible without waiting, dist_wait() all of
 * it.  Until then the buffer belongs to the collective.  Calls are numbered 1, 2, ...
 * and are done in their order, so that buckets of gradients can be handed over while
 * the backward pass goes on.
 *
 * A sum is taken in the order of ranks, whoever comes first (on several nodes: on each
 * node, then in the order of nodes), and all ranks end with the same bits.
 *
 * No wait is endless: when nothing moves for `wait_ms`, or a rank dies, leaves, calls
 * for something else, or aborts, all ranks fail with a sentence that names the one who
 * is to blame (dist_fault()).  After that every call fails with the same sentence;
 * what is left is dist_destroy().
 *
 * One thread calls (the one that began), but dist_abort() may come from any.
 */
#ifndef ENGINE_DIST_DIST_H
#define ENGINE_DIST_DIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct flight;

enum dist_type { DIST_U8, DIST_F32, DIST_F64, DIST_I64, DIST_TYPES };
enum dist_op { DIST_SUM, DIST_MAX };   /* of DIST_U8: only copied, never combined */

enum { DIST_UNIT = 64, DIST_NUMBERS = 16, DIST_NAME = 160 };

/* How ranks on several nodes find each other: through whoever started them, or what they share.
 * It must outlive the struct dist. See engine/dist/rendezvous.h. */
struct dist_bootstrap {
    int         nodes;
    const int  *first;       /* [nodes + 1]: node k has ranks first[k] to first[k + 1] - 1 */
    const char *interface;   /* "eth0": only its address; NULL: all that are up */
    const char *address;     /* by which this node is known to be reached: before all others; or NULL */
    /* Say `value` to all ranks under `key`; what somebody has said, or NULL. Neither waits. */
    int (*put)(void *arg, const char *key, const char *value, struct err *err);
    const char *(*get)(void *arg, const char *key);
    void       *arg;
};

/* For buffers in a GPU's memory: what reaches it (kernels/kernels.h, kernels/cuda.h). */
struct dist_device {
    const struct kern_ops     *ops;
    const struct kern_streams *streams;
    bool                       shared; /* several ranks are on one GPU, which NCCL refuses */
};

struct dist_config {
    int            rank, world;
    const char    *name;     /* unique for (job, attempt, generation); nobody else's ranks meet */
    int64_t        init_ms;  /* for all ranks to come */
    int64_t        wait_ms;  /* without any progress, unless dist_wait_for() says otherwise */
    struct flight *flight;   /* may be NULL: shows the collective in hand */
    const struct dist_bootstrap *bootstrap; /* NULL: all ranks are on this machine */
    /* NULL: buffers are this process's memory. Else they are the GPU's, kernels that write them
     * must have been asked for before the call begins, and `meet` is needed. */
    const struct dist_device *device;
};

enum dist_fault_kind {
    DIST_FINE,
    DIST_ABSENT,    /* did not come to the beginning */
    DIST_LATE,      /* alive, but nothing came from it */
    DIST_DIED,
    DIST_LEFT,      /* destroyed its side while others still wait */
    DIST_ABORTED,
    DIST_MISMATCH,  /* called for something else: the ranks have run apart */
    DIST_SYSTEM
};

struct dist_fault {
    enum dist_fault_kind kind;
    int                  rank;  /* to blame; -1 where nobody is */
    uint64_t             seq;   /* the collective in hand, 0 = the beginning */
};

struct dist_stats {
    uint64_t calls, bytes;      /* begun; of their buffers */
    uint64_t moved;             /* bytes that this rank put where others read or receive them */
    uint64_t wire;              /*   of which it sent to another node */
    uint64_t wait_ns;           /* spent inside dist_wait(): communication that nothing hid */
};

struct dist;

/* Begin, and ask again until it says 1 (connected); 0 = not all ranks have come, -1 = never will.
 * A failed dist_begin() leaves nothing; after a failed poll, destroy it. */
int dist_begin(struct dist **out, const struct dist_config *config, struct err *err);
int dist_poll_init(struct dist *d, struct err *err);
/* Both, with sleep between. *out is NULL after a failure; *fault (may be NULL) says whose. */
int dist_connect(struct dist **out, const struct dist_config *config, struct dist_fault *fault,
                 struct err *err);
/* Leaves: also while calls are outstanding, and after a failure. NULL is fine. */
void dist_destroy(struct dist *d);

/* What does it, for people: "NCCL 2.28.9", or NULL where nothing is to be said; and what is known to be wrong
 * with it, or NULL. */
const char *dist_about(const struct dist *d, const char **doubt);

int dist_rank(const struct dist *d);
int dist_world(const struct dist *d);

/* Part `part` of n elements cut among `parts`: the same size for all but the last ones, in units of
 * DIST_UNIT bytes, or of DIST_NUMBERS numbers: the same cut for numbers of every type. */
void dist_slice(size_t *from, size_t *to, size_t n, enum dist_type type, int part, int parts);

/* data[n] of all ranks combined, for all. */
int dist_all_reduce(struct dist *d, void *data, size_t n, enum dist_type type, enum dist_op op,
                    struct err *err);
/* The same, but only this rank's dist_slice() of data has the result; the rest is undefined. */
int dist_reduce_scatter(struct dist *d, void *data, size_t n, enum dist_type type, enum dist_op op,
                        struct err *err);
/* Each rank gives its dist_slice() of data[n]; all get all of it. */
int dist_all_gather(struct dist *d, void *data, size_t n, enum dist_type type, struct err *err);
int dist_broadcast(struct dist *d, void *data, size_t n, enum dist_type type, int root,
                   struct err *err);
/* Nobody is through before all have come. */
int dist_barrier(struct dist *d, struct err *err);

/* 1: nothing outstanding. 0: some calls are not done. -1: it failed. Never blocks. */
int dist_poll(struct dist *d, struct err *err);
/* Until nothing is outstanding. dist_wait_for() has another deadline for this once: where one
 * rank works (a checkpoint) and the others know it. */
int dist_wait(struct dist *d, struct err *err);
int dist_wait_for(struct dist *d, int64_t wait_ms, struct err *err);
/* The calls begun so far; and until the first `calls` of them are done, whatever else is not. */
uint64_t dist_begun(const struct dist *d);
int dist_wait_call(struct dist *d, uint64_t calls, int64_t wait_ms, struct err *err);

/* From any thread: make all ranks fail now, this one too. */
void dist_abort(struct dist *d);

/* A communicator of GPUs could not be ended: only _exit() ends this process for sure. */
bool dist_is_stuck(void);

const struct dist_fault *dist_fault(const struct dist *d);
const struct dist_stats *dist_stats(const struct dist *d);

#endif
