/* SPDX-License-Identifier: Apache-2.0 */
/* ranks_fixture.h - ranks as threads that run by turns, on a virtual clock
 *
 * One thread runs at a time; a thread that waits passes control to the one whose wait ends first,
 * and advances the clock to that time.  So hours pass at once, and every run of a test is the same,
 * whatever the load of the machine. The threads communicate (engine/dist/dist_internal.h) over a
 * board in memory, which supports one collective: all-gather.
 */
#ifndef TESTS_RANKS_FIXTURE_H
#define TESTS_RANKS_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "engine/base/err.h"
#include "engine/dist/dist_internal.h"
#include "tests/unit/engine/contract/clock_fixture.h"

enum { RANKS = 8, KEPT = 4, SLEEP_MS = SECOND, BEGIN = 100 * HOUR };

/* Body of a rank; 0, or -1 with the sentence. */
typedef int (*body_fn)(struct dist *d, int rank, struct err *err);

struct post {
    uint64_t seq; /* for which call */
    char     bytes[DIST_UNIT];
};

static struct {
    pthread_mutex_t   turn; /* its holder runs */
    pthread_cond_t    yours[RANKS + 1];
    int               world, whose; /* turn; world: the test's */
    body_fn           body;
    struct dist_fault fault;
    struct post       post[KEPT][RANKS];
} board = {.turn = PTHREAD_MUTEX_INITIALIZER,
         .yours = {[0 ... RANKS] = PTHREAD_COND_INITIALIZER}};

static struct rank {
    struct dist d;
    pthread_t   thread;
    int64_t     wakes, ended; /* ms */
    bool        over;
    int         seen;         /* ranks that have begun the current call */
    int         rc;
    struct err  err;
} ranks[RANKS];

static void give_turn(int me)
{
    int next = board.world;
    for (int k = 1; k <= board.world; k++) {
        const int r = (me + k) % board.world;
        if (!ranks[r].over && (next == board.world || ranks[r].wakes < ranks[next].wakes))
            next = r;
    }
    if (next < board.world && ranks[next].wakes > now)
        now = ranks[next].wakes;
    board.whose = next;
    if (next != me)
        pthread_cond_signal(&board.yours[next]);
}

static void take_turn(int me)
{
    while (board.whose != me)
        pthread_cond_wait(&board.yours[me], &board.turn);
}

/* The rank computes, or sleeps, for this long. */
static void spend(int me, int64_t ms)
{
    ranks[me].wakes = now + ms;
    give_turn(me);
    take_turn(me);
}

static const struct post *post_of(const struct dist_call *c, int rank)
{
    const struct post *p = &board.post[c->seq % KEPT][rank];
    return p->seq == c->seq ? p : NULL;
}

static int gather(struct dist *d, const struct dist_call *c)
{
    const int me = d->c.rank;
    int here = 0;
    if (board.fault.kind != DIST_FINE || c->n != (size_t)board.world * DIST_UNIT) {
        d->fault = board.fault.kind != DIST_FINE ? board.fault
                                                 : (struct dist_fault){DIST_MISMATCH, me, c->seq};
        return -1;
    }
    if (!post_of(c, me)) {
        struct post *p = &board.post[c->seq % KEPT][me];
        p->seq = c->seq;
        memcpy(p->bytes, c->data + DIST_UNIT * me, DIST_UNIT);
    }
    for (int r = 0; r < board.world; r++) {
        const struct post *p = post_of(c, r);
        if (p)
            memcpy(c->data + DIST_UNIT * r, p->bytes, DIST_UNIT);
        here += p != NULL;
        if (!p && ranks[r].over) {
            d->fault = (struct dist_fault){DIST_LEFT, r, c->seq};
            return -1;
        }
    }
    d->progress += here != ranks[me].seen;
    ranks[me].seen = here < board.world ? here : 0;
    return here == board.world;
}

static void sleep_some(struct dist *d)
{
    spend(d->c.rank, SLEEP_MS);
}

static void blame_first(struct dist *d, const struct dist_call *c, struct dist_fault *fault)
{
    (void)d;
    for (fault->rank = 0; post_of(c, fault->rank);)
        fault->rank++;
}

static struct dist_fault tell_all(struct dist *d, struct dist_fault fault)
{
    (void)d;
    if (board.fault.kind == DIST_FINE)
        board.fault = fault;
    return board.fault;
}

static const struct dist_ops ops_of_board = {.name = "board", .advance = gather, .sleep = sleep_some,
                                             .blame = blame_first, .raise = tell_all};

static void *be_rank(void *arg)
{
    struct rank *r = arg;
    const int me = (int)(r - ranks);
    pthread_mutex_lock(&board.turn);
    take_turn(me);
    r->rc = board.body(&r->d, me, &r->err);
    r->ended = now;
    r->over = true;
    give_turn(me);
    pthread_mutex_unlock(&board.turn);
    return NULL;
}

/* Runs all ranks to their ends, which are in ranks[]; they start at BEGIN. */
static void run_ranks(int world, body_fn body)
{
    now = BEGIN;
    board.world = board.whose = world;
    board.body = body;
    board.fault = (struct dist_fault){.kind = DIST_FINE};
    memset(board.post, 0, sizeof(board.post));
    pthread_mutex_lock(&board.turn);
    for (int r = 0; r < world; r++) {
        ranks[r] = (struct rank){.d = {.c = {.rank = r, .world = world, .name = "board"},
                                       .ops = &ops_of_board, .connected = true}, .wakes = now};
        assert_int_equal(pthread_create(&ranks[r].thread, NULL, be_rank, &ranks[r]), 0);
    }
    give_turn(world - 1);
    take_turn(world);
    pthread_mutex_unlock(&board.turn);
    for (int r = 0; r < world; r++)
        pthread_join(ranks[r].thread, NULL);
}

#endif
