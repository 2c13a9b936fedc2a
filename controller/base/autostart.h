/* SPDX-License-Identifier: Apache-2.0 */
/* autostart.h - start the daemon because a command needs it
 *
 * `jobctl daemon --detach` returns when the daemon answers.  Many commands may
 * try at once: the daemon takes a lock, and who loses finds the winner's socket.
 */
#ifndef CONTROLLER_BASE_AUTOSTART_H
#define CONTROLLER_BASE_AUTOSTART_H

struct err;

/* A connected descriptor to `socket`; or -1 with the reason and the last lines of daemon.log. */
int autostart(const char *socket, struct err *err);

/* Path of a program beside our own, or `name` itself, which is then looked up in PATH. */
void autostart_sibling(char *out, unsigned long size, const char *name);

#endif
