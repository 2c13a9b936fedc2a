/* SPDX-License-Identifier: Apache-2.0 */
/* dist_shm.c - collectives of the ranks of one node, through shared memory
 *
 * A buffer is cut into one slice per rank (dist_slice), a slice into rounds of at most a
 * chunk.  In each round a rank runs three stages, and counts each when complete:
 *
 *   put   copy its numbers of all other ranks' slices into its window
 *   red   add up all ranks' numbers of its own slice, in the order of ranks; the sum
 *         goes to its buffer, and to its window for the others
 *   got   copy the others' sums from their windows into its buffer
 *
 * So each number crosses main memory about once each way, and the rest stays in
 * caches: windows are small and reused.  A window has `slots` slots: round k may
 * be put when all ranks have reduced round k - slots, and reduced when all ranks got
 * that.  Reduce-scatter has no got, all-gather and broadcast no put.  A small buffer
 * (DIRECT) takes one round, in which every rank puts everything and adds up for itself.
 *
 * Counters only grow, over all collectives: each takes the same number of rounds in
 * all three stages on every rank.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/dist/dist_internal.h"
#include "engine/dist/shm_segment.h"

enum { ROUND_MIN = 16384, DEATH_CHECK_NS = 2000000, STREAM = 65536,
       SPIN_NS = 300000, LOOKS = 64 };

struct shm {
    struct shm_segment_hold hold;
    struct dist            *d;
    const char            **sources; /* [world] */
    bool                    room;    /* one processor per rank: poll before sleeping */
    /* the current call */
    uint64_t         seq;           /* 0 = none */
    uint64_t         base, rounds;  /* counters run from base to base + rounds */
    bool             direct, stream; /* small: one round; large: past the caches */
    size_t           size, per;     /* bytes per element; elements per round's chunk */
    uint64_t         put, red, got;
    bool             checked;       /* all ranks are in the same call */
};

/* A direct call fits in a chunk, whatever the number of ranks. */
static bool is_direct(const struct shm_segment *p, size_t bytes)
{
    return bytes <= p->chunk && bytes <= 16384;
}

/* Elements of a slice that round k works on: [*from, *to) of the buffer. */
static void part_of(const struct shm *s, const struct dist_call *c, int rank, uint64_t k, size_t *from, size_t *to)
{
    size_t lo = 0, hi = c->n;
    if (c->kind != DIST_BROADCAST)
        dist_slice(&lo, &hi, c->n, c->type, rank, s->hold.world);
    size_t at = lo + s->per * k;
    *from = at < hi ? at : hi;
    *to = hi - *from < s->per ? hi : *from + s->per;
}

/* Where `owner` puts the numbers for rank `to`, and (to == world) its results. */
static char *slot(const struct shm *s, int owner, int to, uint64_t k)
{
    struct shm_segment *p = s->hold.page;
    size_t chunks = (size_t)p->world + 1;
    return shm_segment_window(p, owner) +
           ((size_t)((s->base + k) % p->slots) * chunks + (size_t)to) * p->chunk;
}

/* Elements per round: a quarter of a slice at most, so that the stages of several rounds overlap,
 * but not so few that overhead dominates. */
static size_t round_for(size_t slice, size_t chunk, size_t size)
{
    size_t unit = DIST_UNIT / size, least = ROUND_MIN / size;
    size_t per = (slice / 4 + unit - 1) / unit * unit;
    per = per < least ? least : per;
    return per < chunk ? per : chunk;
}

static void begin_call(struct shm *s, const struct dist_call *c)
{
    struct shm_segment *p = s->hold.page;
    struct shm_slot *me = &p->slot[s->hold.rank];
    s->size = dist_size(c->type);
    s->per = p->chunk / s->size;
    s->base += s->rounds;
    s->put = s->red = s->got = 0;
    s->checked = false;
    s->direct = is_direct(p, c->n * s->size);
    s->rounds = 1;
    if (!s->direct) {
        size_t lo = 0, hi = c->n;
        if (c->kind != DIST_BROADCAST)
            dist_slice(&lo, &hi, c->n, c->type, 0, s->hold.world);
        s->per = round_for(hi - lo, s->per, s->size);
        s->rounds = (hi - lo + s->per - 1) / s->per;
    }
    s->stream = s->per * s->size >= STREAM;
    atomic_store_explicit(&me->what[c->seq % 2], dist_what(c), memory_order_relaxed);
    atomic_store_explicit(&me->count[c->seq % 2], c->n, memory_order_relaxed);
    atomic_store_explicit(&me->seq, c->seq, memory_order_release);
    s->seq = c->seq;
}

