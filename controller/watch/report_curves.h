/* SPDX-License-Identifier: Apache-2.0 */
/* report_curves.h - the curves of a job over time, and what happened, as SVG text */
#ifndef CONTROLLER_WATCH_REPORT_CURVES_H
#define CONTROLLER_WATCH_REPORT_CURVES_H

#include <jansson.h>

struct buf;

/* job: the answer of GET /v1/jobs/JOB; curves: {NAME: [[step, value]...]}, with "time"; events: a list. */
void report_curves_write(struct buf *out, const json_t *job, const json_t *curves, const json_t *events);

#endif
