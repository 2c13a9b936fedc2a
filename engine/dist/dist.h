/* SPDX-License-Identifier: Apache-2.0 */
/* dist.h - collectives between the ranks of a job: each has a deadline, and a failure names a rank
 *
 * All ranks make the same calls in the same order.  A call only enters a queue;
 * dist_poll() makes as much progress as is possible without waiting, dist_wait() completes
 * all calls.  Until then the buffer belongs to the collective.  Calls are numbered 1, 2, ...
 * and run in order, so that buckets of gradients can be submitted during
 * the backward pass.
 *
 * A sum is computed in the order of ranks, not of arrival (on several nodes: within each
 * node, then in the order of nodes), and all ranks get the same bits.
 *
 * No wait is endless: if there is no progress for `wait_ms`, or a rank dies, leaves, calls
 * another collective, or aborts, all ranks fail with a sentence that names the
 * rank at fault (dist_fault()).  After that every call fails with the same sentence;
 * only dist_destroy() remains.
 *
 * One thread makes the calls (the one that began), but dist_abort() may come from any.
 */
#ifndef ENGINE_DIST_DIST_H
#define ENGINE_DIST_DIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct flight;

enum dist_type { DIST_U8, DIST_F32, DIST_F64, DIST_I64, DIST_TYPES };
enum dist_op { DIST_SUM, DIST_MAX };   /* DIST_U8: copied only, never combined */

enum { DIST_UNIT = 64, DIST_NUMBERS = 16, DIST_NAME = 160 };

/* How ranks on several nodes exchange addresses: through their agents, or a shared directory.
 * Must outlive the struct dist. See engine/dist/rendezvous.h. */
struct dist_bootstrap {
    int         nodes;
    const int  *first;       /* [nodes + 1]: node k has ranks first[k] to first[k + 1] - 1 */
    const char *interface;   /* "eth0": use only its address; NULL: of all that are up */
    const char *address;     /* a reachable address of this node, tried first; or NULL */
    /* Publish `value` to all ranks under `key`; look up what a rank has published, or NULL. Neither
     * waits. */
    int (*put)(void *arg, const char *key, const char *value, struct err *err);
    const char *(*get)(void *arg, const char *key);
    void       *arg;
};

/* For buffers in GPU memory: the table of kernels and the streams (kernels/kernels.h,
 * kernels/cuda.h). */
struct dist_device {
    const struct kern_ops     *ops;
    const struct kern_streams *streams;
    bool                       shared; /* several ranks share a GPU, which NCCL rejects */
    struct dist               *ranks;  /* the same ranks over host memory, used to detect the death of a rank; or
                                        * NULL */
};

struct dist_config {
    int            rank, world;
    const char    *name;     /* unique for (job, attempt, generation): only these connect */
    int64_t        init_ms;  /* for all ranks to connect */
    int64_t        wait_ms;  /* without any progress; dist_wait_for() overrides it */
    struct flight *flight;   /* may be NULL: shows the current collective */
    const struct dist_bootstrap *bootstrap; /* NULL: all ranks are on this machine */
    /* NULL: buffers are host memory. Else they are GPU memory; kernels that write them
     * must be queued before the call begins, and `meet` is required. */
    const struct dist_device *device;
};

enum dist_fault_kind {
    DIST_FINE,
    DIST_ABSENT,    /* did not connect */
    DIST_LATE,      /* alive, but sends nothing */
    DIST_DIED,
    DIST_LEFT,      /* left while others are still waiting */
    DIST_ABORTED,
    DIST_MISMATCH,  /* called a different collective than the others */
    DIST_DEVICE,    /* this rank's device failed: kern_ops.state() has the reason */
    DIST_SYSTEM
};

struct dist_fault {
    enum dist_fault_kind kind;
    int                  rank;  /* at fault; -1 if unknown */
    uint64_t             seq;   /* the current collective, 0 = connecting */
};

struct dist_stats {
    uint64_t calls, bytes;      /* calls begun; bytes of their buffers */
    uint64_t moved;             /* bytes that this rank made available to others */
    uint64_t wire;              /*   of which to other nodes */
    uint64_t wait_ns;           /* spent inside dist_wait(): communication not overlapped */
};

struct dist;

/* Begin, then poll until it returns 1 (connected); 0 = not all ranks are connected, -1 = failed.
 * A failed dist_begin() leaves nothing; after a failed poll, destroy it. */
int dist_begin(struct dist **out, const struct dist_config *config, struct err *err);
int dist_poll_init(struct dist *d, struct err *err);
/* Both, with sleep between. *out is NULL after a failure; *fault (may be NULL) names the rank. */
int dist_connect(struct dist **out, const struct dist_config *config, struct dist_fault *fault, struct err *err);
/* Leaves the job, even with outstanding calls or after a failure. Accepts NULL. */
void dist_destroy(struct dist *d);

/* Name of the library for messages: "NCCL 2.28.9", or NULL; and known faults of this
 * version, or NULL. */
const char *dist_about(const struct dist *d, const char **doubt);

int dist_rank(const struct dist *d);
int dist_world(const struct dist *d);

/* Part `part` of n elements split into `parts`: all but the last ones have the same size, a
 * multiple of DIST_UNIT bytes, or of DIST_NUMBERS numbers: the same split for numbers of every
 * type. */
void dist_slice(size_t *from, size_t *to, size_t n, enum dist_type type, int part, int parts);

/* data[n] combined over all ranks, on all ranks. */
int dist_all_reduce(struct dist *d, void *data, size_t n, enum dist_type type, enum dist_op op, struct err *err);
/* The same, but only this rank's dist_slice() of data is defined afterwards. */
int dist_reduce_scatter(struct dist *d, void *data, size_t n, enum dist_type type, enum dist_op op, struct err *err);
/* Each rank contributes its dist_slice() of data[n]; all ranks get the whole. */
int dist_all_gather(struct dist *d, void *data, size_t n, enum dist_type type, struct err *err);
int dist_broadcast(struct dist *d, void *data, size_t n, enum dist_type type, int root, struct err *err);
/* No rank returns before all have called. */
int dist_barrier(struct dist *d, struct err *err);

/* 1: nothing outstanding. 0: some calls are not complete. -1: failed. Never blocks. */
int dist_poll(struct dist *d, struct err *err);
/* Waits until nothing is outstanding. dist_wait_for() has a separate deadline, for a wait in which one rank is known
 * to work (a checkpoint). */
int dist_wait(struct dist *d, struct err *err);
int dist_wait_for(struct dist *d, int64_t wait_ms, struct err *err);
/* The number of calls begun so far; wait until the first `calls` of them are complete. */
uint64_t dist_begun(const struct dist *d);
int dist_wait_call(struct dist *d, uint64_t calls, int64_t wait_ms, struct err *err);

/* From any thread: make all ranks fail now, this one too. */
void dist_abort(struct dist *d);
/* From any thread, also between calls: has a rank of this machine died or made all ranks fail? */
struct dist_fault dist_lost(struct dist *d);

/* True: a GPU communicator could not be ended, and only _exit() is sure to end this process. */
bool dist_is_stuck(void);

const struct dist_fault *dist_fault(const struct dist *d);
const struct dist_stats *dist_stats(const struct dist *d);

#endif
