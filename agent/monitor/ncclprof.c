/* SPDX-License-Identifier: Apache-2.0 */
/* ncclprof.c - libjobctl_ncclprof.so: NCCL profiler plugin, records collectives on the flight page
 *
 * NCCL (2.26 and later) loads the plugin named by NCCL_PROFILER_PLUGIN and calls it when a
 * collective is enqueued, and when its kernels start and stop on the GPU. From these calls the page
 * (JOBCTL_FLIGHT) gets: collectives started and completed, kind, bytes, time. So for a hang of a
 * PyTorch program the rank that never entered a collective is named, as for jobctl-train.
 *
 * One file serves interface versions 3, 4 and 5 (NCCL 2.26, 2.27, 2.28 and later, which try the
 * newest first). The declarations are written from the documented ABI and cover only what is used
 * here. Only collectives of the first communicator with all ranks are counted (version 3 does not
 * report the size: then of the first one), because they have equal sequence numbers on all ranks.
 *
 * Kernel events arrive per channel, often after the call has returned, from another thread. A
 * collective is complete when all of its channels, or all channels that were started, have stopped.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"

#include "engine/contract/flight.h"

enum { EVENT_COLL = 1 << 1, EVENT_KERNEL_CHANNEL = 1 << 6 };
enum { NCCL_OK = 0, COLLS = 1024, KERNELS = 8192 };

/* --- NCCL's plugin ABI --------------------------------------------------------------------- */

/* Up to version 4 an event begins with the same fields; later the type has 64 bits, of which
 * only the first 8 are used. */
struct event_head {
    uint8_t type;
    void   *parent;
    int     rank;
};

struct coll_v3 {
    struct event_head head;
    const char *name;
    uint64_t comm, seq;
    const char *func;
    const void *send;
    void *receive;
    size_t count;
    int root;
    const char *datatype;
    uint8_t channels, warps;
};

struct coll_v4 {
    struct event_head head;
    uint64_t seq;
    const char *func;
    const void *send;
    void *receive;
    size_t count;
    int root;
    const char *datatype;
    uint8_t channels, warps;
};
_Static_assert(offsetof(struct coll_v3, func) == 48 && offsetof(struct coll_v4, func) == 32, "ABI");
_Static_assert(offsetof(struct coll_v3, datatype) == 88, "ABI");
_Static_assert(offsetof(struct coll_v4, datatype) == 72, "ABI");
_Static_assert(offsetof(struct coll_v4, channels) == 80, "ABI");

/* --- state --------------------------------------------------------------------------------- */

/* A handle passed to NCCL: a collective, or one of its channels. */
struct handle {
    bool     is_coll;
    uint64_t seq; /* of the collective; differs when the slot is reused */
    int channels; /* number of channels; 0 = not known */
    int      started, stopped;
    bool called, done; /* the call has returned; it was counted as completed */
    uint64_t started_ns;
};

static struct {
    pthread_mutex_t lock;
    struct flight  *flight;
    bool            tried;
    void *counted; /* the communicator whose collectives are counted */
    uint64_t        begun, completed;
    struct handle   colls[COLLS], kernels[KERNELS];
    uint64_t        next_kernel;
} state = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Opens the page once; a program that writes its own phases keeps them. */
static void attach(void)
{
    const char *path = getenv("JOBCTL_FLIGHT");
    if (state.tried)
        return;
    state.tried = true;
    if (!path || !*path || flight_attach(&state.flight, path, NULL) < 0)
        return;
    struct flight_page *page = calloc(1, sizeof(*page));
    if (page) {
        flight_read(state.flight, page);
        if (page->ring_next <= 1)
            flight_enter(state.flight, 0, PHASE_FORWARD);
    }
    free(page);
}

static int world(void)
{
    const char *text = getenv("WORLD_SIZE");
    return text ? atoi(text) : 0;
}

static uint64_t kind_of(const char *func)
{
    static const char *const names[] = {
        [COLL_ALL_REDUCE] = "AllReduce", [COLL_REDUCE_SCATTER] = "ReduceScatter",
        [COLL_ALL_GATHER] = "AllGather", [COLL_BROADCAST] = "Broadcast",
        [COLL_BARRIER] = "Barrier",      [COLL_REDUCE] = "Reduce",
    };
    for (size_t i = 0; func && i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(func, names[i]) == 0)
            return i;
    return COLL_OTHER;
}

/* Bytes per element: the digits in "ncclFloat16" are its bits. */
static uint64_t size_of(const char *datatype)
{
    const char *digits = datatype ? strpbrk(datatype, "0123456789") : NULL;
    int bits = digits ? atoi(digits) : 32;
    return bits >= 8 ? (uint64_t)bits / 8 : 1;
}

/* --- events -------------------------------------------------------------------------------- */

static void *begin_coll(const char *func, const char *datatype, size_t count, int channels)
{
    uint64_t seq = ++state.begun;
    struct handle *c = &state.colls[seq % COLLS];
    *c = (struct handle){.is_coll = true, .seq = seq, .channels = channels};
    flight_coll_begin(state.flight, seq, kind_of(func), count * size_of(datatype));
    return c;
}

