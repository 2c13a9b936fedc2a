/* SPDX-License-Identifier: Apache-2.0 */
/* dist_nccl.c - collectives of GPUs by NCCL, with the deadlines that NCCL lacks
 *
 * The communicator is non-blocking: a call that NCCL cannot complete at once is in
 * progress, and is polled.  A call is submitted as soon as it begins, on a stream of
 * its own after an event in the kernels' stream, so that it overlaps the backward pass; it
 * is complete when the stream has reached the event behind it.  While NCCL is still busy
 * submitting one call, the next waits here, because no other function may be called then.
 *
 * A watchdog thread ends the communicator, because that can block in spite of the
 * non-blocking mode: it alone calls Finalize, Destroy and Abort.  After a failure, and if calls are
 * not complete, it aborts at once, which also frees a thread that is stuck in NCCL or waits for a kernel
 * behind it; from then on no other thread calls NCCL.  NCCL does not say that a peer has died: the
 * communicator of the same ranks over host memory knows, and the watchdog asks it.  If even the abort
 * does not end within ABORT_MS, the communicator is abandoned, and dist_is_stuck() tells the process to
 * leave by _exit().
 */
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/dist/dist_internal.h"
#include "engine/dist/nccl.h"
#include "kernels/cuda.h"
#include "kernels/kernels.h"

enum { WATCH_MS = 20, ABORT_MS = 5000, FINALIZE_MS = 2000, NAP_NS = 50000 };

enum stage { WAIT_FOR_ID, CONNECT, WARM_UP, READY };
enum ending { NOT_ENDING, ENDING, ENDED };

struct marks {
    void *after, *end; /* events: kernels before the call; the call itself */
};

/* State of the watchdog: it may outlive the struct dist if NCCL does not return. */
struct watch {
    const struct nccl *nccl;
    struct dist       *ranks;   /* of dist_device */
    void              *comm;    /* set once */
    pthread_mutex_t    lock;
    pthread_cond_t     news;
    bool               stop;    /* the caller requests the end */
    bool               left;    /* the caller has left: the watchdog frees this */
    enum ending        ending;
    _Atomic uint64_t   fault;   /* packed fault; 0: none */
    _Atomic int64_t    inside_ms; /* time at which the caller entered NCCL; 0: it is not inside */
    int64_t            timeout_ms; /* the limit of that call */
};

struct gpu {
    struct dist       *d;
    const struct nccl *nccl;
    struct watch      *watch;
    pthread_t          thread;
    enum stage         stage;
    void              *comm, *stream, *scratch;
    struct marks       marks[DIST_QUEUE], warm;
    uint64_t           handed;   /* the newest submitted call */
    bool               busy;     /* NCCL is busy with that one and must not be called */
};

static atomic_bool stuck;

bool dist_is_stuck(void)
{
    return atomic_load(&stuck);
}

static const struct kern_streams *streams(const struct gpu *g)
{
    return g->d->c.device->streams;
}

/* --- the watchdog ------------------------------------------------------------------------ */

static void note_fault(struct watch *w, struct dist_fault f)
{
    uint64_t none = 0;
    atomic_compare_exchange_strong(&w->fault, &none, dist_pack(f));
    pthread_mutex_lock(&w->lock);
    pthread_cond_broadcast(&w->news);
    pthread_mutex_unlock(&w->lock);
}

static void nap_ms(int ms)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000000L * ms}, NULL);
}

/* All work is complete: end in order, while there is no failure. */
static void take_leave(struct watch *w)
{
    int state = w->nccl->CommFinalize(w->comm);
    int64_t until = clock_ms() + FINALIZE_MS;
    while (state == NCCL_IN_PROGRESS && clock_ms() < until) {
        nap_ms(1);
        if (w->nccl->CommGetAsyncError(w->comm, &state) != NCCL_SUCCESS)
            break;
    }
    if (state == NCCL_SUCCESS)
        w->nccl->CommDestroy(w->comm);
    else
        w->nccl->CommAbort(w->comm);
}

static void free_watch(struct watch *w)
{
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->news);
    free(w);
}

