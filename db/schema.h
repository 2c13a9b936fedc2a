/* SPDX-License-Identifier: Apache-2.0 */
/* schema.h - the tables of the store, and their version
 *
 * schema.sql defines the tables.  The version of a store is its PRAGMA user_version, 0 while it is empty.
 */
#ifndef DB_SCHEMA_H
#define DB_SCHEMA_H

#include <sqlite3.h>

struct err;

enum { SCHEMA_VERSION = 1 };

/* Creates the tables in an empty store, in one transaction. ERR_SYSTEM: the store has another version. */
int schema_open(sqlite3 *db, const char *path, struct err *err);

#endif
