/* SPDX-License-Identifier: Apache-2.0 */
/* machine_order.c - see machine_order.h
 *
 * Pure: no clock, no I/O.
 */
#include "agent/machine/machine_order.h"

#include <stdlib.h>
#include <string.h>

/* Its place among those that are sorted already; -1: its machine is there, where it is counted, or has no leases. */
static int place_of(struct machine_order *o, const char *const *machines, int node)
{
    int at = 0;
    if (!machines[node] || !machines[node][0])
        return -1;
    for (; at < o->count; at++) {
        const int order = strcmp(machines[o->nodes[at]], machines[node]);
        if (order == 0)
            o->sizes[at]++;
        if (order >= 0)
            return order == 0 ? -1 : at;
    }
    return at;
}

int machine_order_init(struct machine_order *o, const char *const *machines, int count)
{
    const size_t room = count > 0 ? (size_t)count : 1;
    *o = (struct machine_order){.nodes = calloc(room, sizeof(int)), .sizes = calloc(room, sizeof(int))};
    if (!o->nodes || !o->sizes) {
        machine_order_fini(o);
        return -1;
    }
    for (int k = 0; k < count; k++) {
        const int at = place_of(o, machines, k);
        if (at < 0)
            continue;
        memmove(o->nodes + at + 1, o->nodes + at, (size_t)(o->count - at) * sizeof(int));
        memmove(o->sizes + at + 1, o->sizes + at, (size_t)(o->count - at) * sizeof(int));
        o->nodes[at] = k;
        o->sizes[at] = 1;
        o->count++;
    }
    return 0;
}

void machine_order_fini(struct machine_order *o)
{
    free(o->nodes);
    free(o->sizes);
    *o = (struct machine_order){.nodes = NULL};
}

static bool is_refused(const struct machine_order *o, int64_t now_ms)
{
    return o->held > 0 && o->asked && now_ms - o->since_ms >= MACHINE_ORDER_PATIENCE_MS;
}

static enum machine_order_step let_go(struct machine_order *o, int64_t now_ms, double random)
{
    int64_t pause_ms = MACHINE_ORDER_PAUSE_MS;
    for (int i = 0; i < o->round && pause_ms < MACHINE_ORDER_PAUSE_MAX_MS; i++)
        pause_ms *= 2;
    o->again_ms = now_ms + pause_ms + (int64_t)(random * (double)pause_ms);
    o->held = 0;
    o->asked = false;
    o->round++;
    return MACHINE_ORDER_LET_GO;
}

enum machine_order_step machine_order_next(struct machine_order *o, int64_t now_ms, double random, int *node)
{
    if (o->held == o->count)
        return MACHINE_ORDER_DONE;
    if (is_refused(o, now_ms))
        return let_go(o, now_ms, random);
    if (o->asked || now_ms < o->again_ms)
        return MACHINE_ORDER_WAIT;
    o->asked = true;
    o->since_ms = now_ms;
    *node = o->nodes[o->held];
    return MACHINE_ORDER_ASK;
}

void machine_order_held(struct machine_order *o, int node, int round)
{
    if (!o->asked || round != o->round || node != o->nodes[o->held])
        return;
    o->asked = false;
    o->held++;
}

int64_t machine_order_due_ms(const struct machine_order *o, int64_t now_ms)
{
    int64_t due_ms = now_ms;
    if (o->held == o->count || (o->asked && o->held == 0))
        return -1;
    if (o->asked)
        due_ms = o->since_ms + MACHINE_ORDER_PATIENCE_MS;
    else if (o->again_ms > now_ms)
        due_ms = o->again_ms;
    return due_ms > now_ms ? due_ms - now_ms : 0;
}
