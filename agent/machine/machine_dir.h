/* SPDX-License-Identifier: Apache-2.0 */
/* machine_dir.h - a machine's directory for its users' locks (docs/SHARED-BOX.md)
 *
 * /run/jobctl, or $JOBCTL_MACHINE_DIR ("none": no leases). It belongs to root and is sticky (mode 1777, or 3770 for a
 * group), so every user can create files, and nobody can remove another user's files. Files:
 *
 *   gpu-UUID, cpu-N              empty; flock(2), exclusive, by the holder of the GPU or of the CPU slot
 *   turn                         empty; flock(2), exclusive, for the moment in which an agent looks and takes
 *   claim-UID-PID-RANDOM         one per attempt that waits or holds (machine_claims.h)
 *   name-UID-PID-RANDOM          the job's name, readable by its user, and by the group that it is shown to
 *
 * A file's owner is the inode's owner, whatever its text claims. An existing file is opened without O_CREAT
 * (fs.protected_regular forbids that in a sticky directory for files of others) and written only by its owner; a link,
 * FIFO or directory in its place is refused (safe_open.h). A new file gets its name only when it is complete and
 * readable.
 *
 * Without machine-wide leases, the jobs of a user's state directory lease GPUs in a directory of the same form inside
 * it.
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

/* Finds the directory; root creates the default one if it is missing. -1: there are no leases. ERR_NOT_FOUND: there is
 * no directory, or leases are turned off; ERR_CONFLICT: the existing directory cannot be trusted. */
int machine_dir_find(char out[MACHINE_DIR_PATH], struct err *err);

/* STATE/gpus, created if missing. */
int machine_dir_own(char out[MACHINE_DIR_PATH], const char *state, struct err *err);

/* Opens a lock file, creating it if missing; does not take the lock. -1: err names the owner of the file in its
 * place. */
int machine_dir_open(const char *dir, const char *name, struct err *err);

/* Creates a file with a text, or replaces it if `replace`. locked: takes an exclusive lock before the file is visible.
 * readers: MACHINE_DIR_ALL, MACHINE_DIR_OWNER, or the id of one of its owner's groups. Returns the descriptor, for
 * writing. */
int machine_dir_make(const char *dir, const char *name, const char *text, bool replace, bool locked, int64_t readers,
                     struct err *err);

/* The text of a file that belongs to `owner` (-1: any user), or NULL. *st (may be NULL): the file as it was read. */
json_t *machine_dir_read(const char *dir, const char *name, uid_t owner, struct stat *st);

/* A descriptor that becomes readable when something may have become free: a claim has changed, or the last process
 * holding one has ended. -1: poll instead. */
int machine_dir_watch(const char *dir);

/* Reads all pending notifications. */
void machine_dir_watched(int fd);

/* "alice", or "user 1004" where there is no such name. */
const char *machine_dir_user(char *out, size_t size, uid_t uid);

/* The holder of a file's lock, from /proc/locks: "process 123 (python) of alice", or "a program". */
void machine_dir_locker(char *out, size_t size, const char *dir, const char *name);

#endif
