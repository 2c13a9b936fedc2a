/* SPDX-License-Identifier: Apache-2.0 */
/* snapshot_share.c - see snapshot_share.h */
#include "engine/checkpoint/snapshot_share.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "engine/checkpoint/snapshot.h"
#include "engine/base/err.h"
#include "engine/dist/dist.h"
#include "engine/optim/state.h"

enum { PIECE = 1 << 20 }; /* numbers per transfer */

/* --- choice of the step -------------------------------------------------------------------- */

/* The minimum and maximum over the ranks that report a value: -1 is a value, INT64_MAX is none. */
static int compare(struct dist *d, int64_t mine, int64_t wait_ms, int64_t *least, int64_t *greatest, struct err *err)
{
    int64_t both[2] = {-mine, mine == INT64_MAX ? -INT64_MAX : mine};
    if (dist_all_reduce(d, both, 2, DIST_I64, DIST_MAX, err) < 0 || dist_wait_for(d, wait_ms, err) < 0)
        return -1;
    *least = -both[0];
    *greatest = both[1];
    return 0;
}

int snapshot_share_step(struct dist *d, const struct snapshot_set *set, uint64_t layout, bool looks,
                        int64_t wait_ms, int64_t *step, struct err *err)
{
    int64_t least = INT64_MAX, greatest, mine = INT64_MAX;
    int first = 0, world = dist_world(d);
    const int n = set ? snapshot_set_ranks(set, &first, &world) : 0;
    const bool whole = set && n == world;
    const bool own = world == dist_world(d) && dist_rank(d) >= first && dist_rank(d) < first + n;
    do {
        if (!whole && !own)
            mine = -1;
        else if (looks && (mine == INT64_MAX || mine > least))
            mine = snapshot_set_step(set, layout, least);
        if (compare(d, mine, wait_ms, &least, &greatest, err) < 0)
            return -1;
    } while (least >= 0 && least < greatest);
    *step = least == INT64_MAX ? -1 : least;
    return 0;
}

/* --- transfer of its numbers --------------------------------------------------------------- */

struct share {
    struct dist               *d;
    const struct snapshot_set *set;
    const struct state        *into;
    int64_t                    step, wait_ms;
    int                        rank, world, first, here; /* the ranks whose files are here */
    int                        stride;  /* spans of a rank, in whole units of a collective */
    size_t                    *lacks;   /* [len] numbers of each part that this rank still lacks */
    int64_t                   *any;     /* [len] does some rank lack any? */
    struct snapshot_span      *span;    /* [world][stride] */
    float                     *piece;   /* [PIECE] */
    uint64_t                   came;
};

static int wait_for(const struct share *s, struct err *err)
{
    return dist_wait_for(s->d, s->wait_ms, err);
}

static bool alloc(struct share *s)
{
    const size_t len = (size_t)s->into->len + 1;
    const size_t per_unit = DIST_UNIT / sizeof(struct snapshot_span);
    s->stride = (int)((len + per_unit - 1) / per_unit * per_unit);
    const size_t spans = (size_t)s->world * (size_t)s->stride * sizeof(struct snapshot_span);
    s->lacks = calloc(len, sizeof(*s->lacks));
    s->any = calloc(len, sizeof(*s->any));
    s->span = aligned_alloc(DIST_UNIT, spans);
    s->piece = aligned_alloc(DIST_UNIT, PIECE * sizeof(float));
    if (s->span)
        memset(s->span, 0, spans);
    return s->lacks && s->any && s->span && s->piece;
}

/* Reads the files of this node; *apart: whether any rank then lacks numbers of any part. */
static int take_local(struct share *s, bool *apart, struct err *err)
{
    const size_t len = (size_t)s->into->len;
    snapshot_set_load(s->set, s->step, s->into, s->lacks);
    for (size_t i = 0; i < len; i++)
        s->any[i] = s->lacks[i] > 0;
    if (dist_all_reduce(s->d, s->any, len, DIST_I64, DIST_MAX, err) < 0 || wait_for(s, err) < 0)
        return -1;
    *apart = false;
    for (size_t i = 0; i < len; i++)
        *apart = *apart || s->any[i];
    return 0;
}

