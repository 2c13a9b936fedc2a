/* SPDX-License-Identifier: Apache-2.0 */
/* machine_turn.c - see machine_turn.h */
#include "agent/machine/machine_turn.h"

#include <math.h>
#include <stdlib.h>

void machine_set_add(struct machine_set *s, int resource)
{
    s->bits[resource / 64] |= (uint64_t)1 << resource % 64;
}

void machine_set_drop(struct machine_set *s, int resource)
{
    s->bits[resource / 64] &= ~((uint64_t)1 << resource % 64);
}

bool machine_set_has(const struct machine_set *s, int resource)
{
    return s->bits[resource / 64] >> resource % 64 & 1;
}

int machine_set_gpus(const struct machine_set *s)
{
    return __builtin_popcountll(s->bits[0]);
}

int machine_set_cpus(const struct machine_set *s)
{
    int n = 0;
    for (int i = MACHINE_GPUS / 64; i < MACHINE_WORDS; i++)
        n += __builtin_popcountll(s->bits[i]);
    return n;
}

double machine_turn_share(int gpus, int all_gpus, int cpus, int all_cpus)
{
    const double g = all_gpus > 0 ? (double)gpus / all_gpus : 0, c = all_cpus > 0 ? (double)cpus / all_cpus : 0;
    return fmin(1, fmax(g, c));
}

double machine_turn_decay(double used_ms, int64_t after_ms)
{
    return used_ms > 0 && after_ms > 0 ? used_ms * exp2(-(double)after_ms / MACHINE_TURN_HALF_MS) : used_ms;
}

/* ---- the order ---- */

/* What a user has used, leases that are held now included. */
static double charge(const struct machine_state *m, int64_t user)
{
    double sum = 0;
    for (int i = 0; i < m->nused; i++)
        sum += m->used[i].user == user ? m->used[i].ms : 0;
    for (int i = 0; i < m->nheld; i++) {
        const int64_t ms = m->now_ms - m->held[i].since_ms;
        if (m->held[i].user == user)
            sum += m->held[i].share * (double)(ms > MACHINE_TURN_LEAST_MS ? ms : MACHINE_TURN_LEAST_MS);
    }
    return sum;
}

static int by_arrival(const struct machine_claim *a, const struct machine_claim *b)
{
    if (a->arrived_ms != b->arrived_ms)
        return a->arrived_ms < b->arrived_ms ? -1 : 1;
    return a->id < b->id ? -1 : a->id > b->id;
}

/* It has waited long, and its user holds nothing. */
static bool starves(const struct machine_state *m, const struct machine_claim *c)
{
    for (int i = 0; i < m->nheld; i++)
        if (m->held[i].user == c->user)
            return false;
    return m->now_ms - c->arrived_ms >= MACHINE_TURN_PATIENCE_MS;
}

static int compare(const void *pa, const void *pb, void *arg)
{
    const struct machine_claim *a = pa, *b = pb;
    const struct machine_state *m = arg;
    const bool a_late = starves(m, a), b_late = starves(m, b);
    if (a_late != b_late)
        return a_late ? -1 : 1;
    if (!a_late && a->user != b->user) {
        const double mine = charge(m, a->user), other = charge(m, b->user);
        if (mine < other || mine > other)
            return mine < other ? -1 : 1;
    }
    return by_arrival(a, b);
}

void machine_turn_sort(struct machine_state *m)
{
    qsort_r(m->claims, (size_t)m->nclaims, sizeof(*m->claims), compare, m);
}

/* ---- what is left ---- */

bool machine_turn_fits(const struct machine_need *need, const struct machine_set *left)
{
    struct machine_set both;
    for (int i = 0; i < MACHINE_WORDS; i++)
        both.bits[i] = need->any.bits[i] & left->bits[i];
    return machine_set_gpus(&both) >= need->gpus && machine_set_cpus(&both) >= need->cpus;
}

/* Takes up to `count` resources of the words [from, to) that would do. */
static void keep(struct machine_set *left, const struct machine_set *any, int from, int to, int count)
{
    for (int i = from; i < to; i++)
        for (uint64_t word = left->bits[i] & any->bits[i]; word && count > 0; count--) {
            const uint64_t lowest = word & -word;
            word ^= lowest;
            left->bits[i] ^= lowest;
        }
}

int machine_turn_left(struct machine_set *left, const struct machine_state *m, const struct machine_set *free,
                      int64_t id)
{
    *left = *free;
    for (int i = 0; i < m->nclaims; i++) {
        const struct machine_need *n = &m->claims[i].need;
        if (m->claims[i].id == id)
            return i;
        keep(left, &n->any, 0, MACHINE_GPUS / 64, n->gpus);
        keep(left, &n->any, MACHINE_GPUS / 64, MACHINE_WORDS, n->cpus);
    }
    return -1;
}
