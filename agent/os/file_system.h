/* SPDX-License-Identifier: Apache-2.0 */
/* file_system.h - whether a directory is on a file system that other machines share
 *
 * There, memory maps are not coherent between machines, and locks may be missing.
 */
#ifndef AGENT_OS_FILE_SYSTEM_H
#define AGENT_OS_FILE_SYSTEM_H

struct err;

/* "NFS", "Lustre", ...; NULL: on this machine, or unknown.  `path` must exist. */
const char *file_system_shared(const char *path);

/* Sets the error for a lock on `path` that was refused with errno `code`; the file system may support no locks at all.
 * Returns -1. */
int file_system_lock_error(struct err *err, const char *path, int code);

#endif
