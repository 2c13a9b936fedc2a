/* SPDX-License-Identifier: Apache-2.0 */
/* host_cache.h - what jobctl keeps on a host for other machines' controllers, and what of it may go
 *
 * Programs, in CACHE/jobctl/DIGEST/{bin,lib} (controller/ssh/programs.h). Each use of a version sets its
 * directory's time. One goes when it was not used for HOST_CACHE_DAYS, HOST_CACHE_VERSIONS others
 * were used after it, and no process on this machine runs from it.
 *
 * Attempts, in STATE/jobctl/hosted/KEY/ATTEMPT (agent/attempt/attach.h). One goes when nothing in
 * it has changed for HOST_CACHE_DAYS, nobody holds its lock, and the controller has all of its
 * events or has fenced it; the logs went there before them. What goes are the files of ours, by
 * their names: what a job has put beside them stays, and so do reports of incidents and everything
 * of KEY/checkpoints.
 *
 * Homes may be shared by many machines, so time counts more than what lives on this one.
 */
#ifndef AGENT_ATTEMPT_HOST_CACHE_H
#define AGENT_ATTEMPT_HOST_CACHE_H

#include <stdint.h>

enum { HOST_CACHE_DAYS = 7, HOST_CACHE_VERSIONS = 3 };

/* The version that `program`, .../DIGEST/bin/NAME, is of was used now. Where it is of none: nothing. */
void host_cache_use(const char *program);

/* Remove what may go: versions beside that of `program`, attempts in `hosted` but not `run_dir`.
 * now_s: Unix seconds. Failures are of no interest: the next one tries again. */
void host_cache_tidy(const char *program, const char *host_cache, const char *run_dir,
                     int64_t now_s);

#endif
