/* SPDX-License-Identifier: Apache-2.0 */
/* schema.c - see schema.h; embeds schema.sql in the program */
#include "db/schema.h"

#include <stdio.h>

#include "db/integrity.h"
#include "engine/base/err.h"

/* The assembler reads the file; the Makefile has the dependency. */
__asm__(".section .rodata\nschema_sql:\n.incbin \"db/schema.sql\"\n.byte 0\n.previous\n");
extern const char schema_sql[];

static int version_read(int *version, sqlite3 *db, struct err *err)
{
    sqlite3_stmt *st = NULL;
    int rc = -1;
    if (sqlite3_prepare_v2(db, "PRAGMA user_version", -1, &st, NULL) != SQLITE_OK ||
        sqlite3_step(st) != SQLITE_ROW) {
        if (integrity_is_damage(sqlite3_errcode(db)))
            integrity_failed(db, sqlite3_errmsg(db), err);
        err_set(err, sqlite3_errcode(db) == SQLITE_NOMEM ? ERR_MEMORY : ERR_DATA, "cannot read the store: %s",
                sqlite3_errmsg(db));
    } else {
        *version = sqlite3_column_int(st, 0);
        rc = 0;
    }
    sqlite3_finalize(st);
    return rc;
}

int schema_open(sqlite3 *db, const char *path, struct err *err)
{
    char version_sql[64];
    int version = 0;
    if (version_read(&version, db, err) < 0)
        return -1;
    if (version == SCHEMA_VERSION)
        return 0;
    if (version != 0)
        return err_set(err, ERR_SYSTEM, "the store %s has version %d, but this jobctl reads version %d only; use the jobctl "
                       "that wrote it, or another $JOBCTL_HOME", path, version, SCHEMA_VERSION);
    snprintf(version_sql, sizeof(version_sql), "PRAGMA user_version=%d", SCHEMA_VERSION);
    if (sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL) == SQLITE_OK &&
        sqlite3_exec(db, schema_sql, NULL, NULL, NULL) == SQLITE_OK &&
        sqlite3_exec(db, version_sql, NULL, NULL, NULL) == SQLITE_OK &&
        sqlite3_exec(db, "COMMIT", NULL, NULL, NULL) == SQLITE_OK)
        return 0;
    err_set(err, ERR_SYSTEM, "cannot make the tables of the store %s: %s", path, sqlite3_errmsg(db));
    sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
    return -1;
}
