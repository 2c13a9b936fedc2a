/* SPDX-License-Identifier: Apache-2.0 */
/* stmt.h - prepared statements: cache, bind, step; errors quote the statement
 *
 * Only for the files of this folder.  A statement is identified by the address
 * of its text, which must be a static constant.  stmt_query() returns it reset; it
 * belongs to the caller until the next query of the same text.
 */
#ifndef DB_STMT_H
#define DB_STMT_H

#include <sqlite3.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct store;

sqlite3 *store_handle(struct store *s);

/* One argument per letter: i int64_t, t text or NULL, d double (NaN is stored
 * as NULL), o int64_t where a negative one is stored as NULL. NULL on failure. */
sqlite3_stmt *stmt_query(struct store *s, struct err *err, const char *sql, const char *types, ...);

/* The same for a statement without rows; runs it. 0 or -1. */
int stmt_do(struct store *s, struct err *err, const char *sql, const char *types, ...);

/* 0 or -1; used by stmt_query() and stmt_do() only. */
int stmt_bind(sqlite3_stmt *st, struct err *err, const char *types, va_list ap);

/* Returns 1: a row; 0: done; -1: failed, or st is NULL because its query failed. */
int stmt_step(sqlite3_stmt *st, struct err *err);

/* Steps a statement without rows and resets it. 0 or -1. */
int stmt_run(sqlite3_stmt *st, struct err *err);

/* Copies a column into an array of `size` bytes, truncated; "" for NULL. */
void stmt_text(char *out, size_t size, sqlite3_stmt *st, int column);
/* The same for text to display: bytes that are not printable UTF-8 become '?'. False: at least one was replaced. */
bool stmt_words(char *out, size_t size, sqlite3_stmt *st, int column);
char *stmt_dup(sqlite3_stmt *st, int column, struct err *err);
double stmt_real(sqlite3_stmt *st, int column);           /* NaN for NULL */
int64_t stmt_int(sqlite3_stmt *st, int column, int64_t unknown);

#endif
