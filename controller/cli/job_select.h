/* SPDX-License-Identifier: Apache-2.0 */
/* job_select.h - which jobs somebody means: 7, last, 3-5, 3,5-8, or a name */
#ifndef CONTROLLER_CLI_JOB_SELECT_H
#define CONTROLLER_CLI_JOB_SELECT_H

#include <jansson.h>

struct client;
struct err;

/* The rows of all jobs that `args` name, in the order given, each once; a new array. A job that
 * does not exist is an ERR_NOT_FOUND, except inside a range that has others. */
int job_select(struct client *c, json_t **rows, int nargs, char **args, struct err *err);

/* Is it made of ids only ("7", "3-5", "3,5-8")? */
int job_select_is_ids(const char *arg);

#endif
