/* SPDX-License-Identifier: Apache-2.0 */
/* dist_nodes.c - collectives over several nodes: shared memory within a node, TCP between nodes
 *
 * The first rank of a node communicates for it.  A call becomes a short script of calls to two
 * smaller groups, each a struct dist of its own: the ranks of this node (dist_shm.c) and
 * the first ranks of all nodes (dist_mesh.c):
 *
 *   all-reduce       reduce here; reduce between nodes; broadcast here   in pieces that overlap
 *   reduce-scatter   reduce here; scatter between nodes; broadcast the node's part here
 *   all-gather       gather this node's slices; gather between nodes; broadcast the rest
 *   broadcast        broadcast on root's node; between nodes; on the other nodes
 *
 * So every number crosses the network once per node, however many ranks a node has.
 * Other ranks skip the steps between nodes.
 *
 * A rank that waits for a rank elsewhere reports that rank (suspect), so that all nodes
 * name the same culprit: a rank that is stuck blocks its node's first rank, which
 * blocks all others.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/dist/dist_internal.h"

enum { PIECE = 1 << 20, PIECES = 16, SUSPECT_MS = 100 };

struct step {
    struct dist_call call;
    bool             wire, begun;
    int              after; /* the step that must be complete before; -1 = none */
    uint64_t         seq;   /* call number in its group, once begun */
};

struct nodes {
    struct dist *local, *wire; /* wire: NULL unless this rank is its node's first */
    int          node, lead, locals;
    int         *names;        /* of the ranks here */
    const int   *first;
    struct step *steps;
    int          n, room;
    uint64_t     seq;          /* the call that the steps belong to */
    int          suspect;      /* the suspect that the others know; -1 = none */
    uint64_t     seen;
    int64_t      since_ms;     /* since when there is no progress */
};

/* --- scripts ----------------------------------------------------------------------------- */

/* Fills the next step and returns its index. */
static int add(struct nodes *s, bool wire, const struct dist_call *c, enum dist_kind kind,
               size_t from, size_t to, int root, int after)
{
    struct dist_call call = *c;
    call.kind = kind;
    call.data = c->data + from * dist_size(c->type);
    call.n = to - from;
    call.root = root;
    s->steps[s->n] = (struct step){.call = call, .wire = wire, .after = after};
    return s->n++;
}

static void plan_all_reduce(struct nodes *s, const struct dist_call *c)
{
    size_t size = dist_size(c->type), unit = DIST_UNIT / size, piece = c->n / PIECES;
    int wire = -1, here;
    piece = (piece < PIECE / size ? PIECE / size : piece) / unit * unit + unit;
    size_t from = 0, last = 0;
    do {
        size_t to = c->n - from < piece ? c->n : from + piece;
        here = add(s, false, c, DIST_ALL_REDUCE, from, to, 0, -1);
        if (wire >= 0)
            add(s, false, c, DIST_BROADCAST, last, from, 0, wire);
        wire = add(s, true, c, DIST_ALL_REDUCE, from, to, 0, here);
        last = from;
        from = to;
    } while (from < c->n);
    add(s, false, c, DIST_BROADCAST, last, c->n, 0, wire);
}

static void plan_reduce_scatter(struct nodes *s, const struct dist_call *c, size_t from, size_t to)
{
    int here = add(s, false, c, DIST_ALL_REDUCE, 0, c->n, 0, -1);
    int wire = add(s, true, c, DIST_REDUCE_SCATTER, 0, c->n, 0, here);
    add(s, false, c, DIST_BROADCAST, from, to, 0, wire);
}

static void plan_all_gather(struct nodes *s, const struct dist *d, const struct dist_call *c, size_t from, size_t to)
{
    int here = -1;
    for (int i = 0; i < s->locals; i++) {
        size_t lo, hi;
        dist_slice(&lo, &hi, c->n, c->type, s->lead + i, d->c.world);
        here = add(s, false, c, DIST_BROADCAST, lo, hi, i, -1);
    }
    int wire = add(s, true, c, DIST_ALL_GATHER, 0, c->n, 0, here);
    add(s, false, c, DIST_BROADCAST, 0, from, 0, wire);
    add(s, false, c, DIST_BROADCAST, to, c->n, 0, wire);
}

static void plan_broadcast(struct nodes *s, const struct dist_call *c)
{
    int node = 0, here = -1;
    while (s->first[node + 1] <= c->root)
        node++;
    if (node == s->node)
        here = add(s, false, c, DIST_BROADCAST, 0, c->n, c->root - s->lead, -1);
    int wire = add(s, true, c, DIST_BROADCAST, 0, c->n, node, here);
    if (node != s->node)
        add(s, false, c, DIST_BROADCAST, 0, c->n, 0, wire);
}

