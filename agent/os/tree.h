/* SPDX-License-Identifier: Apache-2.0 */
/* tree.h - a directory with everything in it: how much it takes, and away with it
 *
 * No symbolic link is followed: of one that is found the link is counted, and
 * removed.  What is mounted inside from another file system is not ours, and
 * neither is what lies deeper than TREE_DEPTH: it stays, and so does what holds it.
 */
#ifndef AGENT_OS_TREE_H
#define AGENT_OS_TREE_H

#include <stdint.h>

struct err;

enum { TREE_DEPTH = 64 };

/* Bytes that `name` in the directory `at` takes of the disk; 0 where it is not there. */
int64_t tree_bytes(int at, const char *name);

/* Remove it. Nothing there is fine. On failure *err is the first thing that would not go, and all that
 * would is gone. */
int tree_remove(int at, const char *name, struct err *err);

#endif
