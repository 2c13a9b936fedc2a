/* SPDX-License-Identifier: Apache-2.0 */
/* attach.h - `jobctl-agent attach`: connects a controller to the agent of an attempt on another machine
 *
 * Started through a login that may end at any moment, it does what a controller does itself on its
 * own machine: it finds the agent of an attempt, starts one, or proves that no process of the
 * attempt is alive. Then it relays messages between agent and controller, and adds the logs
 * (agent/wire/log_feed.h).
 *
 * It prints the line ATTACH_READY after any output of the login itself; then it reads one ATTACH
 * (agent/wire/wire.h), so that nonce and paths appear in no process list; from then on both
 * directions are frames. It exits at end of input, and when a live agent closes the connection
 * because another controller has connected. Agent and ranks keep running.
 *
 * The attempt's directory is $XDG_STATE_HOME/jobctl/hosted/KEY/ATTEMPT (~/.local/state/jobctl/...).
 * Attaching to attempt n of a KEY first ends everything alive of earlier attempts: an attempt
 * declared lost must not train beside its successor.
 */
#ifndef AGENT_ATTEMPT_ATTACH_H
#define AGENT_ATTEMPT_ATTACH_H

struct err;

#define ATTACH_READY "jobctl-attach 1\n"

/* `program`: the agent's path. Descriptors stay open. */
int attach_run(int in, int out, const char *program, struct err *err);

#endif
