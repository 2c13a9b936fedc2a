/* SPDX-License-Identifier: Apache-2.0 */
/* attach.h - the controller's hand on another machine: `jobctl-agent attach`
 *
 * Started by a login that may end at any moment, it does what the controller does itself on its own
 * machine: finds the agent of an attempt, or starts one, or proves that nothing of the attempt
 * lives. Then it passes on what agent and controller say, and adds the logs
 * (agent/wire/log_feed.h).
 *
 * It says ATTACH_READY on a line, whatever a login prints before it; then it reads one ATTACH
 * (agent/wire/wire.h), so that neither nonce nor paths stand in a list of processes; from then on
 * both directions are frames. It ends with its input, and when the agent closes the connection
 * while it lives: then another controller's hand has taken it. Agent and ranks go on.
 *
 * The attempt's directory is $XDG_STATE_HOME/jobctl/hosted/KEY/ATTEMPT (~/.local/state/jobctl/...).
 * Whoever attaches to attempt n of a KEY first ends all that lives of the attempts before it: what
 * was declared lost must not train beside its successor.
 */
#ifndef AGENT_ATTEMPT_ATTACH_H
#define AGENT_ATTEMPT_ATTACH_H

struct err;

#define ATTACH_READY "jobctl-attach 1\n"

/* `program`: of the agent. Descriptors stay open. */
int attach_run(int in, int out, const char *program, struct err *err);

#endif
