/* SPDX-License-Identifier: Apache-2.0 */
/* job_events.h - the events of a job in order */
#ifndef CONTROLLER_WATCH_JOB_EVENTS_H
#define CONTROLLER_WATCH_JOB_EVENTS_H

#include <stdbool.h>

struct call;

/* For the job that the first argument names; `follow`: until it is done, or Ctrl-C. Returns the exit code. */
int job_events_print(struct call *call, bool follow);

#endif
