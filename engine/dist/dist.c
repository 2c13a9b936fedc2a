/* SPDX-License-Identifier: Apache-2.0 */
/* dist.c - queue, deadlines and error messages of collectives; see dist.h */
#include "engine/dist/dist.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/contract/flight.h"
#include "engine/dist/dist_internal.h"

_Static_assert((int)DIST_ALL_REDUCE == COLL_ALL_REDUCE && (int)DIST_BARRIER == COLL_BARRIER,
               "the flight page names collectives");

/* --- messages --------------------------------------------------------------------------- */

/* "all-reduce 17 (64.0 MiB)" */
static void name_call(char *text, size_t size, const struct dist *d, uint64_t seq)
{
    const struct dist_call *c = &d->queue[(seq - 1) % DIST_QUEUE];
    if (seq == 0 || seq != c->seq) {
        snprintf(text, size, seq ? "collective %" PRIu64 : "the beginning", seq);
        return;
    }
    double mib = (double)(c->n * dist_size(c->type)) / (1 << 20);
    int n = snprintf(text, size, "%s %" PRIu64, flight_coll_name(c->kind), seq);
    if (c->n > 0 && n > 0 && (size_t)n < size)
        snprintf(text + n, size - (size_t)n, mib >= 0.1 ? " (%.1f MiB)" : " (%.0f bytes)",
                 mib >= 0.1 ? mib : mib * (1 << 20));
}

/* A call after a failure repeats the same sentence. */
static int say(const struct dist *d, struct err *err)
{
    const struct dist_fault *f = &d->fault;
    char call[80];
    name_call(call, sizeof(call), d, f->seq);
    if (f->rank < 0 && (f->kind == DIST_ABSENT || f->kind == DIST_LATE))
        return err_set(err, ERR_SYSTEM, "the GPUs of this job did not %s within %.3g s",
                       f->kind == DIST_ABSENT ? "connect" : "finish a collective",
                       (double)(f->kind == DIST_ABSENT ? d->c.init_ms : d->timeout_ms) / 1000);
    switch (f->kind) {
    case DIST_ABSENT:
        return err_set(err, ERR_SYSTEM, "rank %d of %d did not connect within %.3g s; see its log",
                       f->rank, d->c.world, (double)d->c.init_ms / 1000);
    case DIST_LATE:
        return err_set(err, ERR_SYSTEM, "rank %d is stuck or far behind: nothing arrived from it in %s for %.3g s",
                       f->rank, call, (double)d->timeout_ms / 1000);
    case DIST_DIED:
        return err_set(err, ERR_SYSTEM, "rank %d died; this rank waited for it in %s", f->rank, call);
    case DIST_LEFT:
        return err_set(err, ERR_SYSTEM, "rank %d has ended; this rank waited for it in %s", f->rank, call);
    case DIST_ABORTED:
        return err_set(err, ERR_SYSTEM, "rank %d aborted the job; this rank was in %s", f->rank, call);
    case DIST_MISMATCH:
        return err_set(err, ERR_SYSTEM,
                       "desync: rank %d called a different collective from the others; this rank was "
                       "in %s",
                       f->rank, call);
    case DIST_DEVICE:
    case DIST_SYSTEM:
    case DIST_FINE:
        break;
    }
    if (d->why[0])
        return err_set(err, ERR_SYSTEM, "%s (%s)", d->why, call);
    return err_set(err, ERR_SYSTEM, "the ranks of this job cannot communicate (%s)", call);
}

/* Fails all ranks. The first fault reported by any rank counts. */
static int fail(struct dist *d, struct dist_fault fault, struct err *err)
{
    if (d->fault.kind == DIST_FINE) {
        struct dist_fault told = d->ops->raise(d, fault);
        d->fault = told.kind != DIST_FINE ? told : fault;
    }
    return say(d, err);
}

/* --- connecting ------------------------------------------------------------------------- */

static const struct dist_ops *choose_way(const struct dist_config *c)
{
    if (c->world == 1)
        return &dist_none;
    if (c->device)
        return c->device->shared ? &dist_host : &dist_nccl;
    if (!c->bootstrap || c->bootstrap->nodes == 1)
        return &dist_shm;
    return c->bootstrap->nodes == c->world ? &dist_mesh : &dist_nodes;
}

