/* SPDX-License-Identifier: Apache-2.0 */
/* encode_lock.h - one job at a time fills a cache; the others wait, and name that job
 *
 * A lock of flock() on CACHE/lock, which the kernel releases when its holder dies.  The file names the holder.
 * Shards are correct without it, because all writers give the same bytes: on a file system without locks, two jobs do
 * the same work twice.
 */
#ifndef ENGINE_ENCODE_ENCODE_LOCK_H
#define ENGINE_ENCODE_ENCODE_LOCK_H

enum { ENCODE_HOLDER = 400 };

struct err;

/* *fd >= 0: taken. *fd -1: another has it, holder[ENCODE_HOLDER] names it: "job 3 (sana) on gpu1". */
int encode_lock_take(int *fd, char *holder, const char *dir, struct err *err);
void encode_lock_release(int fd); /* also of -1 */

#endif
