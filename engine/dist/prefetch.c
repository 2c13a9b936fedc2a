/* SPDX-License-Identifier: Apache-2.0 */
/* prefetch.c - see prefetch.h */
#include "engine/dist/prefetch.h"

struct prefetch prefetch_begin(int slots)
{
    return (struct prefetch){.slots = slots, .unit = {-1, -1}};
}

/* The slot that holds it, or -1. */
static int find(const struct prefetch *t, int unit)
{
    for (int i = 0; i < t->slots; i++)
        if (t->unit[i] == unit)
            return i;
    return -1;
}

/* Into the slot that is not in use for computing, if there are two. */
static struct unit_fetch begin_fetch(struct prefetch *t, int unit)
{
    const int slot = (t->now + 1) % t->slots;
    t->unit[slot] = unit;
    return (struct unit_fetch){unit, slot};
}

int prefetch_take(struct prefetch *t, int unit, int next, struct unit_fetch fetch[UNIT_SLOTS])
{
    int n = 0;
    if (find(t, unit) < 0)
        fetch[n++] = begin_fetch(t, unit);
    t->now = find(t, unit);
    if (t->slots > 1 && next >= 0 && find(t, next) < 0)
        fetch[n++] = begin_fetch(t, next);
    return n;
}