static void end_comm(struct watch *w)
{
    void *comm = w->comm;
    bool fine = atomic_load(&w->fault) == 0;
    w->ending = ENDING;
    pthread_mutex_unlock(&w->lock);
    if (comm && fine)
        take_leave(w);
    else if (comm)
        w->nccl->CommAbort(comm);
    pthread_mutex_lock(&w->lock);
    w->ending = ENDED;
    pthread_cond_broadcast(&w->news);
}

static void *watch_over(void *arg)
{
    struct watch *w = arg;
    pthread_mutex_lock(&w->lock);
    while (!w->stop && atomic_load(&w->fault) == 0) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += 1000000L * WATCH_MS;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&w->news, &w->lock, &until);
        const struct dist_fault lost = w->comm && w->ranks ? dist_lost(w->ranks) : (struct dist_fault){DIST_FINE, -1, 0};
        if (lost.kind != DIST_FINE && !w->stop)
            atomic_store(&w->fault, dist_pack(lost));
        int64_t since = atomic_load(&w->inside_ms);
        if (since && clock_ms() - since > w->timeout_ms)
            atomic_store(&w->fault, dist_pack((struct dist_fault){DIST_LATE, -1, 0}));
    }
    end_comm(w);
    bool left = w->left;
    pthread_mutex_unlock(&w->lock);
    if (left)
        free_watch(w);
    return NULL;
}

/* Waits until the watchdog has ended the communicator; false: it hangs. */
static bool wait_for_end(struct watch *w)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += ABORT_MS / 1000;
    pthread_mutex_lock(&w->lock);
    w->stop = true;
    pthread_cond_broadcast(&w->news);
    while (w->ending != ENDED && pthread_cond_timedwait(&w->news, &w->lock, &until) == 0)
        ;
    bool ended = w->ending == ENDED;
    w->left = !ended;
    pthread_mutex_unlock(&w->lock);
    return ended;
}

static struct watch *make_watch(const struct nccl *nccl)
{
    struct watch *w = calloc(1, sizeof(*w));
    pthread_condattr_t a;
    if (!w)
        return NULL;
    pthread_condattr_init(&a);
    pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->news, &a);
    pthread_condattr_destroy(&a);
    w->nccl = nccl;
    return w;
}

/* --- messages ---------------------------------------------------------------------------- */

static int fail(struct gpu *g, int result, const char *what)
{
    struct dist *d = g->d;
    const char *last = g->comm ? g->nccl->GetLastError(g->comm) : NULL;
    if (!d->why[0])
        snprintf(d->why, sizeof(d->why), "NCCL failed in %s: %.80s%s%.120s", what,
                 g->nccl->GetErrorString(result), last && *last ? "; " : "", last ? last : "");
    d->fault = (struct dist_fault){DIST_SYSTEM, -1, d->head < d->tail ? d->head + 1 : 0};
    return -1;
}

static int fail_device(struct gpu *g, const char *what)
{
    char why[160];
    g->d->c.device->ops->state(why, sizeof(why));
    if (!g->d->why[0])
        snprintf(g->d->why, sizeof(g->d->why), "the GPU failed in %s: %s", what, why);
    g->d->fault = (struct dist_fault){DIST_DEVICE, -1, g->d->head + 1};
    return -1;
}

/* --- submitting -------------------------------------------------------------------------- */

static const int types[DIST_TYPES] = {NCCL_UINT8, NCCL_FLOAT32, NCCL_FLOAT64, NCCL_INT64};

/* Slices of unequal size: one call per slice, in one group. */
static int by_slices(struct gpu *g, const struct dist_call *c, int type, int op)
{
    const struct nccl *n = g->nccl;
    int rc = n->GroupStart();
    for (int i = 0; (rc == NCCL_SUCCESS || rc == NCCL_IN_PROGRESS) && i < g->d->c.world; i++) {
        size_t from, to;
        dist_slice(&from, &to, c->n, c->type, i, g->d->c.world);
        char *at = c->data + from * dist_size(c->type);
        if (to > from && c->kind == DIST_ALL_GATHER)
            rc = n->Broadcast(at, at, to - from, type, i, g->comm, g->stream);
        else if (to > from)
            rc = n->Reduce(at, at, to - from, type, op, i, g->comm, g->stream);
    }
    int end = n->GroupEnd();
    return rc == NCCL_SUCCESS || rc == NCCL_IN_PROGRESS ? end : rc;
}

