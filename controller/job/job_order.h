/* SPDX-License-Identifier: Apache-2.0 */
/* job_order.h - a set of jobs ordered by two numbers, say priority and id
 *
 * Pure: no clock, no I/O.
 * A look-up is a binary search.  Entries come and go at the ends in constant time, elsewhere by one memmove of at
 * most half the set.
 */
#ifndef CONTROLLER_JOB_JOB_ORDER_H
#define CONTROLLER_JOB_JOB_ORDER_H

#include <stddef.h>
#include <stdint.h>

struct job_order_entry {
    int64_t a, b;
    void   *of;         /* borrowed */
};

/* Zeroed: empty. */
struct job_order {
    struct job_order_entry *list;
    size_t                  first, count, room;
};

/* -1: out of memory. An entry of the same numbers is replaced. */
int job_order_put(struct job_order *o, int64_t a, int64_t b, void *of);
/* No effect if there is none. */
void job_order_drop(struct job_order *o, int64_t a, int64_t b);
/* The index of the first entry that is not before (a, b); o->count: none. */
size_t job_order_find(const struct job_order *o, int64_t a, int64_t b);
/* i < o->count */
const struct job_order_entry *job_order_at(const struct job_order *o, size_t i);
void job_order_fini(struct job_order *o);

#endif
