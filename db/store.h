/* SPDX-License-Identifier: Apache-2.0 */
/* store.h - the controller's database
 *
 * sqlite with synchronous=FULL: a transaction survives a power cut once store_commit() has
 * returned.  In WAL mode; on a file system that machines share, with a rollback journal.  One
 * writer, one thread.  A store of a newer version is rejected; an older one is backed up beside
 * itself and upgraded in one transaction.
 */
#ifndef DB_STORE_H
#define DB_STORE_H

#include "db/integrity.h"

struct err;
struct store;

/* Opens or creates `path` (mode 0600). The caller closes it. */
int store_open(struct store **out, const char *path, struct err *err);
/* The same, and checks it before it is upgraded. */
int store_open_checked(struct store **out, const char *path, enum integrity depth, struct err *err);
void store_close(struct store *s);

/* A transaction; without one each row is committed by itself. A failed commit is
 * rolled back. */
int store_begin(struct store *s, struct err *err);
int store_commit(struct store *s, struct err *err);
void store_rollback(struct store *s);

#endif
