/* SPDX-License-Identifier: Apache-2.0 */
/* agent_listener.h - the port at which agents call that no controller can call
 * (agent/wire/call_home.h)
 *
 * One port for all of them, chosen by the system, and open only while somebody is expected. For each
 * agent a key is drawn and left in its run directory, which nobody else may enter, in a file that nobody
 * else may read; it is nowhere else.
 *
 * They are told all addresses of this machine, or those that are named by `call_address` (config.h):
 * "10.0.0.1", "ib0", or several of such with commas between. With "none" they are not to call.
 */
#ifndef CONTROLLER_REMOTE_AGENT_LISTENER_H
#define CONTROLLER_REMOTE_AGENT_LISTENER_H

#include <uv.h>

struct err;
struct expected_agent;

/* One has come: the socket through which it speaks, which is the hook's, and from where. It may come
 * again, when it has lost the connection before. */
typedef void (*expected_agent_fn)(void *arg, int fd, const char *address);

/* `name`: "JOB.ATTEMPT.NODE". -1: none can come, and why. */
int agent_listener_expect(struct expected_agent **out, uv_loop_t *loop, const char *run_dir,
                          const char *name,
                          expected_agent_fn came, void *arg, struct err *err);
void agent_listener_forget(struct expected_agent *g); /* NULL is fine */

#endif