int dist_begin(struct dist **out, const struct dist_config *config, struct err *err)
{
    const struct dist_config *c = config;
    if (c->world < 1 || c->rank < 0 || c->rank >= c->world)
        return err_set(err, ERR_USAGE, "rank %d of %d does not exist", c->rank, c->world);
    if (c->world > 1 && (!c->name || !*c->name || strlen(c->name) >= DIST_NAME))
        return err_set(err, ERR_USAGE, "%d ranks need a common name to connect", c->world);
    struct dist *d = calloc(1, sizeof(*d));
    if (!d)
        return err_set(err, ERR_MEMORY, "no memory for collectives");
    d->c = *c;
    snprintf(d->name, sizeof(d->name), "%s", c->name ? c->name : "");
    d->c.name = d->name;
    d->ops = choose_way(c);
    d->timeout_ms = c->wait_ms;
    d->began_ms = d->moved_ms = clock_ms();
    if (d->ops->begin(d, err) < 0) {
        free(d);
        return -1;
    }
    *out = d;
    return 0;
}

int dist_poll_init(struct dist *d, struct err *err)
{
    if (d->fault.kind != DIST_FINE)
        return say(d, err);
    if (d->connected)
        return 1;
    int rc = d->ops->connect(d, err);
    if (rc < 0) {
        if (d->fault.kind == DIST_FINE)
            d->fault = (struct dist_fault){DIST_SYSTEM, -1, 0};
        return say(d, err); /* unless connect() has written the message */
    }
    if (rc == 0 && atomic_load(&d->aborted))
        return fail(d, (struct dist_fault){DIST_ABORTED, d->c.rank, 0}, err);
    if (rc == 0 && clock_ms() - d->began_ms >= d->c.init_ms) {
        struct dist_fault f = {DIST_ABSENT, -1, 0};
        d->ops->blame(d, NULL, &f);
        return fail(d, f, err);
    }
    d->connected = rc == 1;
    d->moved_ms = clock_ms();
    return rc;
}

int dist_connect(struct dist **out, const struct dist_config *config, struct dist_fault *fault, struct err *err)
{
    struct dist *d;
    int rc;
    *out = NULL;
    if (fault)
        *fault = (struct dist_fault){DIST_SYSTEM, -1, 0};
    if (dist_begin(&d, config, err) < 0)
        return -1;
    while ((rc = dist_poll_init(d, err)) == 0)
        clock_wait(-1, 1);
    if (rc < 0) {
        if (fault)
            *fault = d->fault;
        dist_destroy(d);
        return -1;
    }
    *out = d;
    return 0;
}

void dist_destroy(struct dist *d)
{
    if (!d)
        return;
    d->ops->destroy(d);
    free(d);
}

const char *dist_about(const struct dist *d, const char **doubt)
{
    *doubt = NULL;
    return d->ops->about ? d->ops->about(d, doubt) : NULL;
}

int dist_rank(const struct dist *d)
{
    return d->c.rank;
}

int dist_world(const struct dist *d)
{
    return d->c.world;
}

void dist_slice(size_t *from, size_t *to, size_t n, enum dist_type type, int part, int parts)
{
    size_t unit = type == DIST_U8 ? DIST_UNIT : DIST_NUMBERS, whole = (size_t)parts;
    size_t per = ((n + unit - 1) / unit + whole - 1) / whole * unit;
    *from = per * (size_t)part < n ? per * (size_t)part : n;
    *to = n - *from < per ? n : *from + per;
}

void dist_part(const struct dist *d, const struct dist_call *c, int i, size_t *from, size_t *to)
{
    size_t any;
    if (!d->first) {
        dist_slice(from, to, c->n, c->type, i, d->c.world);
        return;
    }
    dist_slice(from, &any, c->n, c->type, d->first[i], d->parts);
    dist_slice(&any, to, c->n, c->type, d->first[i + 1] - 1, d->parts);
}

uint64_t dist_pack(struct dist_fault f)
{
    return (uint64_t)f.kind << 56 | (uint64_t)(uint32_t)(f.rank + 1) << 32 | (f.seq & UINT32_MAX);
}

struct dist_fault dist_unpack(uint64_t w)
{
    return (struct dist_fault){(enum dist_fault_kind)(w >> 56), (int)(w >> 32 & 0xFFFFFF) - 1,
                               w & UINT32_MAX};
}

/* --- calls ------------------------------------------------------------------------------ */

static int begin_call(struct dist *d, struct dist_call call, struct err *err)
{
    if (d->fault.kind != DIST_FINE)
        return say(d, err);
    if (!d->connected)
        return err_set(err, ERR_BUG, "a collective was called before the ranks were connected");
    /* For the oldest only: the others go on while this rank computes. */
    while (d->tail - d->head >= DIST_QUEUE)
        if (dist_wait_call(d, d->head + 1, d->c.wait_ms, err) < 0)
            return -1;
    if (d->tail == d->head)
        d->moved_ms = clock_ms();
    call.seq = ++d->tail;
    d->queue[(call.seq - 1) % DIST_QUEUE] = call;
    if (d->ops->begun)
        d->ops->begun(d, &call);
    d->stats.calls++;
    d->stats.bytes += call.n * dist_size(call.type);
    flight_coll_begin(d->c.flight, call.seq, (uint64_t)call.kind, call.n * dist_size(call.type));
    return dist_poll(d, err) < 0 ? -1 : 0;
}

