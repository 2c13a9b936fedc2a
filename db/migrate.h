/* SPDX-License-Identifier: Apache-2.0 */
/* migrate.h - upgrades an old store in one transaction, after a backup copy
 *
 * Version n of a store (PRAGMA user_version) results from the first n files of
 * db/migrate/ applied to an empty one.  A released file is never edited; a change
 * gets the next number.
 */
#ifndef DB_MIGRATE_H
#define DB_MIGRATE_H

#include <sqlite3.h>

struct err;

extern const char *const MIGRATIONS[];
int migrations_count(void);

/* Applies steps[version..count). An existing store is first copied to
 * `path`.v<version>. On failure the store is unchanged. */
int migrate_run(sqlite3 *db, const char *path, const char *const *steps, int count, struct err *err);

#endif
