/* SPDX-License-Identifier: Apache-2.0 */
/* machine_order.h - the order in which a multi-node attempt leases its machines
 *
 * Pure: no clock, no I/O.
 * All attempts lease machines in the same order, by name (boot id), and request the next one only when they hold all
 * before it, so no two attempts can deadlock. An attempt that holds some leases and waits for the next one for
 * MACHINE_ORDER_PATIENCE_MS releases all of them, so that others can use them meanwhile, and starts again after a
 * pause.
 */
#ifndef AGENT_MACHINE_MACHINE_ORDER_H
#define AGENT_MACHINE_MACHINE_ORDER_H

#include <stdbool.h>
#include <stdint.h>

enum {
    MACHINE_ORDER_PATIENCE_MS = 60 * 1000,
    MACHINE_ORDER_PAUSE_MS = 5 * 1000,      /* doubled each time, ... */
    MACHINE_ORDER_PAUSE_MAX_MS = 1280 * 1000, /* ... up to this; then a random part of it is added */
};

enum machine_order_step {
    MACHINE_ORDER_WAIT,
    MACHINE_ORDER_ASK,      /* request the lease of node *node */
    MACHINE_ORDER_LET_GO,   /* release the leases of all nodes, held and requested */
    MACHINE_ORDER_DONE      /* all leases are held */
};

struct machine_order {
    int    *nodes;          /* [count], in lease order; of several nodes on one machine, the first */
    int    *sizes;          /* [count]: the number of nodes on each machine */
    int     count, held;    /* nodes[0..held-1] are held */
    bool    asked;          /* nodes[held] was requested at since_ms */
    int64_t since_ms, again_ms; /* again: the end of a pause */
    int     round;          /* of requests, from 0 */
};

/* machines: the name of each node's machine; NULL or "": it has no leases. -1: no memory. */
int machine_order_init(struct machine_order *o, const char *const *machines, int count);
void machine_order_fini(struct machine_order *o);

/* The next action; call again until it is MACHINE_ORDER_WAIT or _DONE. random: from 0 to 1. */
enum machine_order_step machine_order_next(struct machine_order *o, int64_t now_ms, double random, int *node);

/* A node holds what it was asked for in that round. */
void machine_order_held(struct machine_order *o, int node, int round);

/* The milliseconds until there is something to do even if nothing happens; -1: never. */
int64_t machine_order_due_ms(const struct machine_order *o, int64_t now_ms);

#endif
