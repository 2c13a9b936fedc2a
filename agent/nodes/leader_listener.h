/* SPDX-License-Identifier: Apache-2.0 */
/* leader_listener.h - where the members of an attempt call its head
 *
 * A door (agent/wire/tls_listener.h) with a key drawn for it. Who was let in must say CALL within a
 * few seconds.
 */
#ifndef AGENT_NODES_LEADER_LISTENER_H
#define AGENT_NODES_LEADER_LISTENER_H

#include <jansson.h>
#include <uv.h>

#define CREW_DOOR_NAME "crew" /* by which its key is known */

struct crew_door;
struct err;
struct frame_reader;
struct secure;

/* NULL: both are the hook's now; else why not, which the caller is told before it is sent away. */
typedef const char *(*crew_door_fn)(void *arg, struct secure *s, struct frame_reader *reader,
                                    const json_t *call);

int crew_door_open(struct crew_door **out, uv_loop_t *loop, crew_door_fn called, void *arg,
                   struct err *err);
void crew_door_close(struct crew_door *d); /* frees itself; NULL is fine */

/* {"addresses", "port", "key"}, see leader.h; a new object or NULL. */
json_t *crew_door_say(const struct crew_door *d);

#endif
