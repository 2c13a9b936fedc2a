/* SPDX-License-Identifier: Apache-2.0 */
/* commit_group.h - the events of one turn of the loop, in one transaction
 *
 * Events of agents that need only an acknowledgement are grouped: they are decided and written when they come, and
 * committed together at the end of the turn, or as soon as an event needs an effect. Only then are their agents
 * informed, sleeping requests woken, and each job.json written. If the commit fails, all jobs of the
 * group are as before it, and `lost` of active_jobs.h asks their agents to send the events again.
 *
 * Any other use of the store commits the group first (store_on_settle()); code that reads a job in memory for an answer
 * calls commit_group_flush().
 */
#ifndef CONTROLLER_JOB_COMMIT_GROUP_H
#define CONTROLLER_JOB_COMMIT_GROUP_H

#include <stdbool.h>

struct core_output;
struct daemon;
struct err;
struct event_source;
struct job;
struct job_past;

/* Call once the store is open and the loop runs. */
int commit_group_open(struct daemon *d, struct err *err);
/* Commits what is left. Accepts a daemon without one. */
void commit_group_close(struct daemon *d);

/* Call before the next write changes the job: `was` is restored on failure. */
int commit_group_keep(struct job *job, const struct job_past *was, struct err *err);

/* The job's results were written into the group (job_store.h). */
void commit_group_add(struct job *job, const struct core_output *out, const struct event_source *told);

/* Commits the group, if there is one. `but`, or NULL: the caller acknowledges the events of this job. -1: failed; every
 * job of it is as before. */
int commit_group_flush(struct daemon *d, const struct job *but, struct err *err);

#endif
