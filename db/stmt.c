/* SPDX-License-Identifier: Apache-2.0 */
/* stmt.c - see stmt.h */
#include "db/stmt.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "db/integrity.h"
#include "engine/base/err.h"

static int fail(sqlite3_stmt *st, struct err *err)
{
    sqlite3 *db = sqlite3_db_handle(st);
    enum err_code code = sqlite3_errcode(db) == SQLITE_CONSTRAINT ? ERR_CONFLICT : ERR_SYSTEM;
    if (sqlite3_errcode(db) == SQLITE_FULL)
        err_set(err, ERR_SYSTEM, "the disk of %s is full, so the request was not stored; free some "
                "space and try again", sqlite3_db_filename(db, "main"));
    else if (integrity_is_damage(sqlite3_errcode(db)))
        integrity_failed(db, sqlite3_errmsg(db), err);
    else
        err_set(err, code, "store error: %s, in: %.160s", sqlite3_errmsg(db), sqlite3_sql(st));
    if (err && sqlite3_errcode(db) == SQLITE_FULL)
        err->errnum = ENOSPC;
    sqlite3_reset(st);
    return -1;
}

int stmt_bind(sqlite3_stmt *st, struct err *err, const char *types, va_list ap)
{
    int rc = SQLITE_OK;
    for (int i = 0; types[i] && rc == SQLITE_OK; i++) {
        if (types[i] == 't') {
            const char *text = va_arg(ap, const char *);
            rc = text ? sqlite3_bind_text(st, i + 1, text, -1, SQLITE_STATIC)
                      : sqlite3_bind_null(st, i + 1);
        } else if (types[i] == 'd') {
            double value = va_arg(ap, double);
            rc = isfinite(value) ? sqlite3_bind_double(st, i + 1, value)
                                 : sqlite3_bind_null(st, i + 1);
        } else {
            int64_t value = va_arg(ap, int64_t);
            rc = types[i] == 'o' && value < 0 ? sqlite3_bind_null(st, i + 1)
                                              : sqlite3_bind_int64(st, i + 1, value);
        }
    }
    return rc == SQLITE_OK ? 0 : fail(st, err);
}

int stmt_step(sqlite3_stmt *st, struct err *err)
{
    if (!st)
        return -1;
    int rc = sqlite3_step(st);
    if (rc == SQLITE_ROW)
        return 1;
    if (rc != SQLITE_DONE)
        return fail(st, err);
    sqlite3_reset(st);
    return 0;
}

int stmt_run(sqlite3_stmt *st, struct err *err)
{
    int rc = stmt_step(st, err);
    sqlite3_reset(st);
    return rc < 0 ? -1 : 0;
}

void stmt_text(char *out, size_t size, sqlite3_stmt *st, int column)
{
    const unsigned char *text = sqlite3_column_text(st, column);
    snprintf(out, size, "%s", text ? (const char *)text : "");
}

bool stmt_words(char *out, size_t size, sqlite3_stmt *st, int column)
{
    const unsigned char *text = sqlite3_column_text(st, column);
    stmt_text(out, size, st, column);
    const size_t end = strlen(out);
    err_make_printable(out);
    return !text || memcmp(out, text, end) == 0;
}

char *stmt_dup(sqlite3_stmt *st, int column, struct err *err)
{
    const unsigned char *text = sqlite3_column_text(st, column);
    char *copy = strdup(text ? (const char *)text : "");
    if (!copy)
        err_set(err, ERR_MEMORY, "out of memory for a text from the store");
    return copy;
}

double stmt_real(sqlite3_stmt *st, int column)
{
    if (sqlite3_column_type(st, column) == SQLITE_NULL)
        return NAN;
    return sqlite3_column_double(st, column);
}

int64_t stmt_int(sqlite3_stmt *st, int column, int64_t unknown)
{
    if (sqlite3_column_type(st, column) == SQLITE_NULL)
        return unknown;
    return sqlite3_column_int64(st, column);
}
