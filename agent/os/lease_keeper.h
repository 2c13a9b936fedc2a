/* SPDX-License-Identifier: Apache-2.0 */
/* lease_keeper.h - holds the lease (lease.h) of a job's checkpoint.dir for its agent, in a separate thread
 *
 * The agent of node 0 holds it, not a rank: the agent lives from before the first rank until no rank is left, through
 * all restarts; if it is killed, so are its ranks, and its pid proves that the lease is vacant. The thread does
 * everything that may block on a slow or hung file system; the agent never waits for it.
 */
#ifndef AGENT_OS_LEASE_KEEPER_H
#define AGENT_OS_LEASE_KEEPER_H

#include <stdint.h>
#include <uv.h>

#include "agent/os/lease.h"

struct lease_keeper;

struct lease_keeper_hooks {
    /* Called once: NULL, or why the directory cannot be leased. */
    void (*ready)(void *arg, const struct err *refusal);
    void (*waits)(void *arg, const char *text); /* waiting for a silent holder: a message for the user */
    void (*lost)(void *arg, const char *text);  /* another has it now: ranks must stop */
    void (*ended)(void *arg); /* after lease_keeper_finish(): released, or abandoned */
    void *arg;
};

/* Makes `dir` if it is missing, then takes its lease. *by is copied, with its texts. */
int lease_keeper_start(struct lease_keeper **out, uv_loop_t *loop, const char *dir, const struct lease_taker *by,
                       const struct lease_keeper_hooks *hooks, struct err *err);

/* JOBCTL_LEASE (engine/contract/fence.h) for the ranks; "" before ready(). Accepts NULL. */
const char *lease_keeper_fence(const struct lease_keeper *k);

/* Releases the lease; ended() follows from the loop, after at most `wait_ms`. */
void lease_keeper_finish(struct lease_keeper *k, int64_t wait_ms);

/* Closes its handles; the keeper then frees itself. A lease that it still holds is not released. Accepts
 * NULL. */
void lease_keeper_close(struct lease_keeper *k);

#endif