int dist_all_reduce(struct dist *d, void *data, size_t n, enum dist_type type, enum dist_op op, struct err *err)
{
    return begin_call(d, (struct dist_call){DIST_ALL_REDUCE, type, op, 0, data, n, 0}, err);
}

int dist_reduce_scatter(struct dist *d, void *data, size_t n, enum dist_type type, enum dist_op op, struct err *err)
{
    return begin_call(d, (struct dist_call){DIST_REDUCE_SCATTER, type, op, 0, data, n, 0}, err);
}

int dist_all_gather(struct dist *d, void *data, size_t n, enum dist_type type, struct err *err)
{
    return begin_call(d, (struct dist_call){DIST_ALL_GATHER, type, DIST_SUM, 0, data, n, 0}, err);
}

int dist_broadcast(struct dist *d, void *data, size_t n, enum dist_type type, int root, struct err *err)
{
    if (root < 0 || root >= d->c.world)
        return err_set(err, ERR_BUG, "broadcast: rank %d does not exist; there are %d ranks", root, d->c.world);
    return begin_call(d, (struct dist_call){DIST_BROADCAST, type, DIST_SUM, root, data, n, 0}, err);
}

int dist_barrier(struct dist *d, struct err *err)
{
    return begin_call(d, (struct dist_call){DIST_BARRIER, DIST_U8, DIST_SUM, 0, NULL, 0, 0}, err);
}

int dist_poll(struct dist *d, struct err *err)
{
    if (d->fault.kind != DIST_FINE)
        return say(d, err);
    if (atomic_load(&d->aborted))
        return fail(d, (struct dist_fault){DIST_ABORTED, d->c.rank, d->head + 1}, err);
    for (const struct dist_call *call; (call = dist_in_hand(d));) {
        int rc = d->ops->advance(d, call);
        if (rc < 0) {
            struct dist_fault f = d->fault;
            d->fault.kind = DIST_FINE;
            return fail(d, f, err);
        }
        if (rc == 0)
            return 0;
        d->head++;
        flight_coll_done(d->c.flight, d->head);
    }
    return 1;
}

uint64_t dist_begun(const struct dist *d)
{
    return d->tail;
}

int dist_wait_for(struct dist *d, int64_t wait_ms, struct err *err)
{
    return dist_wait_call(d, d->tail, wait_ms, err);
}

int dist_wait_call(struct dist *d, uint64_t calls, int64_t wait_ms, struct err *err)
{
    uint64_t start = clock_ns(), seen = d->progress;
    int rc;
    d->timeout_ms = wait_ms;
    d->moved_ms = clock_ms();
    while ((rc = dist_poll(d, err)) == 0 && d->head < calls) {
        if (d->progress != seen) {
            seen = d->progress;
            d->moved_ms = clock_ms();
            continue;
        }
        d->ops->sleep(d);
        int64_t waited = clock_ms() - d->moved_ms;
        if (waited < wait_ms)
            continue;
        if ((rc = dist_poll(d, err)) != 0 || d->progress != seen)
            continue; /* this process itself was suspended for this long */
        struct dist_fault f = {DIST_LATE, -1, d->head + 1};
        d->ops->blame(d, &d->queue[d->head % DIST_QUEUE], &f);
        rc = fail(d, f, err);
        break;
    }
    const uint64_t waited = clock_ns() - start;
    d->stats.wait_ns += waited;
    flight_waited(d->c.flight, waited);
    return rc < 0 ? -1 : 0;
}

int dist_wait(struct dist *d, struct err *err)
{
    return dist_wait_for(d, d->c.wait_ms, err);
}

void dist_abort(struct dist *d)
{
    atomic_store(&d->aborted, true);
    if (d->connected)
        d->ops->raise(d, (struct dist_fault){DIST_ABORTED, d->c.rank, 0});
}

struct dist_fault dist_lost(struct dist *d)
{
    return d->ops->lost ? d->ops->lost(d) : (struct dist_fault){DIST_FINE, -1, 0};
}

const struct dist_fault *dist_fault(const struct dist *d)
{
    return &d->fault;
}

const struct dist_stats *dist_stats(const struct dist *d)
{
    return &d->stats;
}
