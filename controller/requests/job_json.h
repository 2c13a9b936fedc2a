/* SPDX-License-Identifier: Apache-2.0 */
/* job_json.h - a job as JSON: the ROW of docs/API.md */
#ifndef CONTROLLER_REQUESTS_JOB_JSON_H
#define CONTROLLER_REQUESTS_JOB_JSON_H

#include <jansson.h>
#include <stdint.h>

struct daemon;
struct err;
struct job;
struct job_row;

/* New references; NULL: out of memory. */
json_t *job_json_of_job(const struct job *job);
json_t *job_json_of_stored(struct daemon *d, const struct job_row *row);
/* The row in the store; the error says if the job was there, and its record was lost. */
int job_json_row(struct job_row *row, struct daemon *d, int64_t id, struct err *err);
/* Made from memory, else from the store; NULL with *err set. */
json_t *job_json_of_id(struct daemon *d, int64_t id, struct err *err);

/* The obstacle that currently blocks or slows down a placed job; NULL: nothing known. */
const char *job_json_obstacle(const struct job *job);

#endif
