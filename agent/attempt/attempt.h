/* SPDX-License-Identifier: Apache-2.0 */
/* attempt.h - runs one attempt on one node: the shell around agent_core
 *
 * Connects the pure core to its surroundings: messages, exits, lines and time go in; spooled
 * events, processes, signals and one timer come out. attempt_run() is the whole life of
 * `jobctl-agent run` after it has detached.
 */
#ifndef AGENT_ATTEMPT_ATTEMPT_H
#define AGENT_ATTEMPT_ATTEMPT_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/os/lock_bundle.h"

struct err;

struct attempt_options {
    const char *run_dir;
    const char *nonce;
    const char *origin;     /* the job's identity (engine/checkpoint/lineage.h); NULL or "": LAUNCH has it */
    const char *train;      /* path of jobctl-train */
    int64_t     job, attempt;
    bool away;    /* controllers cannot connect: the agent connects
                             * (agent/wire/call_home.h) or uses the run directory
                             * (agent/wire/file_channel.h) */
    struct lock_bundle bundle; /* holds the locks of GPUs and CPU slots of this machine; none: takes no leases */
    int ready_fd; /* gets "ready\n" once the socket is listening; -1 = none */
};

/* The caller holds the lock of run_dir until this process exits. Returns 0 once the attempt is over and acknowledged
 * (or no LAUNCH arrived in time). */
int attempt_run(const struct attempt_options *options, struct err *err);

#endif
