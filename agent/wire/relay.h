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
struct tunnel;

typedef void (*tunnel_ended_fn)(void *arg, const char *text);

/* Takes both, even where it fails; `s` is ready. `ended`, if not NULL, is told once, from the loop. */
int tunnel_open(struct tunnel **out, uv_loop_t *loop, struct secure *s, int fd,
                tunnel_ended_fn ended, void *arg, struct err *err);

/* `ended` is not told any more. */
void tunnel_forget(struct tunnel *t);

#endif
