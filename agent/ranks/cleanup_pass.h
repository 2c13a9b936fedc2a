/* SPDX-License-Identifier: Apache-2.0 */
/* cleanup_pass.h - end every process that is provably ours, and say what is left
 *
 * Proof is one of: JOBCTL_NONCE=<nonce> in its environment (every process that
 * an agent starts has it, and its children inherit it), or being a child of
 * this very process, which adopts as their subreaper what its children leave
 * behind; unless another's mark says whose it is: another nonce, or that of a
 * daemon (CLEANUP_PASS_DAEMON) which a rank had to start.  Where one machine plays several nodes of
 * an attempt, each of its agents has only what has its own directory in JOBCTL_RUN_DIR.  A process
 * that hides from both is adopted when its parent is ended, so sweep again until nothing is found. 
 * Nothing is ever ended by name, and each is held by a pidfd while it is checked, so that a reused
 * pid is never hit.
 */
#ifndef AGENT_RANKS_CLEANUP_PASS_H
#define AGENT_RANKS_CLEANUP_PASS_H

#include <stdbool.h>
#include <stddef.h>

#define CLEANUP_PASS_DAEMON "JOBCTL_DAEMON=1" /* in the environment of a daemon, and of the agents it starts */

struct cleanup_pass {
    const char *nonce;
    const char *run_dir;    /* only of the agent there; NULL: of every agent of the attempt */
    int         generation; /* > 0: only processes of this one and those before; 0: of the whole attempt */
    bool        adopted;    /* children of this process too (only in an agent) */
    bool        kill;       /* SIGKILL them; else only look */
};

/* How many live ones were found (before they die of it).  left, if not NULL, gets
 * "123 (python3), 124 (sh)". -1: /proc cannot be read. */
int cleanup_pass_run(const struct cleanup_pass *s, char *left, size_t size);

#endif
