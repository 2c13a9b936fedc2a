/* SPDX-License-Identifier: Apache-2.0 */
/* machine_lease.h - the right of an attempt to use GPUs and CPU slots of a machine that several users share
 *
 *   machine_lease_open()     it has a claim from now on: its place in the order (machine_turn.h)
 *   machine_lease_try()      again and again, until it holds all that it needs at once
 *   machine_lease_release()  no process of the attempt is left: the next one may have it
 *
 * An agent that looks holds the lock `turn` for that moment, so two agents never each take a part of what both need;
 * and it gives back what it has taken where a lock is held by a program without a claim. What it holds is locked by
 * files of the kernel, not by its claim: the locks are in a bundle (agent/os/lock_bundle.h) that every rank inherits,
 * and end with the last of them, whichever processes were killed.
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

/* What a job needs, and what there is. */
struct machine_ask {
    int64_t job;
    const char *name, *names_to; /* of the job; the group that may know the name, or "" */
    struct machine_gpu gpus[MACHINE_GPUS]; /* all of the machine: bit i of a set is gpus[i] */
    int ngpus;
    struct machine_set cpus; /* the slots that this process may use */
    int need_gpus, need_cpus;
};

enum machine_lease_state {
    MACHINE_HOLDS,
    MACHINE_WAITS, /* the text says for what */
    MACHINE_BUSY   /* another agent is looking: try again at once; the text is for the case that this lasts */
};

/* Chooses at least need_gpus of the GPUs that are left for this job; false: no such choice exists. */
typedef bool (*machine_choose_fn)(void *arg, const struct machine_set *left, struct machine_set *take);

/* Makes the claim. *ask is copied. The bundle stays the caller's. */
int machine_lease_open(struct machine_lease **out, const char *dir, const struct machine_ask *ask,
                       const struct lock_bundle *bundle, struct err *err);

/* choose: NULL for the first suitable GPUs. */
enum machine_lease_state machine_lease_try(struct machine_lease *l, machine_choose_fn choose, void *arg,
                                           char text[MACHINE_TEXT]);

/* What other programs use now. */
void machine_lease_set_gpus(struct machine_lease *l, const struct machine_gpu *gpus, int count);

/* After MACHINE_HOLDS: is gpus[i] part of the lease? How many slots has it? The reason why a GPU is not leased, as a
 * text; false: nobody has it. */
bool machine_lease_has(const struct machine_lease *l, int gpu);
int machine_lease_cpus(const struct machine_lease *l);
bool machine_lease_other(char *out, size_t size, const struct machine_lease *l, int gpu);

/* Both accept NULL. Release gives back what it holds, or withdraws the claim. Close frees memory only: the locks end
 * with the ranks. */
void machine_lease_release(struct machine_lease *l);
void machine_lease_close(struct machine_lease *l);

#endif
