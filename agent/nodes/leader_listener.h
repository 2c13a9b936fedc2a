/* SPDX-License-Identifier: Apache-2.0 */
/* leader_listener.h - where the members of an attempt call its head
 *
 * A door (agent/wire/tls_listener.h) with a key drawn for it. Who was let in must say CONNECT within a
 * few seconds.
 */
#ifndef AGENT_NODES_LEADER_LISTENER_H
#define AGENT_NODES_LEADER_LISTENER_H

#include <jansson.h>
#include <uv.h>

#define LEADER_LISTENER_NAME "leader" /* by which its key is known */

struct leader_listener;
struct err;
struct frame_reader;
struct tls_psk;

/* NULL: both are the hook's now; else why not, which the caller is told before it is sent away. */
typedef const char *(*leader_listener_fn)(void *arg, struct tls_psk *s, struct frame_reader *reader,
                                          const json_t *call);

int leader_listener_open(struct leader_listener **out, uv_loop_t *loop, leader_listener_fn called,
                         void *arg,
                         struct err *err);
void leader_listener_close(struct leader_listener *d); /* frees itself; NULL is fine */

/* {"addresses", "port", "key"}, see leader.h; a new object or NULL. */
json_t *leader_listener_say(const struct leader_listener *d);

#endif
