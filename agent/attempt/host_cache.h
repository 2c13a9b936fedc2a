/* SPDX-License-Identifier: Apache-2.0 */
/* host_cache.h - removes old programs and attempts that remote controllers left on this host
 *
 * Programs, in CACHE/jobctl/DIGEST/{bin,lib} (controller/ssh/programs.h). Each use of a version
 * updates its directory's time. A version is removed if it was not used for HOST_CACHE_DAYS,
 * HOST_CACHE_VERSIONS others were used after it, and no process on this machine runs it.
 *
 * Attempts, in STATE/jobctl/hosted/KEY/ATTEMPT (agent/attempt/attach.h). An attempt is removed if
 * nothing in it has changed for HOST_CACHE_DAYS, its lock is free, and the controller has all of
 * its events or has fenced it; the logs were sent before the events. Only files of jobctl are
 * removed, by name: files that a job added are kept, and so are incident reports and everything in
 * KEY/checkpoints.
 *
 * Code originals, in STATE/jobctl/code/DIGEST (agent/code/code_receive.h), and broken transfers are removed if not used
 * for HOST_CACHE_DAYS. The jobs' copies, in KEY/code, contain files that scripts wrote: they are removed with the job
 * (attach.c).
 *
 * Many machines may share a home directory, so age decides as well as this machine's processes.
 */
#ifndef AGENT_ATTEMPT_HOST_CACHE_H
#define AGENT_ATTEMPT_HOST_CACHE_H

#include <stdint.h>

enum { HOST_CACHE_DAYS = 7, HOST_CACHE_VERSIONS = 3 };

/* Marks the version of `program`, .../DIGEST/bin/NAME, as used now. Other paths are ignored. */
void host_cache_use(const char *program);

/* Removes old versions except that of `program`, and attempts in `hosted` except run_dir. now_s:
 * Unix seconds. Failures are ignored: the next call tries again. */
void host_cache_tidy(const char *program, const char *host_cache, const char *run_dir, int64_t now_s);

#endif
