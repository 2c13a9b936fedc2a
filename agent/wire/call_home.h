/* SPDX-License-Identifier: Apache-2.0 */
/* call_home.h - the agent calls its controller, where no controller can call the agent
 *
 * The controller leaves RUN_DIR/call.json for it, of mode 0600:
 *
 *   {"addresses": ["10.0.0.1", ...], "port", "key": 64 hexadecimal digits, "name": "JOB.ATTEMPT.NODE"}
 *
 * where it listens, and the key of this very agent. Each controller puts a new one in its place, as a
 * whole. While nobody is connected the agent looks for it twice a second and tries one address
 * after the other, then again after pauses that grow; what is new is tried at once. A connection is
 * carried to the agent's own socket (agent/attempt/session.h): the same words as anywhere.
 */
#ifndef AGENT_WIRE_CALL_HOME_H
#define AGENT_WIRE_CALL_HOME_H

#include <uv.h>

struct call_home;
struct err;

int call_home_open(struct call_home **out, uv_loop_t *loop, const char *run_dir, const char *socket,
                   struct err *err);

/* What the agent has said still goes out. Frees itself; NULL is fine. */
void call_home_close(struct call_home *d);

/* Why the controller cannot be reached, for people; NULL: it is, or was not yet tried. */
const char *call_home_trouble(const struct call_home *d);

#endif
