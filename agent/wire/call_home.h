/* SPDX-License-Identifier: Apache-2.0 */
/* call_home.h - connects the agent to its controller, where the controller cannot connect to the agent
 *
 * The controller writes RUN_DIR/call.json, of mode 0600:
 *
 *   {"addresses": ["10.0.0.1", ...], "port", "key": 64 hexadecimal digits, "name": "JOB.ATTEMPT.NODE"}
 *
 * its addresses and port, and the key of this agent. A new controller replaces the file atomically.
 * While disconnected, the agent reads the file twice a second and tries one address after another,
 * then again after growing pauses; changed contents are tried at once. A connection is relayed to
 * the agent's own socket (agent/attempt/session.h), so the protocol is the same as elsewhere.
 */
#ifndef AGENT_WIRE_CALL_HOME_H
#define AGENT_WIRE_CALL_HOME_H

#include <uv.h>

struct call_home;
struct err;

int call_home_open(struct call_home **out, uv_loop_t *loop, const char *run_dir, const char *socket,
                   struct err *err);

/* Data already written by the agent is still sent. Frees itself; accepts NULL. */
void call_home_close(struct call_home *d);

/* Why the controller is unreachable; NULL: connected, or not tried yet. */
const char *call_home_trouble(const struct call_home *d);

#endif
