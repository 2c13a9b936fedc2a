/* SPDX-License-Identifier: Apache-2.0 */
/* scratch.h - unfinished files: named so that one can prove whose they are, and swept
 *
 * A file or directory is written under ".tmp-<boot id>-<pid namespace>-<pid>-<start
 * time>-<name>" in the directory of its final name, synced, and renamed.  A writer
 * that dies leaves its scratch behind.  scratch_sweep() removes one only when the
 * name proves that its writer is dead: same boot, same pid namespace, and no
 * process of that pid and start time.  What another machine or container on a
 * shared directory may be writing is left alone.
 */
#ifndef ENGINE_CONTRACT_SCRATCH_H
#define ENGINE_CONTRACT_SCRATCH_H

struct err;

enum { SCRATCH_PATH = 4096 };

/* tmp[SCRATCH_PATH]: the scratch name for the final `path`. */
int scratch_name(char *tmp, const char *path, struct err *err);

/* Remove what dead writers of this boot left in `dir`; returns how many. */
int scratch_sweep(const char *dir);

/* Remove a file, or a directory with everything in it. Nothing there is fine. */
int scratch_remove(const char *path, struct err *err);

/* Make a directory and those above it. */
int scratch_mkdirs(const char *dir, struct err *err);

/* fsync() of a directory, so that names in it are on disk. */
int scratch_sync_dir(const char *dir, struct err *err);

#endif
