/* SPDX-License-Identifier: Apache-2.0 */
/* fence.h - may this process still write into a directory that its job has leased?
 *
 * DIR/lease.json names the holder of the lease (agent/os/lease.h); each holder has a higher token than the previous
 * one. The agent gives its ranks the fence in JOBCTL_LEASE: "TOKEN PID START_TIME BOOT_ID" of the holder. A process
 * checks it before it publishes, moves or removes something in DIR. A process that takes the lease from a holder that
 * may be alive removes that holder's temporary files (scratch.h), so that a write which passed this check just before
 * cannot be renamed afterwards.
 */
#ifndef ENGINE_CONTRACT_FENCE_H
#define ENGINE_CONTRACT_FENCE_H

#include <jansson.h>
#include <stddef.h>

struct err;

enum { FENCE_TEXT = 128 };

/* The fence of the holder in a lease file. */
void fence_of(char out[FENCE_TEXT], const json_t *lease);

/* "job 3 (sana) on gpu1, home /srv/jobctl", as far as the lease file names it. */
void fence_holder(char *out, size_t size, const json_t *lease);

/* 0: the lease of `dir` belongs to `fence`, or there is none (it was removed, and nobody has taken it). A damaged file
 * counts as belonging to `fence` while DIR/lease-TOKEN exists. -1: ERR_CONFLICT, naming the new holder; another code:
 * the file cannot be read, so the holder is unknown. */
int fence_check(const char *dir, const char *fence, struct err *err);

/* The same with JOBCTL_LEASE; 0 if it is unset: the directory is the job's own. */
int fence_guard(const char *dir, struct err *err);

#endif
