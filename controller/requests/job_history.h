/* SPDX-License-Identifier: Apache-2.0 */
/* job_history.h - the attempts of a job, as `jobctl show` lists them, from its events
 *
 * Pure: no clock, no I/O.
 */
#ifndef CONTROLLER_REQUESTS_JOB_HISTORY_H
#define CONTROLLER_REQUESTS_JOB_HISTORY_H

#include <jansson.h>

struct event_row;

/* The caller sets `attempts` to an array and releases all three. */
struct job_history {
    json_t *attempts;   /* each with its nodes, plan and generations */
    json_t *plan;       /* the newest; NULL: none yet */
    json_t *set;        /* the overrides of its submit; NULL: none */
};

/* For events_each(), with a struct job_history. */
int job_history_add(void *history, const struct event_row *row);

#endif
