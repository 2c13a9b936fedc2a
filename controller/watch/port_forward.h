/* SPDX-License-Identifier: Apache-2.0 */
/* port_forward.h - a port of this machine that leads to the same port of the far host (controller/base/far_host.h) */
#ifndef CONTROLLER_WATCH_PORT_FORWARD_H
#define CONTROLLER_WATCH_PORT_FORWARD_H

struct err;

/* Listens on 127.0.0.1; the descriptor, or -1. */
int port_forward_listen(int port, struct err *err);

/* Until *stop is set: each connection is a process of its own with a session of its own, which end with this one. */
void port_forward_run(int listener, int port, const volatile int *stop);

#endif