static void *begin_kernel(const struct handle *coll)
{
    if (!coll || !coll->is_coll)
        return NULL;
    struct handle *c = &state.colls[coll->seq % COLLS];
    struct handle *k = &state.kernels[state.next_kernel++ % KERNELS];
    *k = (struct handle){.seq = c->seq};
    if (c->started++ == 0)
        c->started_ns = clock_ns();
    return k;
}

static void complete(struct handle *c)
{
    if (c->done || !c->called || c->started == 0 || c->stopped < c->started ||
        (c->channels > 0 && c->stopped < c->channels))
        return;
    c->done = true;
    state.completed++;
    flight_coll_done(state.flight, state.completed);
    flight_waited(state.flight, clock_ns() - c->started_ns);
}

static int stop_event(void *handle)
{
    struct handle *h = handle;
    if (!h)
        return NCCL_OK;
    pthread_mutex_lock(&state.lock);
    struct handle *c = &state.colls[h->seq % COLLS];
    if (c->seq == h->seq) {
        if (h->is_coll)
            c->called = true;
        else
            c->stopped++;
        complete(c);
    }
    pthread_mutex_unlock(&state.lock);
    return NCCL_OK;
}

static int record_state(void *handle, int what, void *args)
{
    (void)handle;
    (void)what;
    (void)args;
    return NCCL_OK;
}

static int finalize(void *context)
{
    pthread_mutex_lock(&state.lock);
    if (state.counted == context)
        state.counted = NULL;
    pthread_mutex_unlock(&state.lock);
    free(context);
    return NCCL_OK;
}

/* One context per communicator; nranks 0: not known. */
static int begin(void **context, int *mask, int nranks)
{
    *context = malloc(1);
    if (!*context)
        return NCCL_OK; /* continue without recording */
    pthread_mutex_lock(&state.lock);
    attach();
    if (!state.counted && (nranks == 0 || nranks == world()))
        state.counted = *context;
    pthread_mutex_unlock(&state.lock);
    *mask = state.flight ? EVENT_COLL | EVENT_KERNEL_CHANNEL : 0;
    return NCCL_OK;
}

static int start_v3(void *context, void **handle, struct event_head *e)
{
    const struct coll_v3 *c = (const struct coll_v3 *)(const void *)e;
    *handle = NULL;
    pthread_mutex_lock(&state.lock);
    if (e->type == EVENT_COLL && context == state.counted)
        *handle = begin_coll(c->func, c->datatype, c->count, 0); /* channels: an upper bound */
    else if (e->type == EVENT_KERNEL_CHANNEL)
        *handle = begin_kernel(e->parent);
    pthread_mutex_unlock(&state.lock);
    return NCCL_OK;
}

static int start_v4(void *context, void **handle, struct event_head *e)
{
    const struct coll_v4 *c = (const struct coll_v4 *)(const void *)e;
    *handle = NULL;
    pthread_mutex_lock(&state.lock);
    if (e->type == EVENT_COLL && context == state.counted)
        *handle = begin_coll(c->func, c->datatype, c->count, c->channels);
    else if (e->type == EVENT_KERNEL_CHANNEL)
        *handle = begin_kernel(e->parent);
    pthread_mutex_unlock(&state.lock);
    return NCCL_OK;
}

static int init_v3(void **context, int *mask)
{
    return begin(context, mask, 0);
}

static int init_v4(void **context, int *mask, const char *name, uint64_t comm, int nodes, int nranks,
                   int rank, void *log)
{
    (void)name, (void)comm, (void)nodes, (void)rank, (void)log;
    return begin(context, mask, nranks);
}

static int init_v5(void **context, uint64_t comm, int *mask, const char *name, int nodes, int nranks,
                   int rank, void *log)
{
    (void)name, (void)comm, (void)nodes, (void)rank, (void)log;
    return begin(context, mask, nranks);
}

/* --- exported symbols ---------------------------------------------------------------------- */

struct profiler_v3 {
    const char *name;
    int (*init)(void **, int *);
    int (*start)(void *, void **, struct event_head *);
    int (*stop)(void *);
    int (*record)(void *, int, void *);
    int (*finalize)(void *);
};

struct profiler_v4 {
    const char *name;
    int (*init)(void **, int *, const char *, uint64_t, int, int, int, void *);
    int (*start)(void *, void **, struct event_head *);
    int (*stop)(void *);
    int (*record)(void *, int, void *);
    int (*finalize)(void *);
};

struct profiler_v5 {
    const char *name;
    int (*init)(void **, uint64_t, int *, const char *, int, int, int, void *);
    int (*start)(void *, void **, struct event_head *);
    int (*stop)(void *);
    int (*record)(void *, int, void *);
    int (*finalize)(void *);
};

#define EXPORT __attribute__((visibility("default"))) extern const

EXPORT struct profiler_v3 ncclProfiler_v3;
EXPORT struct profiler_v4 ncclProfiler_v4;
EXPORT struct profiler_v5 ncclProfiler_v5;

const struct profiler_v3 ncclProfiler_v3 = {"jobctl", init_v3, start_v3, stop_event, record_state,
                                            finalize};
const struct profiler_v4 ncclProfiler_v4 = {"jobctl", init_v4, start_v4, stop_event, record_state,
                                            finalize};
const struct profiler_v5 ncclProfiler_v5 = {"jobctl", init_v5, start_v4, stop_event, record_state,
                                            finalize};
