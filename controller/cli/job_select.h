/* SPDX-License-Identifier: Apache-2.0 */
/* job_select.h - resolves job arguments: 7, last, 3-5, 3,5-8, or a name */
#ifndef CONTROLLER_CLI_JOB_SELECT_H
#define CONTROLLER_CLI_JOB_SELECT_H

#include <jansson.h>

struct client;
struct err;

/* The rows of all jobs in `args`, in that order, without duplicates; a new array. A missing job is
 * ERR_NOT_FOUND, except inside a range that contains other jobs. */
int job_select(struct client *c, json_t **rows, int nargs, char **args, struct err *err);

/* The rows of all jobs that are not done, newest first; a new array. */
int job_select_active(struct client *c, json_t **rows, struct err *err);

/* Members of a sweep's row, by index: a new list, empty if the row is no sweep; NULL with *err. */
json_t *job_select_members(struct client *c, const json_t *row, struct err *err);

/* Puts the members of each sweep in front of it. */
int job_select_expand(struct client *c, json_t **rows, struct err *err);

#endif
