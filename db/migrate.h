/* SPDX-License-Identifier: Apache-2.0 */
/* migrate.h - bring an old store up to date, in one transaction, after a copy
 *
 * Version n of a store (PRAGMA user_version) is what the first n files of
 * db/migrate/ make of an empty one.  A file that was released is never edited:
 * a change is the next number.
 */
#ifndef DB_MIGRATE_H
#define DB_MIGRATE_H

#include <sqlite3.h>

struct err;

extern const char *const MIGRATIONS[];
int migrations_count(void);

/* Apply steps[version..count). An existing store is first copied to
 * `path`.v<version>. Failing leaves the store as it was. */
int migrate_run(sqlite3 *db, const char *path, const char *const *steps, int count,
                struct err *err);

#endif
