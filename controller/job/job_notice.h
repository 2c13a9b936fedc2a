/* SPDX-License-Identifier: Apache-2.0 */
/* job_notice.h - which events of a job are news for the targets of config.yaml
 *
 * The rows (db/notices.h) are written in the transaction of the events, so that no message is lost and none is made
 * twice; the daemon's notifier sends them.
 */
#ifndef CONTROLLER_JOB_JOB_NOTICE_H
#define CONTROLLER_JOB_JOB_NOTICE_H

struct core_output;
struct err;
struct job;
struct job_core;

/* In the open transaction. `was`: before these events. A config.yaml that cannot be read is logged, and no message is
 * sent. -1: the store failed. */
int job_notice_note(struct job *job, const struct job_core *was, const struct core_output *out, struct err *err);

#endif
