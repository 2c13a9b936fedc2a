/* SPDX-License-Identifier: Apache-2.0 */
/* cleanup_pass.h - finds and signals every process that provably belongs to this agent
 *
 * Proof is one of: JOBCTL_NONCE=<nonce> in its environment (set for every process that an agent
 * starts, and inherited by its children), or being a child of this very process, the subreaper that
 * adopts orphans (an agent, or its guardian: guardian.h). A foreign mark overrides both: another
 * nonce, or that of a daemon (CLEANUP_PASS_DAEMON) started by a rank. If one machine simulates
 * several nodes of an attempt, each agent owns only processes with its own directory in
 * JOBCTL_RUN_DIR. Of a whole attempt the members of its control group are ours, too (control_group.h).
 * A process that hides from these proofs is adopted when its parent dies, so repeat
 * the pass until nothing is found. No process is ever selected by name, and each is held by a pidfd
 * while it is checked, so a reused pid is never hit.
 */
#ifndef AGENT_RANKS_CLEANUP_PASS_H
#define AGENT_RANKS_CLEANUP_PASS_H

#include <stdbool.h>
#include <stddef.h>

#define CLEANUP_PASS_DAEMON "JOBCTL_DAEMON=1" /* in the environment of a daemon, and of the agents it starts */

struct cleanup_pass {
    const char *nonce;
    const char *run_dir; /* only processes of this agent; NULL: of all agents of the attempt */
    const char *group;   /* the path of its control group (control_group.h), "" or NULL: none */
    int generation; /* > 0: processes of this generation and earlier ones; 0: of the whole attempt
                     */
    bool adopted;   /* include children of this process (in an agent or its guardian) */
    bool unmarked;  /* of those only the ones that hide from the mark */
    int signo;      /* sent to them; 0: only count */
};

/* Returns how many were alive (before the kill). left, if not NULL, gets "123 (python3), 124
 * (sh)". -1: cannot read /proc. */
int cleanup_pass_run(const struct cleanup_pass *s, char *left, size_t size);

#endif
