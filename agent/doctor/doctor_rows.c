/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_rows.c - see doctor_rows.h */
#include "agent/doctor/doctor_rows.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "agent/plan/plan_internal.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_make.h"

static const char *const names[ROW_STATUSES] = {"ok", "warn", "fail", "unknown"};

void doctor_rows_init(struct doctor_rows *r)
{
    *r = (struct doctor_rows){.list = json_array()};
}

static void add(struct doctor_rows *r, json_t *row, enum row_status status)
{
    r->count[status]++;
    if (r->node)
        json_object_set_new(row, "node", json_text(r->node));
    json_array_append_new(r->list, row);
}

void doctor_row(struct doctor_rows *r, const char *check, enum row_status status, const char *todo,
                const char *seen, ...)
{
    char text[520];
    va_list ap;
    va_start(ap, seen);
    vsnprintf(text, sizeof(text), seen, ap);
    va_end(ap);
    err_make_printable(text);
    add(r, json_make("{s:s, s:s, s:s, s:s}", "check", check, "status", names[status], "seen", text,
                     "todo", status == ROW_OK ? "" : todo), status);
}

void doctor_rows_take(struct doctor_rows *r, const json_t *row)
{
    int status = 0;
    while (status < ROW_UNKNOWN && strcmp(field_text(row, "status"), names[status]) != 0)
        status++;
    add(r, json_copy((json_t *)(uintptr_t)row), (enum row_status)status);
}

json_t *doctor_rows_end(struct doctor_rows *r)
{
    return json_make("{s:o, s:i, s:i, s:i}", "rows", r->list, "fail", r->count[ROW_FAIL], "warn",
                     r->count[ROW_WARN], "unknown", r->count[ROW_UNKNOWN]);
}
