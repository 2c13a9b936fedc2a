/* SPDX-License-Identifier: Apache-2.0 */
/* request_job.h - finds the job of a request and answers with its row */
#ifndef CONTROLLER_REQUESTS_REQUEST_JOB_H
#define CONTROLLER_REQUESTS_REQUEST_JOB_H

#include <jansson.h>
#include <stdint.h>

struct daemon;
struct err;
struct event_row;
struct job;
struct job_row;
struct request;

/* Resolves a number, a name (its newest job) or `last` to an id. */
int request_job_id(int64_t *id, struct daemon *d, const char *word, struct err *err);
/* The same for what was meant before job `before` was submitted: names of later jobs are ignored. */
int request_job_id_before(int64_t *id, struct daemon *d, const char *word, int64_t before, struct err *err);

/* Loads the job of the request's path; if there is none, answers with the error and returns -1. */
int request_job_row(struct job_row *row, struct request *r);

/* The job of the path if it is not done; NULL: the error has been answered. */
struct job *request_job_open(struct request *r);

/* Answers with {job: ROW}. */
void request_job_answer(struct request *r, int status, int64_t id);
/* The same for a new job once its batch is committed, or the error of the commit. */
void request_job_submitted(struct request *r, int64_t id, int64_t batch);

/* An event of the event log as docs/API.md shows it. */
json_t *request_event_json(const struct event_row *row);

#endif
