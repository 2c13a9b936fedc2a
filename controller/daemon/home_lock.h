/* SPDX-License-Identifier: Apache-2.0 */
/* home_lock.h - one daemon for a home, also where several machines share it
 *
 * The lock is flock() on daemon.lock, which NFS and Lustre pass on to their servers.  The file tells
 * who holds it: "HOST PID".
 */
#ifndef CONTROLLER_DAEMON_HOME_LOCK_H
#define CONTROLLER_DAEMON_HOME_LOCK_H

struct err;

/* A descriptor that holds the lock until it is closed, or the process ends.  Waits a little for a
 * daemon of this machine that is just starting or stopping; -1: another one runs (ERR_CONFLICT if it
 * answers at `socket`), or there are no locks. */
int home_lock(const char *home, const char *socket, struct err *err);

#endif
