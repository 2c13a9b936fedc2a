/* SPDX-License-Identifier: Apache-2.0 */
/* home_lock.h - one daemon per home, even if several machines share it
 *
 * The lock is flock() on daemon.lock, which NFS and Lustre pass on to their servers. The file names the holder: "HOST
 * PID"; a holder that stops cleanly empties it.
 */
#ifndef CONTROLLER_DAEMON_HOME_LOCK_H
#define CONTROLLER_DAEMON_HOME_LOCK_H

struct err;

/* How the previous holder ended; DAMAGED: it stopped because the store was damaged. */
enum home_end { HOME_CLEAN, HOME_UNCLEAN, HOME_DAMAGED };

/* A descriptor that holds the lock until it is closed, or the process ends.  Waits a little for a
 * daemon of this machine that is just starting or stopping; -1: another one runs (ERR_CONFLICT if it
 * answers at `socket`), or the file system has no locks. */
int home_lock(enum home_end *before, const char *home, const char *socket, struct err *err);

/* Closes the descriptor; the next holder learns how this one ended. */
void home_lock_leave(int lock, enum home_end how);

#endif