static void plan(struct nodes *s, const struct dist *d, const struct dist_call *c)
{
    size_t from, to, any;
    dist_slice(&from, &any, c->n, c->type, s->lead, d->c.world);
    dist_slice(&any, &to, c->n, c->type, s->lead + s->locals - 1, d->c.world);
    s->n = 0;
    s->seq = c->seq;
    switch (c->kind) {
    case DIST_ALL_REDUCE:
        plan_all_reduce(s, c);
        return;
    case DIST_REDUCE_SCATTER:
        plan_reduce_scatter(s, c, from, to);
        return;
    case DIST_ALL_GATHER:
        plan_all_gather(s, d, c, from, to);
        return;
    case DIST_BROADCAST:
        plan_broadcast(s, c);
        return;
    case DIST_BARRIER:
        add(s, true, c, DIST_BARRIER, 0, 0, 0, add(s, false, c, DIST_BARRIER, 0, 0, 0, -1));
        add(s, false, c, DIST_BARRIER, 0, 0, 0, 1);
        return;
    }
}

/* --- running them ------------------------------------------------------------------------ */

static struct dist *ranks_of(const struct nodes *s, const struct step *t)
{
    return t->wire ? s->wire : s->local;
}

static bool is_done(const struct nodes *s, int i)
{
    if (i < 0)
        return true;
    const struct step *t = &s->steps[i];
    const struct dist *w = ranks_of(s, t);
    return !w || (t->begun && w->head >= t->seq);
}

/* Within each group in the order of the script. */
static void begin_steps(struct nodes *s)
{
    bool stuck[2] = {false, s->wire == NULL};
    for (int i = 0; i < s->n; i++) {
        struct step *t = &s->steps[i];
        if (t->begun || stuck[t->wire])
            continue;
        struct dist *w = ranks_of(s, t);
        if (!is_done(s, t->after) || w->tail - w->head >= DIST_QUEUE) {
            stuck[t->wire] = true;
            continue;
        }
        t->call.seq = t->seq = ++w->tail;
        w->queue[(t->seq - 1) % DIST_QUEUE] = t->call;
        t->begun = true;
    }
}

/* 1: blocked for now. -1: failed, f has the fault. */
static int push(struct dist *w, struct dist_fault *f)
{
    *f = w->ops->told(w);
    if (f->kind != DIST_FINE)
        return -1;
    if (dist_poll(w, NULL) >= 0)
        return 1;
    *f = w->fault;
    return -1;
}

static int advance(struct dist *d, const struct dist_call *c)
{
    struct nodes *s = d->way;
    uint64_t before;
    if (s->seq != c->seq)
        plan(s, d, c);
    do {
        before = d->progress;
        begin_steps(s);
        if (push(s->local, &d->fault) < 0 || (s->wire && push(s->wire, &d->fault) < 0)) {
            d->fault.seq = c->seq;
            return -1;
        }
        d->progress = s->local->progress + (s->wire ? s->wire->progress : 0);
        bool all = true;
        for (int i = 0; i < s->n; i++)
            all = all && is_done(s, i);
        if (all) {
            d->stats.wire = s->wire ? s->wire->stats.moved : 0;
            d->stats.moved = d->stats.wire + s->local->stats.moved;
            return 1;
        }
    } while (d->progress != before);
    return 0;
}

/* --- waiting ----------------------------------------------------------------------------- */

/* The group in which this rank waits: between nodes only if all steps here are complete. */
static struct dist *where(const struct nodes *s)
{
    return dist_in_hand(s->local) || !s->wire ? s->local : s->wire;
}

static void blame(struct dist *d, const struct dist_call *call, struct dist_fault *fault)
{
    const struct nodes *s = d->way;
    struct dist *w = where(s);
    if (call) {
        w->ops->blame(w, dist_in_hand(w), fault);
        return;
    }
    if (!s->local->connected)
        s->local->ops->blame(s->local, NULL, fault);
    else if (s->wire)
        s->wire->ops->blame(s->wire, NULL, fault);
}

static void tell_blamed_gpu(struct nodes *s, int name)
{
    if (!s->wire || name == s->suspect)
        return;
    s->suspect = name;
    if (name < 0 || where(s) == s->wire)
        s->local->ops->suspect(s->local, name);
    if (name < 0 || where(s) == s->local)
        s->wire->ops->suspect(s->wire, name);
}

