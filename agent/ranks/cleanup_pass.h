/* SPDX-License-Identifier: Apache-2.0 */
/* cleanup_pass.h - finds and signals every process that provably belongs to this agent
 *
 * Proof is one of: JOBCTL_NONCE=<nonce> in its environment (set for every process that an agent
 * starts, and inherited by its children), or being a child of this very process, the subreaper that
 * adopts orphans (an agent, or its guardian: guardian.h). A foreign mark overrides both: another
 * nonce, or that of a daemon (CLEANUP_PASS_DAEMON) started by a rank. If one machine simulates
 * several nodes of an attempt, each agent owns only processes with its own directory in
 * JOBCTL_RUN_DIR. For a whole attempt, the members of its control group belong to it as well (control_group.h).
 * A process that hides from these proofs is adopted when its parent dies, so repeat
 * the pass until nothing is found. No process is ever selected by name, and each is held by a pidfd
 * while it is checked, so a reused pid is never hit.
 *
 * Nearly all processes are older than the attempt, and their environment is not read if `since` is given.  The nonce is
 * random and specific to the attempt, and only its agents put it into an environment. A process with the nonce was
 * therefore forked by an agent or a descendant of one, after the first agent had started. A process's start time is
 * that of its fork: exec does not change it, nor does the parent's death.  A server that runs commands for a rank
 * (tmux, systemd, sshd) also forks for each command.  A guardian is older than its agent and has no mark.  A reused pid
 * has the start time of its new process.  Start times count from the machine's boot, and all agents of an attempt are
 * in the same time namespace. Children of this process and members of the control group are examined in any case: they
 * may have the mark of another agent. The first agent of an attempt on this node looks only at the pids assigned since
 * it started (`born`).
 */
#ifndef AGENT_RANKS_CLEANUP_PASS_H
#define AGENT_RANKS_CLEANUP_PASS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CLEANUP_PASS_DAEMON "JOBCTL_DAEMON=1" /* in the environment of a daemon, and of the agents it starts */

struct pid_span;

struct cleanup_pass {
    const char *nonce;
    const char *run_dir; /* only this agent's processes; NULL: those of all agents of the attempt */
    const char *group;   /* the path of its control group (control_group.h), "" or NULL: none */
    int generation; /* > 0: processes of this generation and earlier ones; 0: of the whole attempt
                     */
    bool adopted;   /* include children of this process (in an agent or its guardian) */
    bool unmarked;  /* of those, only the ones without the mark */
    int signo;      /* signal to send; 0: only count */
    int64_t since;  /* when the first agent (with run_dir: the first in it) started: field 22 of /proc/PID/stat, in
                     * clock ticks; 0: not known */
    const struct pid_span *born; /* taken before the attempt's first process was started (pid_span.h); NULL: not
                                  * known */
    bool *spared;   /* or NULL; set: others of the attempt are alive, of a later generation or of none */
};

/* Returns how many were alive (before the kill). left, if not NULL, gets "123 (python3), 124
 * (sh)". -1: cannot read /proc. */
int cleanup_pass_run(const struct cleanup_pass *s, char *left, size_t size);

#endif
