/* SPDX-License-Identifier: Apache-2.0 */
/* store.h - the controller's database
 *
 * sqlite with synchronous=FULL: a transaction survives a power cut once store_commit() has
 * returned.  It uses WAL mode, or a rollback journal on a file system that machines share. One writer, one thread.  A
 * store of another version is rejected (schema.h).
 */
#ifndef DB_STORE_H
#define DB_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "db/integrity.h"

struct err;
struct store;

/* Opens or creates `path` (mode 0600). The caller closes it. */
int store_open(struct store **out, const char *path, struct err *err);
/* The same, and checks its integrity. */
int store_open_checked(struct store **out, const char *path, enum integrity depth, struct err *err);
void store_close(struct store *s);

/* A transaction; without one each row is committed by itself. A failed commit is
 * rolled back. */
int store_begin(struct store *s, struct err *err);
int store_commit(struct store *s, struct err *err);
void store_rollback(struct store *s);

/* A group: one transaction for several independent writers.  Each writes between store_join(),
 * which opens the group if there is none, and store_leave() or store_undo(), which rolls back the rows of this writer.
 * Nothing is on disk before store_commit_group() has returned 0; -1: the whole group is rolled back. Before any other
 * use of the store settle() is called, which must commit the group. */
void store_on_settle(struct store *s, void (*settle)(void *arg), void *arg);
int store_join(struct store *s, struct err *err);
int store_leave(struct store *s, struct err *err);
void store_undo(struct store *s);
int store_commit_group(struct store *s, struct err *err);

/* Returns at most `pages` unused pages to the file system, outside a transaction, if at least a quarter of the file is
 * unused; remaining unused pages serve later rows. *left: more remain, call it again. */
int store_shrink(bool *left, struct store *s, int pages, struct err *err);

/* Rows inserted, changed and deleted since the store was opened, not counting store_shrink(); wraps at 2^31. */
int64_t store_rows_written(struct store *s);

#endif
