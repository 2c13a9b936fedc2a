/* SPDX-License-Identifier: Apache-2.0 */
/* mirror_run.h - the process that keeps a job's mirror: `jobctl-agent mirror FILE`
 *
 * A process of its own, because the mirror may block for minutes and neither agent nor ranks may
 * wait for it.  FILE is JSON:
 *
 *   {"here", "there", "job_dir", "keep", "origin", "job": {...}}    as struct mirror; job: job.json
 *
 * It takes the lease, brings back a newer checkpoint than there is here, says that it is
 * ready, and from then on copies each new checkpoint and all beside it, until SIGTERM: then
 * once more, and lets go of the lease.  What it has to say goes to standard output, a JSON
 * object per line:
 *
 *   {"ev":"ready"}                                  ranks may start
 *   {"ev":"restored"|"mirrored", "step", "bytes", "ms", "path"}
 *   {"ev":"warning", "text"}                        a copy failed; it tries again
 *   {"ev":"refused", "text"}                        it could not begin: ranks may not start
 *   {"ev":"lost", "text"}                           another machine has the lease: ranks must stop
 *
 * JOBCTL_LEASE_MS is how long a silent holder on another machine is waited for (30000).
 */
#ifndef AGENT_MIRROR_MIRROR_RUN_H
#define AGENT_MIRROR_MIRROR_RUN_H

struct err;

/* Until SIGTERM. -1 after "refused" and "lost", which have said the same. */
int mirror_run(const char *file, struct err *err);

#endif
