/* SPDX-License-Identifier: Apache-2.0 */
/* stmt.h - prepare once, bind, step; a failure quotes the statement
 *
 * Only for the files of this folder.  A statement is known by the address of
 * its text, which is therefore a static constant.  stmt_get() gives it back
 * clean; between stmt_get() and the next one for the same text it is the
 * caller's.
 */
#ifndef DB_STMT_H
#define DB_STMT_H

#include <sqlite3.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct store;

sqlite3 *store_handle(struct store *s);

/* NULL on failure. */
sqlite3_stmt *stmt_get(struct store *s, const char *sql, struct err *err);
void stmt_forget_all(struct store *s);

/* One argument per letter: i int64_t, t text or NULL, d double (NaN is stored
 * as NULL), o int64_t where a negative one is stored as NULL. */
int stmt_bind(sqlite3_stmt *st, struct err *err, const char *types, ...);

/* 1 a row, 0 done, -1 failed. */
int stmt_step(sqlite3_stmt *st, struct err *err);

/* Bind nothing more, expect no row, reset. 0 or -1. */
int stmt_run(sqlite3_stmt *st, struct err *err);

/* Copy a column into an array of `size` bytes, cut at its end; "" for NULL. */
void stmt_text(char *out, size_t size, sqlite3_stmt *st, int column);
char *stmt_dup(sqlite3_stmt *st, int column, struct err *err);
double stmt_real(sqlite3_stmt *st, int column);           /* NaN for NULL */
int64_t stmt_int(sqlite3_stmt *st, int column, int64_t unknown);

#endif
