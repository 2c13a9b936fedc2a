/* SPDX-License-Identifier: Apache-2.0 */
/* machine_lease.h - the right of an attempt to use GPUs and CPU slots of a machine that several users share
 *
 *   machine_lease_open()     makes a claim, which fixes its place in the order (machine_turn.h)
 *   machine_lease_try()      call repeatedly, until it holds everything it needs, all at once
 *   machine_lease_release()  call when no process of the attempt is left: others may take its resources
 *
 * While trying, an agent holds the lock `turn`, so two agents never each take a part of what both need. If a program
 * without a claim holds one of the locks, the agent gives back what it has taken. Resources are held by kernel file
 * locks, not by the claim: the locks are in a bundle (agent/os/lock_bundle.h) that every rank inherits, and end with
 * the last rank, whichever processes were killed.
 */
#ifndef AGENT_MACHINE_MACHINE_LEASE_H
#define AGENT_MACHINE_MACHINE_LEASE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/machine/machine_turn.h"

struct err;
struct lock_bundle;
struct machine_lease;

enum { MACHINE_UUID = 80, MACHINE_TEXT = 400 };

struct machine_gpu {
    char uuid[MACHINE_UUID];
    int index;              /* for people */
    bool would_do;          /* for this job */
    char foreign[120];      /* "in use by process 812 (python)": not by jobctl; "": free */
};

/* What a job needs, and what exists. */
struct machine_ask {
    int64_t job;
    const char *name, *names_to; /* name of the job; the group that may know it, or "" */
    struct machine_gpu gpus[MACHINE_GPUS]; /* all GPUs of the machine: bit i of a set is gpus[i] */
    int ngpus;
    struct machine_set cpus; /* the slots that this process may use */
    int need_gpus, need_cpus;
};

enum machine_lease_state {
    MACHINE_HOLDS,
    MACHINE_WAITS, /* the text names what it waits for */
    MACHINE_BUSY   /* another agent is trying: try again at once; the text applies if this lasts */
};

/* Chooses at least need_gpus of the GPUs available to this job; false: impossible. */
typedef bool (*machine_choose_fn)(void *arg, const struct machine_set *left, struct machine_set *take);

/* Makes the claim. *ask is copied. The caller keeps the bundle. */
int machine_lease_open(struct machine_lease **out, const char *dir, const struct machine_ask *ask,
                       const struct lock_bundle *bundle, struct err *err);

/* choose: NULL for the first suitable GPUs. */
enum machine_lease_state machine_lease_try(struct machine_lease *l, machine_choose_fn choose, void *arg,
                                           char text[MACHINE_TEXT]);

/* Updates which resources other programs use now. */
void machine_lease_set_gpus(struct machine_lease *l, const struct machine_gpu *gpus, int count);

/* After MACHINE_HOLDS: is gpus[i] part of the lease? How many slots does it have? Why a GPU is not leased, as a
 * text; false: it is free. */
bool machine_lease_has(const struct machine_lease *l, int gpu);
int machine_lease_cpus(const struct machine_lease *l);
bool machine_lease_other(char *out, size_t size, const struct machine_lease *l, int gpu);

/* Both accept NULL. Release gives back what the lease holds, or withdraws the claim. Close only frees memory: the
 * locks end with the ranks. */
void machine_lease_release(struct machine_lease *l);
void machine_lease_close(struct machine_lease *l);

#endif