static int ask(struct gpu *g, const struct dist_call *c)
{
    const struct nccl *n = g->nccl;
    int type = types[c->type], op = c->op == DIST_SUM ? NCCL_SUM : NCCL_MAX;
    size_t from, to, none, most, each = c->n / (size_t)g->d->c.world;
    dist_slice(&none, &most, c->n, c->type, 0, g->d->c.world);
    dist_slice(&from, &to, c->n, c->type, g->d->c.rank, g->d->c.world);
    char *mine = c->data + from * dist_size(c->type);
    bool even = each * (size_t)g->d->c.world == c->n && most == each; /* all ranks decide alike */
    switch (c->kind) {
    case DIST_ALL_REDUCE:
        return n->AllReduce(c->data, c->data, c->n, type, op, g->comm, g->stream);
    case DIST_REDUCE_SCATTER:
        return even ? n->ReduceScatter(c->data, mine, each, type, op, g->comm, g->stream)
                    : by_slices(g, c, type, op);
    case DIST_ALL_GATHER:
        return even ? n->AllGather(mine, c->data, each, type, g->comm, g->stream)
                    : by_slices(g, c, type, op);
    case DIST_BROADCAST:
        return n->Broadcast(c->data, c->data, c->n, type, c->root, g->comm, g->stream);
    case DIST_BARRIER:
        break;
    }
    return n->AllReduce(g->scratch, g->scratch, 1, NCCL_FLOAT32, NCCL_SUM, g->comm, g->stream);
}

/* Announces a call into NCCL to the watchdog: a non-blocking call may block all the same. */
static int start(struct gpu *g, const struct dist_call *c)
{
    atomic_store(&g->watch->inside_ms, clock_ms());
    int rc = ask(g, c);
    atomic_store(&g->watch->inside_ms, 0);
    return rc;
}

/* 1: NCCL has accepted the call. 0: NCCL is busy. -1. `end` gets the event behind it. */
static int settle(struct gpu *g, int result, void **end)
{
    if (result == NCCL_IN_PROGRESS && g->busy) {
        int rc = g->nccl->CommGetAsyncError(g->comm, &result);
        result = rc == NCCL_SUCCESS ? result : rc;
    }
    g->busy = result == NCCL_IN_PROGRESS;
    if (g->busy)
        return 0;
    if (result != NCCL_SUCCESS)
        return fail(g, result, "a collective");
    *end = streams(g)->mark(g->stream);
    return *end ? 1 : fail_device(g, "a collective");
}

static struct marks *marks_of(struct gpu *g, uint64_t seq)
{
    return &g->marks[(seq - 1) % DIST_QUEUE];
}

/* Submits as many calls as NCCL accepts now. */
static int hand_over(struct gpu *g)
{
    struct dist *d = g->d;
    if (g->busy && settle(g, NCCL_IN_PROGRESS, &marks_of(g, g->handed)->end) < 0)
        return -1;
    while (!g->busy && g->handed < d->tail) {
        const struct dist_call *c = &d->queue[g->handed % DIST_QUEUE];
        struct marks *m = marks_of(g, ++g->handed);
        if (!m->after || streams(g)->follow(g->stream, m->after) < 0)
            return fail_device(g, "waiting for the kernels");
        if (settle(g, start(g, c), &m->end) < 0)
            return -1;
    }
    return 0;
}

static void drop(struct gpu *g, struct marks *m)
{
    if (m->after)
        streams(g)->drop(m->after);
    if (m->end)
        streams(g)->drop(m->end);
    *m = (struct marks){NULL, NULL};
}

static bool is_over(struct gpu *g)
{
    uint64_t w = atomic_load(&g->watch->fault);
    if (w == 0)
        return false;
    g->d->fault = dist_unpack(w);
    if (g->d->fault.seq == 0 && g->d->head < g->d->tail)
        g->d->fault.seq = g->d->head + 1;
    return true;
}

