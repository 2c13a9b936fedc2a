/* SPDX-License-Identifier: Apache-2.0 */
/* machine_order.h - in which order an attempt on several nodes takes the leases of their machines
 *
 * Pure: no clock, no I/O.
 * All attempts ask the machines in one order, that of their names (boot ids), and ask the next one only when they hold
 * all before it: so no two of them wait for each other.  An attempt that holds some and waits for the next one for
 * MACHINE_ORDER_PATIENCE_MS lets go of all, so that others may have them meanwhile, and begins again after a pause.
 */
#ifndef AGENT_MACHINE_MACHINE_ORDER_H
#define AGENT_MACHINE_MACHINE_ORDER_H

#include <stdbool.h>
#include <stdint.h>

enum {
    MACHINE_ORDER_PATIENCE_MS = 60 * 1000,
    MACHINE_ORDER_PAUSE_MS = 5 * 1000,      /* doubled for each further one, ... */
    MACHINE_ORDER_PAUSE_MAX_MS = 1280 * 1000, /* ... up to this; then a random part of it is added */
};

enum machine_order_step {
    MACHINE_ORDER_WAIT,
    MACHINE_ORDER_ASK,      /* node *node for its lease */
    MACHINE_ORDER_LET_GO,   /* all nodes, of what they hold and wait for */
    MACHINE_ORDER_DONE      /* it holds all */
};

struct machine_order {
    int    *nodes;          /* [count], in their order; of several nodes on one machine the first */
    int    *sizes;          /* [count]: how many nodes are on the machine of each */
    int     count, held;    /* nodes[0..held-1] are held */
    bool    asked;          /* nodes[held] was asked, at since_ms */
    int64_t since_ms, again_ms; /* again: the end of a pause */
    int     round;          /* of asking, from 0 */
};

/* machines: the name of the machine of each node; NULL or "": it has no leases. -1: no memory. */
int machine_order_init(struct machine_order *o, const char *const *machines, int count);
void machine_order_fini(struct machine_order *o);

/* What to do now; again and again until it is MACHINE_ORDER_WAIT or _DONE. random: from 0 to 1. */
enum machine_order_step machine_order_next(struct machine_order *o, int64_t now_ms, double random, int *node);

/* A node has what it was asked for in that round. */
void machine_order_held(struct machine_order *o, int node, int round);

/* In how many milliseconds there is something to do even if nothing happens; -1: never. */
int64_t machine_order_due_ms(const struct machine_order *o, int64_t now_ms);

#endif
