/* SPDX-License-Identifier: Apache-2.0 */
/* home_watch.c - see home_watch.h */
#include "controller/daemon/home_watch.h"

#include <stdio.h>
#include <syslog.h>

#include "agent/os/log.h"
#include "controller/base/daemon.h"
#include "engine/base/err.h"

int home_watch_result(const struct daemon *d, struct err *err)
{
    char where[PATH_MAX + 64], now[PATH_MAX];
    if (!d->home_gone)
        return 0;
    dir_identity_text(where, sizeof(where), &d->home_inode, d->home);
    if (dir_identity_path(now, sizeof(now), &d->home_inode) == 0)
        return err_set(err, ERR_SYSTEM, "%s (JOBCTL_HOME) %s; its jobs continue once the directory is back", d->home,
                       where);
    return err_set(err, ERR_SYSTEM, "%s (JOBCTL_HOME) %s; the jobs in it are lost unless the directory is restored",
                   d->home, where);
}

void home_watch_look(struct daemon *d)
{
    struct err err = {0};
    char now[PATH_MAX];
    if (!dir_identity_gone(&d->home_inode, d->home))
        return;
    d->home_gone = true;
    home_watch_result(d, &err);
    log_error(NULL, "stopping: %s", err.text);
    if (dir_identity_path(now, sizeof(now), &d->home_inode) < 0)
        syslog(LOG_USER | LOG_ERR, "jobctl daemon: stopping: %s", err.text);
    daemon_stop(d);
}
