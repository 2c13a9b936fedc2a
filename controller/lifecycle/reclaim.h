/* SPDX-License-Identifier: Apache-2.0 */
/* reclaim.h - which removals would free the disk that a job waits for
 *
 * Once per wait a thread measures the directories of the newest RECLAIM_SCAN done jobs that may be removed and lie on
 * the file system of the job's checkpoints. The sentence is in job->texts->frees, which `status` and `why` show.
 * No command removes a checkpoint.dir that a spec names: job->texts->by_hand lists the largest of these, each once,
 * except those that an unfinished job names too. Nothing is removed here.
 */
#ifndef CONTROLLER_LIFECYCLE_RECLAIM_H
#define CONTROLLER_LIFECYCLE_RECLAIM_H

struct job;

enum { RECLAIM_SCAN = 500 };

/* Starts a measurement if the job waits for its disk and this wait was not measured yet; drops the result of an earlier
 * wait. */
void reclaim_look(struct job *job);

#endif