/* Whether all others have completed `stage` of the round before `want`. */
static bool all_at(const struct shm *s, size_t stage, uint64_t want)
{
    for (int i = 0; i < s->hold.world; i++) {
        const char *slot = (const char *)&s->hold.page->slot[i];
        const _Atomic uint64_t *at = (const _Atomic uint64_t *)(const void *)(slot + stage);
        if (i != s->hold.rank && atomic_load_explicit(at, memory_order_acquire) < want)
            return false;
    }
    return true;
}

#define ALL_AT(s, stage, want) all_at(s, offsetof(struct shm_slot, stage), want)

static bool slot_is_free(const struct shm *s, size_t stage, uint64_t k)
{
    uint64_t at = s->base + k, slots = s->hold.page->slots;
    return at < slots || all_at(s, stage, at - slots + 1);
}

static void count(struct shm *s, _Atomic uint64_t *stage, uint64_t *mine)
{
    ++*mine;
    atomic_store_explicit(stage, s->base + *mine, memory_order_release);
    s->d->progress++;
    shm_segment_ring(&s->hold);
}

/* A rank whose call of this number is another one, or -1. All have begun theirs; no rank can
 * complete the one after before this rank begins it. */
static int stranger(const struct shm *s)
{
    const struct shm_slot *slot = s->hold.page->slot, *me = &slot[s->hold.rank];
    size_t at = s->seq % 2;
    for (int i = 0; i < s->hold.world; i++)
        if (atomic_load(&slot[i].what[at]) != atomic_load(&me->what[at]) ||
            atomic_load(&slot[i].count[at]) != atomic_load(&me->count[at]))
            return i;
    return -1;
}

/* --- stages ------------------------------------------------------------------------------ */

static void give(const struct shm *s, char *to, const char *from, size_t bytes)
{
    if (s->stream && !s->direct)
        dist_copy_out(to, from, bytes);
    else
        memcpy(to, from, bytes);
}

static void copy_out(struct shm *s, char *to, const struct dist_call *c, size_t from, size_t end)
{
    give(s, to, c->data + from * s->size, (end - from) * s->size);
    s->d->stats.moved += (end - from) * s->size;
}

static void do_put(struct shm *s, const struct dist_call *c)
{
    int me = s->hold.rank;
    size_t from, to;
    for (int i = 0; i < s->hold.world; i++) {
        if (i == me)
            continue;
        part_of(s, c, i, s->put, &from, &to);
        if (to > from)
            copy_out(s, slot(s, me, i, s->put), c, from, to);
    }
}

/* The sum over ranks of elements [from, to) that all put for rank `mine` in this round; to
 * `dst` and `also`. */
static void reduce(struct shm *s, const struct dist_call *c, size_t from, size_t to, int mine, char *dst, char *also)
{
    for (int i = 0; i < s->hold.world; i++)
        s->sources[i] = i == s->hold.rank ? c->data + from * s->size : slot(s, i, mine, s->red);
    dist_fold(dst, s->sources, s->hold.world, to - from, c->type, c->op);
    if (also)
        give(s, also, dst, (to - from) * s->size);
    s->d->stats.moved += also ? (to - from) * s->size : 0;
}

static void do_red(struct shm *s, const struct dist_call *c)
{
    int me = s->hold.rank, world = s->hold.world;
    size_t from, to;
    if (c->kind == DIST_BROADCAST && c->root != me)
        return;
    part_of(s, c, me, s->red, &from, &to);
    if (to == from)
        return;
    char *out = slot(s, me, world, s->red);
    if (dist_is_sum(c))
        reduce(s, c, from, to, me, c->data + from * s->size, c->kind == DIST_ALL_REDUCE ? out : NULL);
    else
        copy_out(s, out, c, from, to);
}

static void do_got(struct shm *s, const struct dist_call *c)
{
    int me = s->hold.rank, world = s->hold.world;
    size_t from, to;
    for (int i = 0; i < world && c->kind != DIST_REDUCE_SCATTER; i++) {
        if (i == me || (c->kind == DIST_BROADCAST && i != c->root))
            continue;
        part_of(s, c, i, s->got, &from, &to);
        if (to > from)
            memcpy(c->data + from * s->size, slot(s, i, world, s->got), (to - from) * s->size);
    }
}

static void put_direct(struct shm *s, const struct dist_call *c)
{
    int me = s->hold.rank;
    char *to = slot(s, me, 0, 0);
    size_t from, end;
    switch (c->kind) {
    case DIST_ALL_REDUCE:
    case DIST_REDUCE_SCATTER:
        copy_out(s, to, c, 0, c->n);
        return;
    case DIST_ALL_GATHER:
        dist_slice(&from, &end, c->n, c->type, me, s->hold.world);
        copy_out(s, to, c, from, end);
        return;
    case DIST_BROADCAST:
        if (me == c->root)
            copy_out(s, to, c, 0, c->n);
        return;
    case DIST_BARRIER:
        return;
    }
}

