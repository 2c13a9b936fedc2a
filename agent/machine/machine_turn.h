/* SPDX-License-Identifier: Apache-2.0 */
/* machine_turn.h - which attempt may next take GPUs and CPU slots of a machine that several users share
 *
 * Pure: no clock, no I/O.
 * Every waiting attempt has a claim; all of them compute the same order from the same claims, so they need not
 * communicate. Attempts whose user holds nothing come first, then the others, each group in order of arrival.
 *
 * A claim is granted when what it needs is free, apart from what earlier claims reserve. A claim that does not fit yet
 * reserves the part that is free, so small jobs cannot overtake a large one forever.
 */
#ifndef AGENT_MACHINE_MACHINE_TURN_H
#define AGENT_MACHINE_MACHINE_TURN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MACHINE_GPUS = 64,                 /* resources 0 to 63 are GPUs, ... */
    MACHINE_CPUS = 1024,               /* ... then CPU slots by the number of the CPU */
    MACHINE_WORDS = (MACHINE_GPUS + MACHINE_CPUS) / 64
};

/* A set of resources. */
struct machine_set {
    uint64_t bits[MACHINE_WORDS];
};

/* What an attempt can use, and how many of it. */
struct machine_need {
    struct machine_set any; /* suitable GPUs and slots */
    int gpus, cpus;         /* the minimum number needed */
};

struct machine_claim {
    int64_t user;       /* a number for each user */
    int64_t id;         /* different for each claim */
    int64_t arrived_ms;
    struct machine_need need;
};

struct machine_state {
    struct machine_claim *claims; /* the waiting claims, in any order */
    int nclaims;
    const int64_t *holders;       /* the users of the leases that are held */
    int nholders;
};

void machine_set_add(struct machine_set *s, int resource);
void machine_set_drop(struct machine_set *s, int resource);
bool machine_set_has(const struct machine_set *s, int resource);
int machine_set_gpus(const struct machine_set *s);
int machine_set_cpus(const struct machine_set *s);

/* Sorts the claims by turn, the next one first. */
void machine_turn_sort(struct machine_state *m);

/* The place of claim `id` in the sorted claims, or -1. *left: the part of `free` that it may choose from: everything
 * that the claims before it do not reserve. */
int machine_turn_left(struct machine_set *left, const struct machine_state *m, const struct machine_set *free,
                      int64_t id);

/* Is there enough for it? */
bool machine_turn_fits(const struct machine_need *need, const struct machine_set *left);

#endif
