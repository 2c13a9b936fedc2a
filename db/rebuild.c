/* SPDX-License-Identifier: Apache-2.0 */
/* rebuild.c - see rebuild.h */
#include "db/rebuild.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "db/integrity.h"
#include "db/stmt.h"
#include "db/store.h"
#include "engine/base/err.h"

/* ---- copies ---- */

static int vacuum_into(sqlite3 *db, const char *to, struct err *err)
{
    char *sql = sqlite3_mprintf("PRAGMA auto_vacuum=INCREMENTAL; VACUUM INTO %Q", to);
    const int code = sql ? sqlite3_exec(db, sql, NULL, NULL, NULL) : SQLITE_NOMEM;
    sqlite3_free(sql);
    if (code == SQLITE_OK && chmod(to, 0600) == 0)
        return 0;
    err_set(err, ERR_SYSTEM, "cannot copy the store to %s: %s", to, sqlite3_errmsg(db));
    unlink(to);
    return -1;
}

int rebuild_copy(const char *from, const char *to, struct err *err)
{
    sqlite3 *db = NULL;
    int rc = -1;
    unlink(to);
    if (sqlite3_open_v2(from, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK)
        err_set(err, ERR_NOT_FOUND, "cannot open the store %s: %s", from, db ? sqlite3_errmsg(db) : "out of memory");
    else if (sqlite3_busy_timeout(db, 5000), integrity_check(db, INTEGRITY_FULL, err) == 0)
        rc = vacuum_into(db, to, err);
    sqlite3_close(db);
    return rc;
}

/* ---- jobs of another store ---- */

static const char TAKE[] =
    "BEGIN IMMEDIATE;"
    "CREATE TEMP TABLE taken AS SELECT id FROM old.jobs WHERE id NOT IN (SELECT id FROM main.jobs) AND "
    "  id NOT IN (SELECT job FROM main.removed);"
    "INSERT INTO main.jobs SELECT * FROM old.jobs WHERE id IN temp.taken;"
    "INSERT INTO main.specs SELECT * FROM old.specs WHERE job IN temp.taken;"
    "INSERT INTO main.events SELECT * FROM old.events WHERE job IN temp.taken;"
    "INSERT INTO main.attempts SELECT * FROM old.attempts WHERE job IN temp.taken;"
    "INSERT INTO main.checkpoints SELECT * FROM old.checkpoints WHERE job IN temp.taken;"
    "INSERT INTO main.metrics SELECT * FROM old.metrics WHERE job IN temp.taken;"
    "INSERT INTO main.goodput SELECT * FROM old.goodput WHERE job IN temp.taken;"
    "INSERT INTO main.mentions SELECT * FROM old.mentions WHERE job IN temp.taken;"
    "INSERT INTO main.orphans SELECT * FROM old.orphans WHERE job IN temp.taken;"
    "INSERT INTO main.notices SELECT * FROM old.notices WHERE job IN temp.taken;"
    "INSERT OR IGNORE INTO main.submit_keys SELECT * FROM old.submit_keys WHERE job IN temp.taken;"
    "INSERT OR IGNORE INTO main.nodes SELECT * FROM old.nodes;"
    "INSERT OR IGNORE INTO main.removed SELECT * FROM old.removed WHERE job NOT IN (SELECT id FROM main.jobs);"
    "COMMIT;";

static int64_t count_taken(sqlite3 *db)
{
    sqlite3_stmt *st = NULL;
    int64_t n = 0;
    if (sqlite3_prepare_v2(db, "SELECT count(*) FROM temp.taken", -1, &st, NULL) == SQLITE_OK &&
        sqlite3_step(st) == SQLITE_ROW)
        n = sqlite3_column_int64(st, 0);
    sqlite3_finalize(st);
    return n;
}

int rebuild_take(int64_t *taken, struct store *s, const char *from, struct err *err)
{
    sqlite3 *db = store_handle(s);
    char *attach = sqlite3_mprintf("ATTACH %Q AS old", from);
    int code = attach ? sqlite3_exec(db, attach, NULL, NULL, NULL) : SQLITE_NOMEM;
    sqlite3_free(attach);
    if (code == SQLITE_OK)
        code = sqlite3_exec(db, TAKE, NULL, NULL, NULL);
    *taken = code == SQLITE_OK ? count_taken(db) : 0;
    if (code != SQLITE_OK)
        err_set(err, ERR_SYSTEM, "cannot take jobs from %s: %s", from, sqlite3_errmsg(db));
    store_rollback(s);
    sqlite3_exec(db, "DROP TABLE IF EXISTS temp.taken; DETACH old", NULL, NULL, NULL);
    return code == SQLITE_OK ? 0 : -1;
}

/* ---- one job ---- */

static const char *const FORGET[] = {
    "DELETE FROM specs WHERE job=?",       "DELETE FROM events WHERE job=?", "DELETE FROM attempts WHERE job=?",
    "DELETE FROM checkpoints WHERE job=?", "DELETE FROM goodput WHERE job=?", "DELETE FROM mentions WHERE job=?",
    "DELETE FROM notices WHERE job=?",     "DELETE FROM submit_keys WHERE job=?", "DELETE FROM jobs WHERE id=?",
};
static const char CURVES[] = "DELETE FROM metrics WHERE job=?";
static const char ORPHANS[] = "DELETE FROM orphans WHERE job=?";
static const char LATER[] = "PRAGMA defer_foreign_keys=ON";
static const char INTACT[] = "SELECT count(*), coalesce(min(seq), 0), coalesce(max(seq), 0), "
                             "coalesce(sum(json_valid(body)), 0) FROM events WHERE job = ?1";
static const char SPEC[] = "SELECT json_valid(canonical) FROM specs WHERE job=?";

int rebuild_forget(struct store *s, int64_t job, struct err *err)
{
    sqlite3_exec(store_handle(s), LATER, NULL, NULL, NULL);     /* curves and orphans refer to the job */
    for (size_t i = 0; i < sizeof(FORGET) / sizeof(FORGET[0]); i++)
        if (stmt_do(s, err, FORGET[i], "i", job) < 0)
            return -1;
    return 0;
}

int rebuild_drop(struct store *s, int64_t job, struct err *err)
{
    if (store_begin(s, err) < 0)
        return -1;
    if (stmt_do(s, err, CURVES, "i", job) == 0 && stmt_do(s, err, ORPHANS, "i", job) == 0 &&
        rebuild_forget(s, job, err) == 0)
        return store_commit(s, err);
    store_rollback(s);
    return -1;
}

int rebuild_intact(struct store *s, int64_t job, int64_t last_seq)
{
    sqlite3_stmt *st = stmt_query(s, NULL, INTACT, "i", job), *spec = stmt_query(s, NULL, SPEC, "i", job);
    int ok = stmt_step(st, NULL) > 0 && stmt_int(st, 0, 0) == last_seq && stmt_int(st, 1, 0) == (last_seq > 0) &&
             stmt_int(st, 2, 0) == last_seq && stmt_int(st, 3, 0) == last_seq;
    ok = ok && stmt_step(spec, NULL) > 0 && stmt_int(spec, 0, 0) == 1;
    if (st)
        sqlite3_reset(st);
    if (spec)
        sqlite3_reset(spec);
    return ok;
}