static void sleep_some(struct dist *d)
{
    struct nodes *s = d->way;
    int64_t now = clock_ms();
    if (d->progress != s->seen) {
        s->seen = d->progress;
        s->since_ms = now;
        tell_blamed_gpu(s, -1);
    } else if (s->wire && now - s->since_ms >= SUSPECT_MS) {
        struct dist_fault f = {DIST_LATE, -1, 0};
        blame(d, dist_in_hand(d), &f);
        tell_blamed_gpu(s, f.rank);
    }
    if (s->wire && dist_in_hand(s->wire) && dist_in_hand(s->local))
        nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
    else
        where(s)->ops->sleep(where(s));
}

static struct dist_fault lost(struct dist *d)
{
    return dist_lost(((struct nodes *)d->way)->local);
}

static struct dist_fault raise_all(struct dist *d, struct dist_fault f)
{
    struct nodes *s = d->way;
    struct dist_fault first = s->local->ops->raise(s->local, f);
    if (s->wire)
        s->wire->ops->raise(s->wire, first.kind != DIST_FINE ? first : f);
    first.seq = f.seq;
    return first;
}

/* --- create, destroy --------------------------------------------------------------------- */

static struct dist *make_rank(const struct dist *d, const struct dist_ops *ops, const char *suffix,
                              int rank, int world, const int *names, struct err *err)
{
    struct dist *w = calloc(1, sizeof(*w));
    if (!w) {
        err_set(err, ERR_MEMORY, "no memory for collectives");
        return NULL;
    }
    w->c = d->c;
    w->c.rank = rank;
    w->c.world = world;
    w->c.flight = NULL;
    w->c.name = w->name;
    snprintf(w->name, sizeof(w->name), "%.*s%s", (int)(sizeof(w->name) - 16), d->c.name, suffix);
    w->ops = ops;
    w->names = names;
    if (ops->begin(w, err) == 0)
        return w;
    free(w);
    return NULL;
}

static void destroy(struct dist *d)
{
    struct nodes *s = d->way;
    dist_destroy(s->local);
    dist_destroy(s->wire);
    free(s->names);
    free(s->steps);
    free(s);
}

static int make_all_ranks(struct dist *d, struct nodes *s, struct err *err)
{
    char suffix[16];
    int me = d->c.rank - s->lead;
    snprintf(suffix, sizeof(suffix), ".node%d", s->node);
    s->local = make_rank(d, s->locals > 1 ? &dist_shm : &dist_none, suffix, me, s->locals, s->names, err);
    if (!s->local)
        return -1;
    if (me != 0)
        return 0;
    s->wire = make_rank(d, &dist_mesh, ".nodes", s->node, d->c.bootstrap->nodes, s->first, err);
    if (!s->wire)
        return -1;
    s->wire->first = s->first;
    s->wire->parts = d->c.world;
    return 0;
}

static int begin(struct dist *d, struct err *err)
{
    struct nodes *s = calloc(1, sizeof(*s));
    if (!s)
        return err_set(err, ERR_MEMORY, "no memory for collectives");
    s->suspect = -1;
    s->first = d->c.bootstrap->first;
    while (s->first[s->node + 1] <= d->c.rank)
        s->node++;
    s->lead = s->first[s->node];
    s->locals = s->first[s->node + 1] - s->lead;
    s->room = 3 * (PIECES + 1) + s->locals + 3;
    s->names = calloc((size_t)s->locals, sizeof(*s->names));
    s->steps = calloc((size_t)s->room, sizeof(*s->steps));
    d->way = s;
    for (int i = 0; s->names && i < s->locals; i++)
        s->names[i] = s->lead + i;
    int rc = s->names && s->steps ? make_all_ranks(d, s, err)
                                  : err_set(err, ERR_MEMORY, "no memory for collectives");
    if (rc < 0)
        destroy(d);
    return rc;
}

static int connect_nodes(struct dist *w, struct err *err)
{
    int rc = w->connected ? 1 : w->ops->connect(w, err);
    w->connected = rc == 1;
    return rc;
}

static int connect_all(struct dist *d, struct err *err)
{
    struct nodes *s = d->way;
    int here = connect_nodes(s->local, err);
    int wire = s->wire && here >= 0 ? connect_nodes(s->wire, err) : here;
    if (here < 0 || wire < 0) {
        d->fault = here < 0 ? s->local->fault : s->wire->fault;
        return -1;
    }
    return here && wire;
}

const struct dist_ops dist_nodes = {
    .name = "nodes",
    .begin = begin,
    .connect = connect_all,
    .advance = advance,
    .sleep = sleep_some,
    .blame = blame,
    .raise = raise_all,
    .lost = lost,
    .destroy = destroy,
};