static void take_direct(struct shm *s, const struct dist_call *c)
{
    size_t from = 0, to = c->n;
    switch (c->kind) {
    case DIST_REDUCE_SCATTER:
    case DIST_ALL_REDUCE:
        if (c->n > 0)
            reduce(s, c, 0, c->n, 0, c->data, NULL);
        return;
    case DIST_ALL_GATHER:
        for (int i = 0; i < s->hold.world; i++) {
            dist_slice(&from, &to, c->n, c->type, i, s->hold.world);
            if (i != s->hold.rank && to > from)
                memcpy(c->data + from * s->size, slot(s, i, 0, 0), (to - from) * s->size);
        }
        return;
    case DIST_BROADCAST:
        if (s->hold.rank != c->root && c->n > 0)
            memcpy(c->data, slot(s, c->root, 0, 0), c->n * s->size);
        return;
    case DIST_BARRIER:
        return;
    }
}

/* --- the order of stages ----------------------------------------------------------------- */

static bool may_put(const struct shm *s)
{
    return s->put < s->rounds && slot_is_free(s, offsetof(struct shm_slot, red), s->put);
}

static bool may_red(const struct shm *s, const struct dist_call *c)
{
    return s->red < s->put && slot_is_free(s, offsetof(struct shm_slot, got), s->red) &&
           (!(dist_is_sum(c) || s->direct) || ALL_AT(s, put, s->base + s->red + 1));
}

static bool may_got(const struct shm *s, const struct dist_call *c)
{
    bool alone = s->direct || c->kind == DIST_REDUCE_SCATTER ||
                 (c->kind == DIST_BROADCAST && c->root == s->hold.rank);
    return s->got < s->red && (alone || ALL_AT(s, red, s->base + s->got + 1));
}

static bool may_check(const struct shm *s)
{
    return !s->checked && s->put > 0 && ALL_AT(s, seq, s->seq);
}

/* One pass over the stages: true if any made progress. */
static bool pass(struct shm *s, const struct dist_call *c)
{
    struct shm_slot *me = &s->hold.page->slot[s->hold.rank];
    bool moved = false;
    if (may_put(s)) {
        if (s->direct)
            put_direct(s, c);
        else if (dist_is_sum(c))
            do_put(s, c);
        count(s, &me->put, &s->put);
        moved = true;
    }
    if (s->checked && may_red(s, c)) {
        if (s->direct)
            take_direct(s, c);
        else
            do_red(s, c);
        count(s, &me->red, &s->red);
        moved = true;
    }
    if (s->checked && may_got(s, c)) {
        if (!s->direct)
            do_got(s, c);
        count(s, &me->got, &s->got);
        moved = true;
    }
    return moved;
}

static struct dist_fault told(struct dist *d)
{
    const struct shm *s = d->way;
    return s->hold.page ? shm_segment_fault(s->hold.page) : (struct dist_fault){DIST_FINE, -1, 0};
}

static struct dist_fault lost(struct dist *d)
{
    const struct shm *s = d->way;
    struct dist_fault fault = told(d);
    for (int i = 0; s->hold.page && fault.kind == DIST_FINE && i < s->hold.world; i++)
        if (i != s->hold.rank && shm_segment_state(s->hold.page, i) == SHM_SLOT_DEAD)
            fault = (struct dist_fault){DIST_DIED, dist_name(d, i), 0};
    return fault;
}

static int advance(struct dist *d, const struct dist_call *call)
{
    struct shm *s = d->way;
    struct dist_fault fault = told(d);
    if (fault.kind != DIST_FINE) {
        fault.seq = call->seq;
        d->fault = fault;
        return -1;
    }
    if (s->seq != call->seq)
        begin_call(s, call);
    for (;;) {
        bool moved = pass(s, call);
        if (s->got == s->rounds)
            return 1;
        if (may_check(s)) {
            int other = stranger(s);
            if (other >= 0) {
                d->fault = (struct dist_fault){DIST_MISMATCH, dist_name(d, other), call->seq};
                return -1;
            }
            s->checked = moved = true;
        }
        if (!moved)
            return 0;
    }
}

/* --- waiting ----------------------------------------------------------------------------- */

static bool is_idle(void *arg)
{
    const struct shm *s = arg;
    const struct dist_call *c = dist_in_hand(s->d);
    return shm_segment_fault(s->hold.page).kind == DIST_FINE && c && s->seq == c->seq &&
           !may_put(s) && !may_check(s) && !(s->checked && (may_red(s, c) || may_got(s, c)));
}

