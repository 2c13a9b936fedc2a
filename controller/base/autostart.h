/* SPDX-License-Identifier: Apache-2.0 */
/* autostart.h - starts the daemon when a command needs it
 *
 * `jobctl daemon --detach` returns when the daemon answers.  Several commands may
 * start one at once: one daemon gets the lock; the others find its socket.
 */
#ifndef CONTROLLER_BASE_AUTOSTART_H
#define CONTROLLER_BASE_AUTOSTART_H

struct err;

/* A descriptor connected to `socket`; or -1 with the reason and the last lines of daemon.log. */
int autostart(const char *socket, struct err *err);

#endif
