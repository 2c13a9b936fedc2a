/* SPDX-License-Identifier: Apache-2.0 */
/* job_wait.h - waits until a job is done; maps its result to an exit code */
#ifndef CONTROLLER_CLI_JOB_WAIT_H
#define CONTROLLER_CLI_JOB_WAIT_H

#include <jansson.h>

#include "controller/base/terminal.h"

struct client;
struct err;

/* Returns 1: done; 0: `seconds` elapsed (< 0: no limit). *row is a new reference in both cases; NULL if a far host
 * (client.h) could not be reached then. */
int job_wait(struct client *c, long long id, double seconds, json_t **row, struct err *err);

/* 0 succeeded, 1 failed, 3 cancelled, 93 retry limit reached. */
int job_wait_exit_code(const json_t *row);

/* The worse of two exit codes. */
int job_wait_worse(int a, int b);

/* "job 7 (x) succeeded after 1m05s" */
void job_wait_print(const struct terminal *t, const json_t *row);

#endif
