/* SPDX-License-Identifier: Apache-2.0 */
/* request_job.h - the job of a request: which one is meant, and the answer that shows it */
#ifndef CONTROLLER_DAEMON_REQUEST_JOB_H
#define CONTROLLER_DAEMON_REQUEST_JOB_H

#include <stdint.h>

struct daemon;
struct err;
struct request;

/* The id that a path or a spec means: a number, a name (its newest job) or `last`. */
int request_job_id(int64_t *id, struct daemon *d, const char *word, struct err *err);

/* Answer with {job: ROW}. */
void request_job_answer(struct request *r, int status, int64_t id);
/* The same for a new job whose batch is committed, or why it is not. */
void request_job_submitted(struct request *r, int64_t id, int64_t batch);

#endif
