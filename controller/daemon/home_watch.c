/* SPDX-License-Identifier: Apache-2.0 */
/* home_watch.c - see home_watch.h */
#include "controller/daemon/home_watch.h"

#include <stdio.h>
#include <syslog.h>

#include "agent/os/log.h"
#include "controller/base/home.h"
#include "engine/base/err.h"

int home_watch_result(const struct home *h, struct err *err)
{
    char where[PATH_MAX + 64], now[PATH_MAX];
    if (!h->gone)
        return 0;
    dir_identity_text(where, sizeof(where), &h->id, h->path);
    if (dir_identity_path(now, sizeof(now), &h->id) == 0)
        return err_set(err, ERR_SYSTEM, "%s (JOBCTL_HOME) %s; its jobs continue once the directory is back", h->path,
                       where);
    return err_set(err, ERR_SYSTEM, "%s (JOBCTL_HOME) %s; the jobs in it are lost unless the directory is restored",
                   h->path, where);
}

bool home_watch_look(struct home *h)
{
    struct err err = {0};
    char now[PATH_MAX];
    if (!dir_identity_gone(&h->id, h->path))
        return false;
    h->gone = true;
    home_watch_result(h, &err);
    log_error(NULL, "stopping: %s", err.text);
    if (dir_identity_path(now, sizeof(now), &h->id) < 0)
        syslog(LOG_USER | LOG_ERR, "jobctl daemon: stopping: %s", err.text);
    return true;
}
