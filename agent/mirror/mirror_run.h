/* SPDX-License-Identifier: Apache-2.0 */
/* mirror_run.h - the mirror process of a job: `jobctl-agent mirror FILE`
 *
 * A separate process, because mirror access may block for minutes and neither agent nor ranks may
 * wait for it. FILE is JSON:
 *
 *   {"here", "there", "job_dir", "keep", "origin", "job": {...}}    as struct mirror; job: job.json
 *
 * It takes the lease, copies back a checkpoint newer than the local ones, reports that it is ready,
 * and from then on copies each new checkpoint and everything else, until SIGTERM: then once more,
 * and releases the lease. It writes one JSON object per line to standard output:
 *
 *   {"ev":"ready"}                                  ranks may start
 *   {"ev":"restored"|"mirrored", "step", "bytes", "ms", "path"}
 *   {"ev":"warning", "text"}                        a copy failed; it will be retried
 *   {"ev":"refused", "text"}                        it could not start: ranks must not start
 *   {"ev":"lost", "text"}                           another machine has the lease: ranks must stop
 *
 * JOBCTL_LEASE_MS: how long to wait for a silent holder on another machine (30000).
 */
#ifndef AGENT_MIRROR_MIRROR_RUN_H
#define AGENT_MIRROR_MIRROR_RUN_H

struct err;

/* Runs until SIGTERM. -1 after it has sent "refused" or "lost". */
int mirror_run(const char *file, struct err *err);

#endif