/* Exchanges the ranges that each rank has, of all parts that some rank lacks. */
static int tell_spans(struct share *s, struct err *err)
{
    struct snapshot_span *mine = s->span + (size_t)s->rank * (size_t)s->stride;
    const float *at;
    for (int i = 0; i < s->into->len; i++)
        if (s->any[i])
            mine[i] = snapshot_set_span(s->set, s->step, s->rank, s->into->part[i].name, i, &at);
    const size_t bytes = (size_t)s->world * (size_t)s->stride * sizeof(*s->span);
    if (dist_all_gather(s->d, s->span, bytes, DIST_U8, err) < 0)
        return -1;
    return wait_for(s, err);
}

/* A position in the row of spans of one rank. */
struct place {
    int    part;
    size_t done; /* numbers of that part's span */
};

typedef void (*on_span_fn)(struct share *s, int rank, int part, struct snapshot_span span, float *at);

/* The next numbers of a rank's row that fit into a piece, in order; returns how many. */
static size_t walk(struct share *s, int rank, struct place *p, on_span_fn on_span)
{
    const struct snapshot_span *row = s->span + (size_t)rank * (size_t)s->stride;
    size_t used = 0;
    while (used < PIECE && p->part < s->into->len) {
        const size_t from = row[p->part].from + p->done, left = row[p->part].to - from;
        const size_t n = left < PIECE - used ? left : PIECE - used;
        if (n > 0 && on_span)
            on_span(s, rank, p->part, (struct snapshot_span){from, from + n}, s->piece + used);
        used += n;
        p->done += n;
        if (n == left)
            *p = (struct place){p->part + 1, 0};
    }
    return used;
}

static void pack(struct share *s, int rank, int part, struct snapshot_span span, float *to)
{
    const float *at;
    const struct snapshot_span all = snapshot_set_span(s->set, s->step, rank, s->into->part[part].name, part, &at);
    memcpy(to, at + (span.from - all.from), (span.to - span.from) * sizeof(*to));
}

static void unpack(struct share *s, int rank, int part, struct snapshot_span span, float *from)
{
    (void)rank;
    const size_t n = state_put(&s->into->part[part], span.from, span.to, from);
    s->lacks[part] -= n;
    s->came += n * sizeof(*from);
}

/* Sends one rank's numbers to all; the ranks of its node have them already. */
static int send_row(struct share *s, int root, struct err *err)
{
    const bool known = root >= s->first && root < s->first + s->here;
    struct place here = {0}, there = {0};
    for (;;) {
        const size_t n = walk(s, root, &here, root == s->rank ? pack : NULL);
        if (n == 0)
            return 0;
        if (dist_broadcast(s->d, s->piece, n, DIST_F32, root, err) < 0 || wait_for(s, err) < 0)
            return -1;
        walk(s, root, &there, known ? NULL : unpack);
    }
}

static int check(const struct share *s, struct err *err)
{
    for (int i = 0; i < s->into->len; i++) {
        const struct state_part *p = &s->into->part[i];
        if (s->lacks[i] != 0)
            return err_set(err, ERR_DATA, "the snapshot of step %lld has %zu of %zu numbers of %s",
                           (long long)s->step, p->to - p->from - s->lacks[i], p->to - p->from, p->name);
    }
    return 0;
}

int snapshot_share_load(struct dist *d, const struct snapshot_set *set, int64_t step,
                        const struct state *into, int64_t wait_ms, uint64_t *came, struct err *err)
{
    struct share s = {.d = d, .set = set, .into = into, .step = step, .wait_ms = wait_ms,
                      .rank = dist_rank(d), .world = dist_world(d)};
    bool apart = false;
    int rc = -1;
    s.here = snapshot_set_ranks(set, &s.first, &(int){0});
    if (!alloc(&s)) {
        err_set(err, ERR_MEMORY, "no memory to assemble a snapshot");
        goto out;
    }
    rc = take_local(&s, &apart, err);
    if (rc == 0 && apart)
        rc = tell_spans(&s, err);
    for (int r = 0; rc == 0 && apart && r < s.world; r++)
        rc = send_row(&s, r, err);
    if (rc == 0)
        rc = check(&s, err);
    if (came)
        *came = s.came;
out:
    free(s.lacks);
    free(s.any);
    free(s.span);
    free(s.piece);
    return rc;
}
