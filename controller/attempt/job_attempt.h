/* SPDX-License-Identifier: Apache-2.0 */
/* job_attempt.h - one live attempt of a job: turns its agent's messages into inputs of the job */
#ifndef CONTROLLER_ATTEMPT_JOB_ATTEMPT_H
#define CONTROLLER_ATTEMPT_JOB_ATTEMPT_H

#include <stdbool.h>
#include <stdint.h>

struct job;

/* Finds the agent of the job's newest attempt, or with may_start starts it. Idempotent. */
void job_attempt_open(struct job *job, bool may_start);
void job_attempt_close(struct job *job);        /* the agent keeps running */

void job_attempt_launch(struct job *job);
void job_attempt_stop(struct job *job);
void job_attempt_ack(struct job *job, int64_t seq);
/* False if no agent is connected. */
bool job_attempt_checkpoint(struct job *job);

/* Asks the agent to resend what is not acknowledged. */
void job_attempt_repeat(struct job *job);

#endif
