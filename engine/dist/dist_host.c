/* SPDX-License-Identifier: Apache-2.0 */
/* dist_host.c - collectives of ranks that share a GPU: copy to host memory, reduce there, copy back
 *
 * NCCL refuses two ranks on one GPU.  So each call is a download, the same call of the CPU's
 * collectives (dist_shm.c), and an upload: correct, with the same bits on all ranks, but slow.  A
 * download waits for the kernels before it, so it does not overlap with the backward pass.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/base/err.h"
#include "engine/dist/dist_internal.h"
#include "kernels/kernels.h"

enum { INNER_MS = 24 * 3600 * 1000, NAP_NS = 50000 }; /* the outer struct dist has the deadline */

struct host {
    struct dist *inner;
    char        *copy;  /* size of the call's buffer */
    size_t       room;
    bool         begun; /* the inner dist works on the current call */
};

static size_t bytes_of(const struct dist_call *c)
{
    return c->n * dist_size(c->type);
}

/* Copies the fault of the inner dist. */
static int pass_on(struct dist *d, const struct err *err)
{
    const struct host *h = d->way;
    d->fault = *dist_fault(h->inner);
    d->fault.seq = d->head < d->tail ? d->head + 1 : 0;
    if (d->fault.kind == DIST_FINE)
        d->fault = (struct dist_fault){DIST_SYSTEM, -1, d->fault.seq};
    snprintf(d->why, sizeof(d->why), "%.200s", err->text);
    return -1;
}

static int fetch(struct dist *d, const struct dist_call *c, struct err *err)
{
    struct host *h = d->way;
    const size_t bytes = bytes_of(c);
    if (bytes > h->room) {
        free(h->copy);
        h->room = (bytes + DIST_UNIT - 1) / DIST_UNIT * DIST_UNIT;
        h->copy = aligned_alloc(DIST_UNIT, h->room);
        if (!h->copy) {
            h->room = 0;
            return err_set(err, ERR_MEMORY, "no memory for a collective of %zu bytes", bytes);
        }
    }
    if (bytes > 0)
        d->c.device->ops->download(h->copy, c->data, bytes);
    return 0;
}

static int ask(struct host *h, const struct dist_call *c, struct err *err)
{
    switch (c->kind) {
    case DIST_ALL_REDUCE:
        return dist_all_reduce(h->inner, h->copy, c->n, c->type, c->op, err);
    case DIST_REDUCE_SCATTER:
        return dist_reduce_scatter(h->inner, h->copy, c->n, c->type, c->op, err);
    case DIST_ALL_GATHER:
        return dist_all_gather(h->inner, h->copy, c->n, c->type, err);
    case DIST_BROADCAST:
        return dist_broadcast(h->inner, h->copy, c->n, c->type, c->root, err);
    case DIST_BARRIER:
        break;
    }
    return dist_barrier(h->inner, err);
}

static int advance(struct dist *d, const struct dist_call *c)
{
    struct host *h = d->way;
    struct err err = {0};
    if (!h->begun && (fetch(d, c, &err) < 0 || ask(h, c, &err) < 0))
        return pass_on(d, &err);
    h->begun = true;
    int rc = dist_poll(h->inner, &err);
    d->progress = h->inner->progress + h->inner->head;
    if (rc < 0)
        return pass_on(d, &err);
    if (rc == 0)
        return 0;
    h->begun = false;
    if (bytes_of(c) > 0)
        d->c.device->ops->upload(c->data, h->copy, bytes_of(c));
    d->stats.moved += bytes_of(c);
    return 1;
}

static void sleep_some(struct dist *d)
{
    struct host *h = d->way;
    if (h->inner->ops->sleep)
        h->inner->ops->sleep(h->inner);
    else
        nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
}

static void blame(struct dist *d, const struct dist_call *call, struct dist_fault *fault)
{
    struct host *h = d->way;
    (void)call;
    h->inner->ops->blame(h->inner, dist_in_hand(h->inner), fault);
}

static struct dist_fault raise_there(struct dist *d, struct dist_fault f)
{
    struct host *h = d->way;
    return h->inner->ops->raise(h->inner, f);
}

static int connect_all(struct dist *d, struct err *err)
{
    struct host *h = d->way;
    struct err why = {0};
    int rc = dist_poll_init(h->inner, &why);
    (void)err;
    return rc < 0 ? pass_on(d, &why) : rc;
}

static void destroy(struct dist *d)
{
    struct host *h = d->way;
    dist_destroy(h->inner);
    free(h->copy);
    free(h);
}

static int begin(struct dist *d, struct err *err)
{
    char name[DIST_NAME];
    struct dist_config c = d->c;
    struct host *h = calloc(1, sizeof(*h));
    if (!h)
        return err_set(err, ERR_MEMORY, "no memory for collectives");
    if ((size_t)snprintf(name, sizeof(name), "%.150s.shared", d->c.name) >= sizeof(name) ||
        (c.bootstrap && c.bootstrap->nodes > 1)) {
        free(h);
        return err_set(err, ERR_USAGE, "ranks that share GPUs must all be on one node");
    }
    c.name = name;
    c.device = NULL;
    c.bootstrap = NULL;
    c.flight = NULL;
    c.wait_ms = c.init_ms = INNER_MS;
    d->way = h;
    if (dist_begin(&h->inner, &c, err) < 0) {
        free(h);
        return -1;
    }
    return 0;
}

const struct dist_ops dist_host = {
    .name = "host",
    .begin = begin,
    .connect = connect_all,
    .advance = advance,
    .sleep = sleep_some,
    .blame = blame,
    .raise = raise_there,
    .destroy = destroy,
};