/* A rank that is gone without completing its part of the current call; -1. */
static int find_gone(const struct shm *s, enum dist_fault_kind *how)
{
    for (int i = 0; i < s->hold.world; i++) {
        const struct shm_slot *slot = &s->hold.page->slot[i];
        if (i == s->hold.rank || atomic_load(&slot->got) >= s->base + s->rounds)
            continue;
        enum shm_slot_state state = shm_segment_state(s->hold.page, i);
        if (state == SHM_SLOT_TAKEN || state == SHM_SLOT_EMPTY)
            continue;
        *how = state == SHM_SLOT_DEAD ? DIST_DIED : DIST_LEFT;
        return i;
    }
    return -1;
}

/* Polls for a while before sleeping. Ranks that sleep at once wake each other in turn; the
 * scheduler then treats them as one chain and puts them on one processor, while runnable ranks are
 * spread. True: there is work. */
static bool spin(struct shm *s)
{
    uint64_t until = s->room ? clock_ns() + SPIN_NS : 0;
    while (clock_ns() < until) {
        for (int i = 0; i < LOOKS; i++) {
            if (!is_idle(s))
                return true;
#if defined(__x86_64__)
            __builtin_ia32_pause();
#endif
        }
        sched_yield();
    }
    return false;
}

static void sleep_some(struct dist *d)
{
    struct shm *s = d->way;
    enum dist_fault_kind how;
    if (spin(s))
        return;
    shm_segment_sleep(&s->hold, is_idle, s, DEATH_CHECK_NS);
    if (!is_idle(s))
        return;
    int gone = find_gone(s, &how);
    if (gone >= 0 && is_idle(s))
        shm_segment_raise(s->hold.page, (struct dist_fault){how, dist_name(d, gone), s->seq});
}

/* A rank that has not begun the call, else the one with the least progress: a rank that only waits
 * for others has done all that it can. */
static void blame(struct dist *d, const struct dist_call *call, struct dist_fault *fault)
{
    const struct shm *s = d->way;
    struct shm_segment *p = s->hold.page;
    uint64_t least = UINT64_MAX;
    int who = p ? -1 : 0;
    for (int i = 0; p && i < s->hold.world; i++) {
        const struct shm_slot *slot = &p->slot[i];
        uint64_t far = atomic_load(&slot->put) + atomic_load(&slot->red) + atomic_load(&slot->got);
        if (!call && atomic_load(&slot->state) != SHM_SLOT_EMPTY)
            continue;
        if (i == s->hold.rank || (who >= 0 && far >= least))
            continue;
        who = i;
        least = far;
    }
    int behind = p && who >= 0 ? atomic_load(&p->slot[who].waits_for) : 0;
    fault->rank = behind > 0 ? behind - 1 : who >= 0 ? dist_name(d, who) : -1;
}

static void suspect(struct dist *d, int name)
{
    struct shm *s = d->way;
    if (s->hold.page)
        atomic_store(&s->hold.page->slot[s->hold.rank].waits_for, name + 1);
}

/* --- create, destroy --------------------------------------------------------------------- */

static int begin(struct dist *d, struct err *err)
{
    struct shm *s = calloc(1, sizeof(*s));
    cpu_set_t cpus;
    if (!s || !(s->sources = calloc((size_t)d->c.world, sizeof(*s->sources)))) {
        free(s);
        return err_set(err, ERR_MEMORY, "no memory for collectives");
    }
    if (shm_segment_begin(&s->hold, d->c.rank, d->c.world, d->c.name, err) < 0) {
        free(s->sources);
        free(s);
        return -1;
    }
    s->d = d;
    s->room = sched_getaffinity(0, sizeof(cpus), &cpus) == 0 && CPU_COUNT(&cpus) >= d->c.world;
    d->way = s;
    return 0;
}

static int connect_all(struct dist *d, struct err *err)
{
    struct shm *s = d->way;
    int rc = shm_segment_poll(&s->hold, err);
    if (rc == 0 && told(d).kind != DIST_FINE) {
        d->fault = told(d);
        return -1;
    }
    return rc;
}

static struct dist_fault raise_all(struct dist *d, struct dist_fault fault)
{
    struct shm *s = d->way;
    return s->hold.page ? shm_segment_raise(s->hold.page, fault) : fault;
}

static void destroy(struct dist *d)
{
    struct shm *s = d->way;
    shm_segment_leave(&s->hold);
    free(s->sources);
    free(s);
}

const struct dist_ops dist_shm = {
    .name = "shm",
    .begin = begin,
    .connect = connect_all,
    .advance = advance,
    .sleep = sleep_some,
    .blame = blame,
    .raise = raise_all,
    .told = told,
    .lost = lost,
    .suspect = suspect,
    .destroy = destroy,
};