/* --- operations for dist.c ---------------------------------------------------------------- */

static void begun(struct dist *d, const struct dist_call *c)
{
    struct gpu *g = d->way;
    marks_of(g, c->seq)->after = streams(g)->mark(NULL);
    if (!is_over(g) && hand_over(g) < 0)
        note_fault(g->watch, d->fault); /* advance() will find and report it */
    d->fault.kind = DIST_FINE;
}

static int advance(struct dist *d, const struct dist_call *c)
{
    struct gpu *g = d->way;
    struct marks *m = marks_of(g, c->seq);
    if (is_over(g) || hand_over(g) < 0)
        return -1;
    int rc = m->end ? streams(g)->reached(m->end) : 0;
    if (rc < 0)
        return fail_device(g, "a collective");
    if (rc == 0) {
        int state = NCCL_SUCCESS; /* a failure on the way */
        if (!g->busy && g->nccl->CommGetAsyncError(g->comm, &state) == NCCL_SUCCESS &&
            state != NCCL_SUCCESS && state != NCCL_IN_PROGRESS)
            return fail(g, state, "a collective");
        return 0;
    }
    drop(g, m);
    d->progress++;
    d->stats.moved += c->n * dist_size(c->type);
    return 1;
}

static void sleep_some(struct dist *d)
{
    (void)d;
    nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
}

/* GPUs have no view of other ranks: the CPU's collectives, which all steps pass first, name a late
 * rank (train_ranks.c). */
static void blame(struct dist *d, const struct dist_call *call, struct dist_fault *fault)
{
    (void)d;
    (void)call;
    fault->rank = -1;
}

static struct dist_fault raise_local(struct dist *d, struct dist_fault f)
{
    struct gpu *g = d->way;
    note_fault(g->watch, f);
    struct dist_fault first = dist_unpack(atomic_load(&g->watch->fault));
    first.seq = first.seq ? first.seq : f.seq; /* the watchdog does not know the call */
    return first;
}

/* --- connecting -------------------------------------------------------------------------- */

static int tell_id(struct gpu *g, struct err *err)
{
    struct nccl_id id;
    char text[2 * NCCL_ID + 1];
    const struct dist_bootstrap *bootstrap = g->d->c.bootstrap;
    int rc = g->nccl->GetUniqueId(&id);
    if (rc != NCCL_SUCCESS)
        return err_set(err, ERR_SYSTEM, "NCCL does not start: %s", g->nccl->GetErrorString(rc));
    for (int i = 0; i < NCCL_ID; i++)
        snprintf(text + 2 * i, 3, "%02x", (unsigned char)id.bytes[i]);
    return bootstrap->put(bootstrap->arg, "nccl", text, err);
}

static bool read_id(struct nccl_id *id, const char *text)
{
    for (int i = 0; i < NCCL_ID; i++) {
        unsigned byte;
        if (sscanf(text + 2 * i, "%2x", &byte) != 1)
            return false;
        id->bytes[i] = (char)byte;
    }
    return true;
}

static int begin_connect(struct gpu *g, const char *text)
{
    struct nccl_id id;
    struct nccl_config config = NCCL_CONFIG;
    if (strlen(text) != 2 * NCCL_ID || !read_id(&id, text))
        return fail(g, NCCL_INVALID_USAGE, "reading the NCCL id of rank 0");
    atomic_store(&g->watch->inside_ms, clock_ms());
    int rc = g->nccl->CommInitRankConfig(&g->comm, g->d->c.world, id, g->d->c.rank, &config);
    atomic_store(&g->watch->inside_ms, 0);
    pthread_mutex_lock(&g->watch->lock);
    g->watch->comm = g->comm;
    pthread_mutex_unlock(&g->watch->lock);
    if (rc != NCCL_SUCCESS && rc != NCCL_IN_PROGRESS)
        return fail(g, rc, "connecting the GPUs");
    g->stage = CONNECT;
    return 0;
}

