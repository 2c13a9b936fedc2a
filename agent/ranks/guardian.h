/* SPDX-License-Identifier: Apache-2.0 */
/* guardian.h - the process above an agent: ends what a dead agent left behind
 *
 * A process whose parents die becomes a child of the nearest subreaper above it, whatever it did to its session or
 * environment. That is the agent while it lives, and then its guardian, so all descendants of a rank are found, even
 * without a mark (agent/ranks/cleanup_pass.h). The guardian is above the agent, not between agent and ranks, so pids,
 * exit codes, signals and start times are unaffected.
 *
 * The guardian holds the lock of the run directory with the agent, and the GPUs and CPU slots: while it works, the
 * attempt counts as alive. It exits with the agent's exit code or signal. If the guardian is killed, the agent
 * continues, and only the mark remains for finding processes.
 */
#ifndef AGENT_RANKS_GUARDIAN_H
#define AGENT_RANKS_GUARDIAN_H

#include <stdbool.h>

struct err;

struct guardian_options {
    const char *run_dir, *nonce;
    const char *tag; /* tag of the job, for the log */
    int lock;        /* lock of run_dir */
    int hold;        /* the locks that the ranks hold (agent/os/lock_bundle.h); 0 or -1: none */
    bool session;    /* the agent leads a new session */
};

/* Returns 0 in the new process, which becomes the agent; the caller becomes its guardian and never returns. -1 in
 * the caller: no process could be started. */
int guardian_start(const struct guardian_options *o, struct err *err);

#endif
