/* SPDX-License-Identifier: Apache-2.0 */
/* dir_walk.c - see dir_walk.h */
#include "engine/base/dir_walk.h"

#include <errno.h>
#include <string.h>

#include "engine/base/err.h"

int dir_walk_next(struct dirent **e, DIR *d, const char *path, struct err *err)
{
    do {
        errno = 0;
        *e = d ? readdir(d) : NULL;
    } while (*e && (strcmp((*e)->d_name, ".") == 0 || strcmp((*e)->d_name, "..") == 0));
    if (*e)
        return 1;
    return errno ? err_set_errno(err, errno, "cannot read the directory %s", path) : 0;
}
