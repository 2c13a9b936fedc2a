/* SPDX-License-Identifier: Apache-2.0 */
/* machine_turn.h - whose turn it is to take GPUs and CPU slots of a machine that several users share
 *
 * Pure: no clock, no I/O.
 * Every attempt that waits has a claim; all waiting attempts compute the same order from the same claims, so no attempt
 * asks another. First come those whose user holds nothing and that have waited for MACHINE_TURN_PATIENCE_MS, in the
 * order of their arrival; then those whose user has used least lately, leases that are held now included; then the
 * order of arrival. So users take turns and none starves: the recent use of a user who waits decays.
 *
 * A claim is granted when what it needs is free beside what the claims before it keep: one that does not fit yet
 * keeps the part that is free, so a large job is not passed by small ones forever.
 *
 * Use is counted in milliseconds of the whole machine: the larger of the shares of its GPUs and of its slots, times
 * the duration. It halves every MACHINE_TURN_HALF_MS.
 */
#ifndef AGENT_MACHINE_MACHINE_TURN_H
#define AGENT_MACHINE_MACHINE_TURN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MACHINE_TURN_PATIENCE_MS = 30 * 60 * 1000,
    MACHINE_TURN_HALF_MS = 60 * 60 * 1000,
    MACHINE_TURN_LEAST_MS = 60 * 1000, /* minimum that a lease counts while it is held */
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
    struct machine_set any; /* GPUs and slots that would do */
    int gpus, cpus;         /* that it needs at least */
};

struct machine_claim {
    int64_t user;       /* a number for each user */
    int64_t id;         /* different for each claim */
    int64_t arrived_ms;
    struct machine_need need;
};

/* A lease that is held. */
struct machine_held {
    int64_t user, since_ms;
    double share;       /* of the machine, 0 to 1 */
};

struct machine_used {
    int64_t user;
    double ms;          /* of the past, at present */
};

struct machine_state {
    struct machine_claim *claims; /* those that wait, in any order */
    int nclaims;
    const struct machine_held *held;
    int nheld;
    const struct machine_used *used; /* a user without an entry has used nothing */
    int nused;
    int64_t now_ms;
};

void machine_set_add(struct machine_set *s, int resource);
void machine_set_drop(struct machine_set *s, int resource);
bool machine_set_has(const struct machine_set *s, int resource);
int machine_set_gpus(const struct machine_set *s);
int machine_set_cpus(const struct machine_set *s);

/* The share of the machine that a number of GPUs and slots is. */
double machine_turn_share(int gpus, int all_gpus, int cpus, int all_cpus);

/* What is left of a use after some time. */
double machine_turn_decay(double used_ms, int64_t after_ms);

/* Sorts the claims by turn, the next one first. */
void machine_turn_sort(struct machine_state *m);

/* The place of claim `id` in the sorted claims, or -1. *left: the part of `free` that it may choose from: all but what
 * the claims before it keep. */
int machine_turn_left(struct machine_set *left, const struct machine_state *m, const struct machine_set *free,
                      int64_t id);

/* Is there enough for it? */
bool machine_turn_fits(const struct machine_need *need, const struct machine_set *left);

#endif
