/* SPDX-License-Identifier: Apache-2.0 */
/* curve_table.h - the curves of a job as CSV or JSON, a row per step that was kept */
#ifndef CONTROLLER_WATCH_CURVE_TABLE_H
#define CONTROLLER_WATCH_CURVE_TABLE_H

struct call;

/* For the job that the first argument names. */
int curve_table_print(struct call *call);

#endif
