/* SPDX-License-Identifier: Apache-2.0 */
/* call_home.h - connects the agent to its controller, where the controller cannot connect to the agent
 *
 * The controller writes RUN_DIR/call.json, of mode 0600:
 *
 *   {"addresses": ["10.0.0.1", ...], "port", "key": 64 hexadecimal digits, "name": "JOB.ATTEMPT.NODE"}
 *
 * its addresses and port, and the key of this agent. A new controller replaces the file atomically.
 * While disconnected, the agent reads the file twice a second and tries one address after another,
 * then again after growing pauses; changed contents are tried at once. Over the connection agent and
 * controller speak the protocol of the agent's own socket (agent/attempt/session.h).
 */
#ifndef AGENT_WIRE_CALL_HOME_H
#define AGENT_WIRE_CALL_HOME_H

#include <uv.h>

struct byte_stream;
struct call_home;
struct err;

/* Connected: the hook owns the stream now, and calls call_home_again() when it has ended. */
typedef void (*call_home_fn)(void *arg, struct byte_stream *s);

int call_home_open(struct call_home **out, uv_loop_t *loop, const char *run_dir,
                   call_home_fn connected, void *arg, struct err *err);
void call_home_again(struct call_home *d);

/* Frees itself; accepts NULL. */
void call_home_close(struct call_home *d);

/* Why the controller is unreachable; NULL: connected, or not tried yet. */
const char *call_home_trouble(const struct call_home *d);

#endif
