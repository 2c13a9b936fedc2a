/* SPDX-License-Identifier: Apache-2.0 */
/* guardian.h - the process above an agent: ends what a dead agent left behind
 *
 * A process whose parents die becomes a child of the nearest subreaper above it, whatever it did to its session or
 * environment.  Under a living agent that is the agent, under a dead one its guardian: so everything that descends
 * from a rank is found, also where no mark is left (agent/ranks/cleanup_pass.h).  Nothing stands between agent and
 * ranks, so their pids, exit codes, signals and start times are as without it.
 *
 * The guardian holds the lock of the run directory with the agent, and the GPUs and CPU slots: while it works, the
 * attempt counts as alive. It leaves with the agent's exit code or signal. If the guardian is killed, the agent
 * continues, and only the mark remains for finding processes.
 */
#ifndef AGENT_RANKS_GUARDIAN_H
#define AGENT_RANKS_GUARDIAN_H

#include <stdbool.h>

struct err;

struct guardian_options {
    const char *run_dir, *nonce;
    const char *tag; /* of the job, in the log */
    int lock;        /* of run_dir */
    int hold;        /* what the ranks hold (agent/os/lock_bundle.h); 0 or -1: nothing */
    bool session;    /* the agent leads a session of its own */
};

/* Returns 0 in the new process, which becomes the agent; the caller stays behind as its guardian and never returns.
 * -1 in the caller: no process could be started. */
int guardian_start(const struct guardian_options *o, struct err *err);

#endif
