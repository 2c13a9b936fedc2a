/* SPDX-License-Identifier: Apache-2.0 */
/* tree.h - size and removal of a directory tree
 *
 * Symbolic links are not followed; a link itself is counted and removed. Mounts of other file
 * systems inside, and entries deeper than TREE_DEPTH, are left alone, with the directories that
 * hold them.
 */
#ifndef ENGINE_BASE_TREE_H
#define ENGINE_BASE_TREE_H

#include <stdint.h>

struct err;

enum { TREE_DEPTH = 64 };

/* Disk space in bytes used by `name` in the directory `at`; 0 if missing. */
int64_t tree_bytes(int at, const char *name);

/* Removes the tree. A missing tree is not an error. On failure *err is the first entry that could
 * not be removed; all others are gone. */
int tree_remove(int at, const char *name, struct err *err);

#endif
