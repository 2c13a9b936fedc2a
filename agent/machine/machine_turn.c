/* SPDX-License-Identifier: Apache-2.0 */
/* machine_turn.c - see machine_turn.h */
#include "agent/machine/machine_turn.h"

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

/* ---- the order ---- */

static bool holds_nothing(const struct machine_state *m, int64_t user)
{
    for (int i = 0; i < m->nholders; i++)
        if (m->holders[i] == user)
            return false;
    return true;
}

static int compare(const void *pa, const void *pb, void *arg)
{
    const struct machine_claim *a = pa, *b = pb;
    const bool a_first = holds_nothing(arg, a->user), b_first = holds_nothing(arg, b->user);
    if (a_first != b_first)
        return a_first ? -1 : 1;
    if (a->arrived_ms != b->arrived_ms)
        return a->arrived_ms < b->arrived_ms ? -1 : 1;
    return a->id < b->id ? -1 : a->id > b->id;
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
