/* SPDX-License-Identifier: Apache-2.0 */
/* code_tree.h - the files of a snapshot in a directory: the read-only original, and writable copies
 *
 *   .../code/DIGEST/manifest.json    code_manifest.h; its hard links are the jobs that need the original
 *   .../code/DIGEST/tree/            the files: 0400, programs and directories 0500
 *
 * A tree is built under a temporary name and renamed when complete, so a tree under its final name is complete; the
 * next process removes what a killed one left behind.
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

/* The same for a file whose bytes are the next ones read from the descriptor `in`. */
int code_tree_receive(int in, const char *to, const struct code_entry *entry, struct err *err);

/* Makes all directories of the original read-only. */
int code_tree_close(const char *dir, struct err *err);

/* The writable copy `to` of the original `from` (its directory DIGEST). An existing copy is kept. The copy is made as
 * TO.part; the caller ensures that no other process makes it. */
int code_tree_copy(const char *from, const char *to, struct err *err);

/* Does the original exist, with files of the right sizes? */
bool code_tree_whole(const char *dir, const json_t *manifest);

/* Removes a tree, including read-only directories. A missing tree is no error. */
int code_tree_remove(const char *path, struct err *err);

/* Makes all directories writable by their owner, so that a plain rm can remove them. */
void code_tree_loosen(const char *path);

#endif
