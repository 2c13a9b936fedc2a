/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_rows.h - the rows of a doctor's report (agent/doctor/doctor.h)
 *
 * Pure: no clock, no I/O.
 */
#ifndef AGENT_DOCTOR_DOCTOR_ROWS_H
#define AGENT_DOCTOR_DOCTOR_ROWS_H

#include <jansson.h>

enum row_status { ROW_OK, ROW_WARN, ROW_FAIL, ROW_UNKNOWN, ROW_STATUSES };

struct doctor_rows {
    json_t     *list;
    int         count[ROW_STATUSES];
    const char *node; /* added to rows from now on; NULL: no node */
};

void doctor_rows_init(struct doctor_rows *r);

/* todo is dropped if the status is ok. */
void doctor_row(struct doctor_rows *r, const char *check, enum row_status status, const char *todo,
                const char *seen, ...) __attribute__((format(printf, 5, 6)));

/* Adds an existing row, under the name r->node. */
void doctor_rows_take(struct doctor_rows *r, const json_t *row);

/* {"rows", "fail", "warn", "unknown"}, a new object; r must not be used afterwards. */
json_t *doctor_rows_end(struct doctor_rows *r);

#endif
