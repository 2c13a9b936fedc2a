/* SPDX-License-Identifier: Apache-2.0 */
/* home.h - the state directory of jobctl and its files
 *
 * $JOBCTL_HOME if it is set, else $XDG_STATE_HOME/jobctl, else
 * ~/.local/state/jobctl.  The daemon creates it (mode 0700); the CLI only reads.
 */
#ifndef CONTROLLER_BASE_HOME_H
#define CONTROLLER_BASE_HOME_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "engine/base/dir_identity.h"

struct err;

#define HOME_SOCKET     "jobctl.sock"
#define HOME_DAEMON_LOG "daemon.log"

/* The daemon's. */
struct home {
    char                path[PATH_MAX];
    struct dir_identity id;         /* the directory, since the start */
    bool                gone;       /* daemon_run.c */
    bool                reserved;   /* disk space for removals (reserve.h) */
};

/* False while it is not at its path: no work may start that writes into it by path. */
bool home_is_here(const struct home *h);

/* The absolute path; a relative $JOBCTL_HOME refers to the current directory. */
int home_dir(char *out, size_t size, struct err *err);

/* Makes a relative $JOBCTL_HOME absolute, for this process and its children. */
int home_settle(struct err *err);

/* A file in it. */
int home_path(char *out, size_t size, const char *name, struct err *err);

#endif
