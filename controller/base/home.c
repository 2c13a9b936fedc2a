/* SPDX-License-Identifier: Apache-2.0 */
/* home.c - see home.h */
#include "controller/base/home.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/base/err.h"

static int fits(int n, size_t size, struct err *err)
{
    if (n >= 0 && (size_t)n < size)
        return 0;
    return err_set(err, ERR_USAGE, "the path of jobctl's state is too long; set JOBCTL_HOME to a "
                   "shorter one");
}

int home_dir(char *out, size_t size, struct err *err)
{
    const char *own = getenv("JOBCTL_HOME"), *xdg = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");
    char cwd[PATH_MAX];
    if (own && own[0] == '/')
        return fits(snprintf(out, size, "%s", own), size, err);
    if (own && own[0]) {
        if (!getcwd(cwd, sizeof(cwd)))
            return err_set(err, ERR_SYSTEM, "the current directory does not exist, and JOBCTL_HOME is relative to it");
        return fits(snprintf(out, size, "%s/%s", cwd, own), size, err);
    }
    if (xdg && xdg[0] == '/')
        return fits(snprintf(out, size, "%s/jobctl", xdg), size, err);
    if (!home || home[0] != '/')
        return err_set(err, ERR_USAGE, "HOME is not set; set HOME, or JOBCTL_HOME to a directory for jobctl's state");
    return fits(snprintf(out, size, "%s/.local/state/jobctl", home), size, err);
}

bool home_is_here(const struct home *h)
{
    return dir_identity_here(&h->id, h->path);
}

int home_settle(struct err *err)
{
    char dir[PATH_MAX];
    const char *own = getenv("JOBCTL_HOME");
    if (!own || !own[0] || own[0] == '/')
        return 0;
    if (home_dir(dir, sizeof(dir), err) < 0)
        return -1;
    return setenv("JOBCTL_HOME", dir, 1) == 0 ? 0 : err_set(err, ERR_MEMORY, "out of memory");
}

int home_path(char *out, size_t size, const char *name, struct err *err)
{
    char dir[PATH_MAX];
    if (home_dir(dir, sizeof(dir), err) < 0)
        return -1;
    return fits(snprintf(out, size, "%s/%s", dir, name), size, err);
}
