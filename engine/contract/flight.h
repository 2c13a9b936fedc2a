/* SPDX-License-Identifier: Apache-2.0 */
/* flight.h - the flight page: a rank's state in shared memory, readable even if the rank hangs
 *
 * One file of FLIGHT_BYTES per rank, made by the agent before the rank starts
 * and mapped by both (path in JOBCTL_FLIGHT).  The rank only writes memory: no
 * system call, no lock.  The agent, or `jobctl-agent flight FILE`, reads the page at any
 * time, even after the rank has died.
 *
 * One writer.  Every field is a little-endian 64-bit word at an asserted offset
 * that is stored and loaded atomically.  Step and phase share one word, stored
 * last with release order: a reader that sees a new step sees all fields of that step.
 * There is no sequence lock: a writer that dies inside one would leave it odd
 * forever.  A reader may briefly see the phase_start of the previous phase.
 * Times are CLOCK_MONOTONIC nanoseconds of the node.
 */
#ifndef ENGINE_CONTRACT_FLIGHT_H
#define ENGINE_CONTRACT_FLIGHT_H

#include <stdint.h>

struct err;

enum { FLIGHT_VERSION = 1, FLIGHT_BYTES = 16384, FLIGHT_RING = 256, FLIGHT_BINS = 64 };
#define FLIGHT_MAGIC UINT64_C(0x31746867696C664A) /* "Jflight1" */

enum flight_phase {
    PHASE_INIT,       /* until the first batch is requested */
    PHASE_DATA,
    PHASE_FORWARD,
    PHASE_BACKWARD,
    PHASE_REDUCE,
    PHASE_OPTIMIZER,
    PHASE_CHECKPOINT,
    PHASE_VALIDATE,   /* sampling and validation */
    PHASE_IDLE,       /* finished, or idle between steps */
    FLIGHT_PHASES
};

/* Kinds of collectives; the first five are those of engine/dist/dist_internal.h, in their order.
 */
enum flight_coll {
    COLL_ALL_REDUCE,
    COLL_REDUCE_SCATTER,
    COLL_ALL_GATHER,
    COLL_BROADCAST,
    COLL_BARRIER,
    COLL_REDUCE,
    COLL_SEND_RECV,
    COLL_OTHER,
    FLIGHT_COLLS
};

/* One entry of the ring; seq is stored last and identifies the lap of the ring. */
struct flight_entry {
    uint64_t seq;     /* 1, 2, ...; 0 = never written */
    uint64_t at_ns;
    uint64_t step_phase;
    uint64_t value;   /* entering forward: the bucket; else the work done in the previous phase */
};

struct flight_page {
    uint64_t magic;
    uint64_t version;
    uint64_t bytes;           /* FLIGHT_BYTES */
    uint64_t pid;             /* pid of the writer; 0 until it has attached */
    uint64_t rank;
    uint64_t world_size;
    uint64_t generation;
    uint64_t attached_ns;
    uint64_t step_phase;      /* step << 8 | phase; step = optimizer steps completed */
    uint64_t phase_start_ns;
    uint64_t micro_batch;     /* index within the step */
    uint64_t phase_done;      /* work done in this phase, in the phase's unit */
    uint64_t phase_total;     /* 0 = unknown */
    uint64_t bucket;          /* height << 32 | width of the current batch */
    uint64_t coll_seq;        /* collectives started */
    uint64_t coll_kind;       /* enum flight_coll */
    uint64_t coll_bytes;
    uint64_t coll_start_ns;
    uint64_t coll_done_seq;   /* collectives completed */
    uint64_t steps_total;     /* of the whole run */
    uint64_t phase_ns[FLIGHT_PHASES]; /* time spent in each phase, without the current one */
    uint64_t wait_ns;         /* time spent waiting for other ranks in collectives */
    uint64_t reserved[34];
    uint64_t step_hist[FLIGHT_BINS];                  /* log2 bins, see flight_bin() */
    uint64_t phase_hist[FLIGHT_PHASES][FLIGHT_BINS];
    uint64_t ring_next;       /* seq of the next entry */
    struct flight_entry ring[FLIGHT_RING];
};

_Static_assert(sizeof(struct flight_page) <= FLIGHT_BYTES, "the flight page outgrew its file");

struct flight; /* a mapping */

/* Create the file (agent), attach to it (rank), or map it read-only (any process).
 * flight_attach() with a NULL path uses private memory, so that a
 * rank started by hand needs no special case. */
int flight_create(const char *path, uint64_t rank, uint64_t world_size, uint64_t generation, struct err *err);
int flight_attach(struct flight **out, const char *path, struct err *err);
int flight_open(struct flight **out, const char *path, struct err *err);
void flight_close(struct flight *f);

/* The rank's side.  flight_enter() also ends the previous phase: its duration
 * goes to that phase's histogram. */
void flight_enter(struct flight *f, uint64_t step, enum flight_phase phase);
void flight_work(struct flight *f, uint64_t done, uint64_t total);
void flight_micro(struct flight *f, uint64_t micro_batch, uint64_t height, uint64_t width);
void flight_step_done(struct flight *f, uint64_t step, uint64_t took_ns);
void flight_set_total(struct flight *f, uint64_t steps_total);
/* Collectives by number: one has begun (kind: enum flight_coll); all up to seq are complete.
 * f may be NULL. */
void flight_coll_begin(struct flight *f, uint64_t seq, uint64_t kind, uint64_t bytes);
void flight_coll_done(struct flight *f, uint64_t seq);
void flight_waited(struct flight *f, uint64_t ns); /* f may be NULL */

/* The reader's side: a copy, consistent enough for diagnosis. */
void flight_read(const struct flight *f, struct flight_page *out);
/* Shifts the times of a copy of another node's page to this node's clock. */
void flight_shift(struct flight_page *p, int64_t ns);
uint64_t flight_step(const struct flight_page *p);
enum flight_phase flight_phase_of(const struct flight_page *p);
const char *flight_phase_name(enum flight_phase phase);
const char *flight_coll_name(uint64_t kind);
/* Time in a phase up to now, the current one included. */
uint64_t flight_spent_ns(const struct flight_page *p, enum flight_phase phase, uint64_t now_ns);

/* Histogram: bin b >= 1 holds [2^(b/2), 2^((b+1)/2)) microseconds (two bins per octave);
 * bin 0 holds shorter times, the last bin also times above 71 minutes. */
int flight_bin(uint64_t ns);
uint64_t flight_bin_ceil_ns(int bin);
/* The smallest bin ceiling below which at least a share q of the samples lies; 0 if empty. */
uint64_t flight_quantile_ns(const uint64_t hist[FLIGHT_BINS], double q);

#endif
