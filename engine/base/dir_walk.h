/* SPDX-License-Identifier: Apache-2.0 */
/* dir_walk.h - the entries of a directory, with disk errors distinguished from its end
 *
 *     while ((rc = dir_walk_next(&e, d, path, err)) > 0)
 *
 * For every list that decides what is kept, resumed or deleted: readdir() gives NULL for both, and a checkpoint
 * that was not listed would count as one that was never written.
 */
#ifndef ENGINE_BASE_DIR_WALK_H
#define ENGINE_BASE_DIR_WALK_H

#include <dirent.h>

struct err;

/* 1 and the next entry other than "." and ".."; 0 at the end, and if `d` is NULL; -1 with a sentence that names
 * `path`.  The entry is valid until the next call. */
int dir_walk_next(struct dirent **e, DIR *d, const char *path, struct err *err);

#endif
