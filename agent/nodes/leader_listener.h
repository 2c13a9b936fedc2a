/* SPDX-License-Identifier: Apache-2.0 */
/* leader_listener.h - accepts the connections of followers for the leader of an attempt
 *
 * A TLS listener (agent/wire/tls_listener.h) with a key drawn for the attempt. An accepted peer
 * must send CONNECT within a few seconds.
 */
#ifndef AGENT_NODES_LEADER_LISTENER_H
#define AGENT_NODES_LEADER_LISTENER_H

#include <jansson.h>
#include <uv.h>

#define LEADER_LISTENER_NAME "leader" /* the name of its key */

struct leader_listener;
struct err;
struct frame_reader;
struct tls_psk;

/* NULL: the hook owns both now; else the reason, which is sent to the caller before it is
 * closed. */
typedef const char *(*leader_listener_fn)(void *arg, struct tls_psk *s, struct frame_reader *reader,
                                          const json_t *call);

int leader_listener_open(struct leader_listener **out, uv_loop_t *loop, leader_listener_fn called,
                         void *arg,
                         struct err *err);
void leader_listener_close(struct leader_listener *d); /* frees itself; accepts NULL */

/* {"addresses", "port", "key"}, see leader.h; a new object or NULL. */
json_t *leader_listener_say(const struct leader_listener *d);

#endif
