/* SPDX-License-Identifier: Apache-2.0 */
/* machine_dir.h - the directory of a machine with the locks of its users (docs/SHARED-BOX.md)
 *
 * /run/jobctl, or $JOBCTL_MACHINE_DIR ("none": no leases). It belongs to root and is sticky (mode 1777, or 3770 for a
 * group), so each user can create files, and no user can remove those of another. In it:
 *
 *   gpu-UUID, cpu-N              empty; flock(2), exclusive, by the holder of the GPU or of the CPU slot
 *   turn                         empty; flock(2), exclusive, for the moment in which an agent looks and takes
 *   claim-UID-PID-RANDOM         one per attempt that waits or holds (machine_claims.h)
 *   name-UID-PID-RANDOM          the job's name, readable by its user, and by the group that it is shown to
 *
 * The owner of a file is that of the inode, not what its text says. An existing file is opened without O_CREAT
 * (fs.protected_regular forbids that in a sticky directory for files of others) and never written by another than its
 * owner; a link, FIFO or directory in its place is refused (safe_open.h). A new file appears under its name complete
 * and readable.
 *
 * Where there are no leases of all users, the jobs of one user's state directory take GPUs in a directory of the same
 * form in there.
 */
#ifndef AGENT_MACHINE_MACHINE_DIR_H
#define AGENT_MACHINE_MACHINE_DIR_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct err;
struct stat;

#define MACHINE_DIR_DEFAULT "/run/jobctl"
enum { MACHINE_DIR_PATH = 512, MACHINE_DIR_NAME = 128, MACHINE_DIR_ALL = -1, MACHINE_DIR_OWNER = -2 };

/* The directory; root makes the default one if it is missing. -1: there are no leases, because (ERR_NOT_FOUND) there
 * is none, or it is turned off, or (ERR_CONFLICT) the one that is there cannot be trusted. */
int machine_dir_find(char out[MACHINE_DIR_PATH], struct err *err);

/* STATE/gpus, which is made if it is missing. */
int machine_dir_own(char out[MACHINE_DIR_PATH], const char *state, struct err *err);

/* Opens a lock file, and makes it if it is missing; the lock is not taken. -1: err names the owner of the file in its
 * place. */
int machine_dir_open(const char *dir, const char *name, struct err *err);

/* Makes a file with a text, and replaces it if `replace`. locked: with an exclusive lock before it is visible.
 * readers: MACHINE_DIR_ALL, MACHINE_DIR_OWNER, or the number of a group of its owner. Returns the descriptor, for
 * writing. */
int machine_dir_make(const char *dir, const char *name, const char *text, bool replace, bool locked, int64_t readers,
                     struct err *err);

/* A file of the user `owner` (-1: of any user), or NULL. *st (or NULL): as it was read. */
json_t *machine_dir_read(const char *dir, const char *name, uid_t owner, struct stat *st);

/* A descriptor that is readable after something may have become free: a claim has changed, or the last process that
 * had one has ended. -1: look from time to time. */
int machine_dir_watch(const char *dir);

/* Reads all pending notifications. */
void machine_dir_watched(int fd);

/* "alice", or "user 1004" where there is no such name. */
const char *machine_dir_user(char *out, size_t size, uid_t uid);

/* The holder of a file's lock, from /proc/locks: "process 123 (python) of alice", or "a program". */
void machine_dir_locker(char *out, size_t size, const char *dir, const char *name);

#endif
