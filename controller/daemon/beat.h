/* SPDX-License-Identifier: Apache-2.0 */
/* beat.h - once a second: is the home still in its place, and were the clocks set?
 *
 * A wall clock that was set, or a suspended machine, is reported once: in daemon.log, and to each job that has begun
 * (job_apply_clock; a waiting job gets the report with its next event). Messages that are due are sent (notifier.h).
 */
#ifndef CONTROLLER_DAEMON_BEAT_H
#define CONTROLLER_DAEMON_BEAT_H

struct daemon;

/* Call before the jobs are loaded. */
void beat_open(struct daemon *d);
void beat_close(struct daemon *d);

#endif
