/* SPDX-License-Identifier: Apache-2.0 */
/* relay.h - what goes through a local socket, carried over a secure stream
 *
 * Stream and socket are the tunnel's. When one of them ends, what it had still said reaches the other
 * one, which is then closed, and the tunnel frees itself.
 */
#ifndef AGENT_WIRE_RELAY_H
#define AGENT_WIRE_RELAY_H

#include <uv.h>

#include "agent/wire/tls_psk.h"

struct err;
struct relay;

typedef void (*relay_ended_fn)(void *arg, const char *text);

/* Takes both, even where it fails; `s` is ready. `ended`, if not NULL, is told once, from the loop. */
int relay_open(struct relay **out, uv_loop_t *loop, struct tls_psk *s, int fd,
               relay_ended_fn ended, void *arg, struct err *err);

/* `ended` is not told any more. */
void relay_forget(struct relay *t);

#endif
