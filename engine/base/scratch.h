/* SPDX-License-Identifier: Apache-2.0 */
/* scratch.h - temporary files with an owner in their name, and removal of orphaned ones
 *
 * A file or directory is written under ".tmp-<boot id>-<pid namespace>-<pid>-<start
 * time>-<name>" in the directory of its final name, synced, and renamed.  A writer
 * that dies leaves its temporary file behind.  scratch_sweep() removes one only if the
 * name proves that its writer is dead: same boot, same pid namespace, and no
 * process of that pid and start time.  Files that another machine or container may be
 * writing in a shared directory are left alone.
 */
#ifndef ENGINE_BASE_SCRATCH_H
#define ENGINE_BASE_SCRATCH_H

struct err;

enum { SCRATCH_PATH = 4096 };

/* tmp[SCRATCH_PATH]: the temporary name for the final `path`. */
int scratch_name(char *tmp, const char *path, struct err *err);

/* Removes files of dead writers of this boot from `dir`; returns how many. */
int scratch_sweep(const char *dir);

/* Removes all such files, including those of writers that may be alive: for the only process that may write into `dir`
 * (engine/contract/fence.h). The writers' renames fail then. Returns how many. */
int scratch_sweep_all(const char *dir);

/* Removes a file, or a directory with its contents. No error if it does not exist. */
int scratch_remove(const char *path, struct err *err);

/* Creates a directory and its parents. */
int scratch_mkdirs(const char *dir, struct err *err);

/* fsync() of a directory, so that its entries are on disk. */
int scratch_sync_dir(const char *dir, struct err *err);

#endif
