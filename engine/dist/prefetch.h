/* SPDX-License-Identifier: Apache-2.0 */
/* prefetch.h - fsdp: where a unit's weights are gathered, and which unit is fetched ahead of its
 * turn
 *
 * Pure: no clock, no I/O.
 * A model computes with one unit after the other, to its end and back.  Where there are two places for
 * weights, the unit that comes next is fetched into the one that is not computed with; where there is one, each
 * is fetched when it is its turn.  What is still there is not fetched again: around the end of the model
 * that spares as many as there are places.
 *
 * What is fetched when follows from the order of units alone, so all ranks fetch the same.
 */
#ifndef ENGINE_DIST_PREFETCH_H
#define ENGINE_DIST_PREFETCH_H

enum { UNIT_SLOTS = 2 };

/* A plain value; a new one for each step, whose weights are others. */
struct prefetch {
    int slots;             /* 1 or 2 */
    int now;               /* the slot that is computed with */
    int unit[UNIT_SLOTS];  /* that is there, or on its way; or -1 */
};

struct unit_fetch {
    int unit, slot;
};

struct prefetch prefetch_begin(int slots);

/* It is the turn of `unit`, in the slot t->now from then on; `next` (or -1) comes after it. What is to be
 * fetched, in this order; returns how many. */
int prefetch_take(struct prefetch *t, int unit, int next, struct unit_fetch fetch[UNIT_SLOTS]);

#endif
