/* SPDX-License-Identifier: Apache-2.0 */
/* code_tree.h - the files of a snapshot in a directory: the read-only original, and writable copies
 *
 *   .../code/DIGEST/manifest.json    code_manifest.h; its hard links are the jobs that need the original
 *   .../code/DIGEST/tree/            the files: 0400, programs and directories 0500
 *
 * A tree is made under a temporary name and renamed when it is whole, so a tree under its name is complete; the remains
 * of a killed process are removed by the next one.
 */
#ifndef AGENT_CODE_CODE_TREE_H
#define AGENT_CODE_CODE_TREE_H

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "agent/code/code_manifest.h"

struct err;

#define CODE_TREE     "tree"
#define CODE_MANIFEST "manifest.json"

enum code_mode { CODE_ORIGINAL, CODE_WRITABLE };

/* Copies FROM/<path> to TO/<path> (its directories are made) and compares the copy with the entry: ERR_DATA if
 * not. Links are made again. */
int code_tree_put(const char *from, const char *to, const struct code_entry *entry, enum code_mode mode,
                  struct err *err);

/* The same for a file whose bytes come next from the descriptor `in`. */
int code_tree_receive(int in, const char *to, const struct code_entry *entry, struct err *err);

/* No directory of the original may be written any more. */
int code_tree_close(const char *dir, struct err *err);

/* The writable copy `to` of the original `from` (its directory DIGEST). An existing copy is kept. The copy is made as
 * TO.part; the caller ensures that no other process makes it. */
int code_tree_copy(const char *from, const char *to, struct err *err);

/* Is the original there, with files of the right sizes? */
bool code_tree_whole(const char *dir, const json_t *manifest);

/* Removes a tree, also of directories that may not be written. No error if it is not there. */
int code_tree_remove(const char *path, struct err *err);

/* Lets its user write all directories, so that anybody's rm can remove them. */
void code_tree_loosen(const char *path);

#endif
