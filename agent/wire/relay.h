/* SPDX-License-Identifier: Apache-2.0 */
/* relay.h - relays a local socket over a TLS stream
 *
 * The relay owns stream and socket. When one of them ends, its remaining data is delivered to the
 * other one, which is then closed, and the relay frees itself.
 */
#ifndef AGENT_WIRE_RELAY_H
#define AGENT_WIRE_RELAY_H

#include <uv.h>

#include "agent/wire/tls_psk.h"

struct err;
struct relay;

typedef void (*relay_ended_fn)(void *arg, const char *text);

/* Takes both, even on failure; `s` must be ready. `ended`, if not NULL, is called once, from the
 * loop. */
int relay_open(struct relay **out, uv_loop_t *loop, struct tls_psk *s, int fd,
               relay_ended_fn ended, void *arg, struct err *err);

/* `ended` will not be called any more. */
void relay_forget(struct relay *t);

#endif
