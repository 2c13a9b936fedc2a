/* SPDX-License-Identifier: Apache-2.0 */
/* agent_listener.h - the port for agents that connect to the controller (agent/wire/call_home.h)
 *
 * One port for all agents, chosen by the system, open only while an agent is expected. Each agent
 * has a random key, stored only in a file of mode 0600 in its run directory of mode 0700.
 *
 * Agents get all addresses of this machine, or those of `call_address` (config.h): a
 * comma-separated list such as "10.0.0.1,ib0". With "none" agents do not connect.
 */
#ifndef CONTROLLER_REMOTE_AGENT_LISTENER_H
#define CONTROLLER_REMOTE_AGENT_LISTENER_H

#include <uv.h>

struct byte_stream;
struct err;
struct expected_agent;

/* An agent connected: its stream, now owned by the hook, and its address. Called again after each
 * reconnect. */
typedef void (*expected_agent_fn)(void *arg, struct byte_stream *s, const char *address);

/* `name`: "JOB.ATTEMPT.NODE". -1 with *err set: no agent can connect. */
int agent_listener_expect(struct expected_agent **out, uv_loop_t *loop, const char *run_dir, const char *name,
                          expected_agent_fn came, void *arg, struct err *err);
void agent_listener_forget(struct expected_agent *g); /* accepts NULL */

#endif
