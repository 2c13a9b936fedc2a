/* SPDX-License-Identifier: Apache-2.0 */
/* job_json.h - ROW of docs/API.md: a job as every answer shows it */
#ifndef CONTROLLER_DAEMON_JOB_JSON_H
#define CONTROLLER_DAEMON_JOB_JSON_H

#include <jansson.h>
#include <stdint.h>

struct daemon;
struct err;
struct job;
struct job_row;

/* New references; NULL when memory ran out. */
json_t *job_json_of_job(const struct job *job);
json_t *job_json_of_stored(struct daemon *d, const struct job_row *row);
/* From memory, or else from the store; NULL with *err set. */
json_t *job_json_of_id(struct daemon *d, int64_t id, struct err *err);

/* What keeps a job that has its place from going on, or slows it down, now; NULL: nothing that is known. */
const char *job_json_obstacle(const struct job *job);
/* "why" in one line: the reason as shown in a row. */
void job_json_reason(char *out, unsigned long size, const struct job *job);

#endif
