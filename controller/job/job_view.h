/* SPDX-License-Identifier: Apache-2.0 */
/* job_view.h - the fields of a job as table columns and text
 *
 * One table row per displayed field of the API's ROW: its title, its format,
 * and the order in which a narrow table drops it.
 */
#ifndef CONTROLLER_JOB_JOB_VIEW_H
#define CONTROLLER_JOB_JOB_VIEW_H

#include <jansson.h>
#include <stddef.h>

#include "controller/base/terminal.h"

struct err;

enum { JOB_CELL = 512 };

/* A table of jobs with the fields of `names` ("id,name,state"), or the default ones if NULL.
 * An unknown field is an ERR_USAGE that lists them. */
int job_view_table(const struct terminal *t, const json_t *jobs, const char *names, struct err *err);

/* The name of the i-th field that a table can show, or NULL past the last. */
const char *job_view_column(int i);

/* One field of a row as text: "-" if unknown. */
void job_view_field(char *out, size_t size, const json_t *row, const char *name);

/* "1m05s", "2h03m", "3d04h"; "0.4s" below ten seconds. */
void job_view_duration(char *out, size_t size, double seconds);

/* "512 B", "52.0 KiB", "1.2 GiB" */
void job_view_bytes(char *out, size_t size, long long bytes);

/* Seconds since 1970 of an API time (ISO 8601); < 0: invalid. */
double job_view_time(const char *iso);

/* Formats an ISO time as local "2026-11-21 08:10:36"; "-" for NULL. */
void job_view_local(char *out, size_t size, const char *iso);

/* "job 7 (sana-icons)" */
void job_view_title(char *out, size_t size, const json_t *row);

/* Prints "job 7 (sana-icons): running". */
void job_view_heading(const struct terminal *t, const json_t *row);

/* The style of a job's state and result: green, red, ... */
enum terminal_style job_view_style(const json_t *row);

/* Compares an attempt's plan (docs/API.md) with what NCCL reported; "" if NCCL reported nothing. */
void job_view_nccl(char *out, size_t size, const json_t *plan);

#endif
