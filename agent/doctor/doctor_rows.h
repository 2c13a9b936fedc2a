/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_rows.h - what a doctor says, row by row (agent/doctor/doctor.h)
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
    const char *node; /* in rows from now on; NULL: they have none */
};

void doctor_rows_init(struct doctor_rows *r);

/* todo is left out where all is well. */
void doctor_row(struct doctor_rows *r, const char *check, enum row_status status, const char *todo,
                const char *seen, ...) __attribute__((format(printf, 5, 6)));

/* A row that is there already, as one of r->node. */
void doctor_rows_take(struct doctor_rows *r, const json_t *row);

/* {"rows", "fail", "warn", "unknown"}, a new object; r is done with. */
json_t *doctor_rows_end(struct doctor_rows *r);

#endif
