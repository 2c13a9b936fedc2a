/* SPDX-License-Identifier: Apache-2.0 */
/* home.h - the state directory of jobctl and its files
 *
 * $JOBCTL_HOME if it is set, else $XDG_STATE_HOME/jobctl, else
 * ~/.local/state/jobctl.  The daemon creates it (mode 0700); the CLI only reads.
 */
#ifndef CONTROLLER_BASE_HOME_H
#define CONTROLLER_BASE_HOME_H

#include <stddef.h>

struct err;

#define HOME_SOCKET     "jobctl.sock"
#define HOME_DAEMON_LOG "daemon.log"

/* The absolute path; a relative $JOBCTL_HOME refers to the current directory. */
int home_dir(char *out, size_t size, struct err *err);

/* Makes a relative $JOBCTL_HOME absolute, for this process and its children. */
int home_settle(struct err *err);

/* A file in it. */
int home_path(char *out, size_t size, const char *name, struct err *err);

#endif
