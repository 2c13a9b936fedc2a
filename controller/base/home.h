/* SPDX-License-Identifier: Apache-2.0 */
/* home.h - where jobctl keeps its state, and which files it consists of
 *
 * $JOBCTL_HOME if it is set, else $XDG_STATE_HOME/jobctl, else
 * ~/.local/state/jobctl.  The daemon makes it (mode 0700); the CLI only looks.
 */
#ifndef CONTROLLER_BASE_HOME_H
#define CONTROLLER_BASE_HOME_H

#include <stddef.h>

struct err;

#define HOME_SOCKET     "jobctl.sock"
#define HOME_DAEMON_LOG "daemon.log"

/* The absolute directory; a relative $JOBCTL_HOME is taken from the current directory. */
int home_dir(char *out, size_t size, struct err *err);

/* Makes a relative $JOBCTL_HOME absolute, for this process and those that it starts elsewhere. */
int home_settle(struct err *err);

/* A file in it. */
int home_path(char *out, size_t size, const char *name, struct err *err);

#endif