/* The first collective establishes the connections, so it is part of connecting. */
static int warm_up(struct gpu *g)
{
    const struct dist_call c = {.kind = DIST_BARRIER};
    g->stage = WARM_UP;
    return settle(g, start(g, &c), &g->warm.end);
}

static int connect_all(struct dist *d, struct err *err)
{
    struct gpu *g = d->way;
    int state = NCCL_SUCCESS;
    (void)err;
    if (is_over(g))
        return -1;
    if (g->stage == WAIT_FOR_ID) {
        const char *text = d->c.bootstrap->get(d->c.bootstrap->arg, "nccl");
        return text ? begin_connect(g, text) : 0;
    }
    if (g->stage == CONNECT) {
        int rc = g->nccl->CommGetAsyncError(g->comm, &state);
        state = rc == NCCL_SUCCESS ? state : rc;
        if (state == NCCL_IN_PROGRESS)
            return 0;
        return state == NCCL_SUCCESS ? warm_up(g) < 0 ? -1 : 0
                                     : fail(g, state, "connecting the GPUs");
    }
    if (g->busy)
        return settle(g, NCCL_IN_PROGRESS, &g->warm.end) < 0 ? -1 : 0;
    int rc = streams(g)->reached(g->warm.end);
    if (rc < 0)
        return fail_device(g, "the first collective");
    if (rc == 1) {
        drop(g, &g->warm);
        g->stage = READY;
    }
    return rc;
}

/* Neither a failure nor a call that another rank may never complete. */
static bool may_leave_in_order(const struct gpu *g)
{
    const struct dist *d = g->d;
    return g->stage == READY && d->head == d->tail && d->fault.kind == DIST_FINE && !atomic_load(&d->aborted);
}

static void destroy(struct dist *d)
{
    struct gpu *g = d->way;
    if (g->watch && !may_leave_in_order(g))
        note_fault(g->watch, (struct dist_fault){DIST_ABORTED, d->c.rank, 0});
    bool ended = !g->watch || wait_for_end(g->watch);
    if (g->watch && ended) {
        pthread_join(g->thread, NULL);
        free_watch(g->watch);
    } else if (!ended) {
        pthread_detach(g->thread);
        atomic_store(&stuck, true);
    }
    for (int i = 0; ended && i < DIST_QUEUE; i++)
        drop(g, &g->marks[i]);
    if (ended)
        drop(g, &g->warm);
    if (ended && g->stream)
        streams(g)->close(g->stream);
    if (ended)
        d->c.device->ops->release(g->scratch);
    free(g);
}

static int begin(struct dist *d, struct err *err)
{
    struct gpu *g = calloc(1, sizeof(*g));
    if (!g)
        return err_set(err, ERR_MEMORY, "no memory for collectives");
    d->way = g;
    g->d = d;
    int rc = nccl_load(&g->nccl, NULL, err);
    if (rc == 0) {
        g->stream = streams(g)->open(true);
        g->scratch = d->c.device->ops->alloc(DIST_UNIT);
        struct watch *w = make_watch(g->nccl);
        if (w)
            w->ranks = d->c.device->ranks;
        if (w)
            w->timeout_ms = d->c.wait_ms > d->c.init_ms ? d->c.wait_ms : d->c.init_ms;
        if (g->stream && g->scratch && w && pthread_create(&g->thread, NULL, watch_over, w) == 0)
            g->watch = w;
        else
            free(w);
        rc = g->watch ? 0 : err_set(err, ERR_DEVICE_MEMORY, "the GPU has no memory for collectives");
    }
    if (rc == 0 && d->c.rank == 0)
        rc = tell_id(g, err);
    if (rc < 0)
        destroy(d);
    return rc;
}

static const char *about(const struct dist *d, const char **doubt)
{
    const struct nccl *n = ((const struct gpu *)d->way)->nccl;
    *doubt = n->note[0] ? n->note : NULL;
    return n->name;
}

const struct dist_ops dist_nccl = {
    .name = "nccl",
    .begin = begin,
    .connect = connect_all,
    .begun = begun,
    .advance = advance,
    .sleep = sleep_some,
    .blame = blame,
    .raise = raise_local,
    .destroy = destroy,
    .about = about,
};
