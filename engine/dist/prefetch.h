/* SPDX-License-Identifier: Apache-2.0 */
/* prefetch.h - fsdp: slots for gathered weights, and which unit to gather ahead
 *
 * Pure: no clock, no I/O.
 * A model computes unit by unit, forward to its end and back.  With two slots for
 * weights, the next unit is gathered into the slot that is not in use; with one slot, each
 * unit is gathered when it is needed.  A unit still in a slot is not gathered again: at the turning
 * point at the end of the model that saves as many gathers as there are slots.
 *
 * The gathers follow from the order of units alone, so they are the same on all ranks.
 */
#ifndef ENGINE_DIST_PREFETCH_H
#define ENGINE_DIST_PREFETCH_H

enum { UNIT_SLOTS = 2 };

/* A plain value; a new one for each step, because weights have changed. */
struct prefetch {
    int slots;             /* 1 or 2 */
    int now;               /* the slot in use */
    int unit[UNIT_SLOTS];  /* unit in each slot, gathered or being gathered; or -1 */
};

struct unit_fetch {
    int unit, slot;
};

struct prefetch prefetch_begin(int slots);

/* The model computes with `unit`, in slot t->now, from then on; `next` (or -1) comes after it. Fills in the units to
 * gather, in this order; returns their number. */
int prefetch_take(struct prefetch *t, int unit, int next, struct unit_fetch fetch[UNIT_SLOTS]);

#endif
