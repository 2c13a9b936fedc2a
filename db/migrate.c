/* SPDX-License-Identifier: Apache-2.0 */
/* migrate.c - see migrate.h; embeds the SQL files in the program */
#include "db/migrate.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "db/integrity.h"
#include "engine/contract/err.h"

/* The assembler reads the file; the Makefile has the dependency. */
#define SQL_FILE(symbol, file)                                                          \
    __asm__(".section .rodata\n" #symbol ":\n.incbin \"" file "\"\n.byte 0\n.previous\n"); \
    extern const char symbol[]

SQL_FILE(jobctl_sql_0001, "db/migrate/0001.sql");
SQL_FILE(jobctl_sql_0002, "db/migrate/0002.sql");
SQL_FILE(jobctl_sql_0003, "db/migrate/0003.sql");
SQL_FILE(jobctl_sql_0004, "db/migrate/0004.sql");
SQL_FILE(jobctl_sql_0005, "db/migrate/0005.sql");
SQL_FILE(jobctl_sql_0006, "db/migrate/0006.sql");
SQL_FILE(jobctl_sql_0007, "db/migrate/0007.sql");
SQL_FILE(jobctl_sql_0008, "db/migrate/0008.sql");
SQL_FILE(jobctl_sql_0009, "db/migrate/0009.sql");
SQL_FILE(jobctl_sql_0010, "db/migrate/0010.sql");
SQL_FILE(jobctl_sql_0011, "db/migrate/0011.sql");
SQL_FILE(jobctl_sql_0012, "db/migrate/0012.sql");
SQL_FILE(jobctl_sql_0013, "db/migrate/0013.sql");

const char *const MIGRATIONS[] = { jobctl_sql_0001, jobctl_sql_0002, jobctl_sql_0003,
                                   jobctl_sql_0004, jobctl_sql_0005, jobctl_sql_0006,
                                   jobctl_sql_0007, jobctl_sql_0008, jobctl_sql_0009,
                                   jobctl_sql_0010, jobctl_sql_0011, jobctl_sql_0012,
                                   jobctl_sql_0013 };

int migrations_count(void)
{
    return (int)(sizeof(MIGRATIONS) / sizeof(MIGRATIONS[0]));
}

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

static int copy_beside(sqlite3 *db, const char *path, int version, struct err *err)
{
    char copy[4096];
    snprintf(copy, sizeof(copy), "%s.v%d", path, version);
    remove(copy);
    char *sql = sqlite3_mprintf("VACUUM INTO %Q", copy);
    if (!sql)
        return err_set(err, ERR_MEMORY, "out of memory for the copy of the store");
    int rc = sqlite3_exec(db, sql, NULL, NULL, NULL);
    sqlite3_free(sql);
    if (rc != SQLITE_OK)
        return err_set(err, ERR_SYSTEM, "cannot copy the store to %s before its migration: %s",
                       copy, sqlite3_errmsg(db));
    chmod(copy, 0600);
    return 0;
}

int migrate_run(sqlite3 *db, const char *path, const char *const *steps, int count, struct err *err)
{
    int version = 0;
    if (version_read(&version, db, err) < 0)
        return -1;
    if (version > count)
        return err_set(err, ERR_SYSTEM,
                       "the store %s has version %d, but this jobctl supports versions up to %d; "
                       "use the newer jobctl", path, version, count);
    if (version == count)
        return 0;
    if (version > 0 && copy_beside(db, path, version, err) < 0)
        return -1;
    if (sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL) != SQLITE_OK)
        return err_set(err, ERR_SYSTEM, "cannot migrate the store %s: %s", path, sqlite3_errmsg(db));
    char pragma[64];
    snprintf(pragma, sizeof(pragma), "PRAGMA user_version=%d", count);
    int at = version;
    while (at < count && sqlite3_exec(db, steps[at], NULL, NULL, NULL) == SQLITE_OK)
        at++;
    if (at == count && sqlite3_exec(db, pragma, NULL, NULL, NULL) == SQLITE_OK &&
        sqlite3_exec(db, "COMMIT", NULL, NULL, NULL) == SQLITE_OK)
        return 0;
    err_set(err, ERR_SYSTEM, "migration %d of the store %s failed; the store is unchanged: %s",
            at < count ? at + 1 : count, path, sqlite3_errmsg(db));
    sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
    return -1;
}
