/* SPDX-License-Identifier: Apache-2.0 */
/* store.c - see store.h */
#include "db/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/os/file_system.h"
#include "db/schema.h"
#include "db/stmt.h"
#include "engine/base/err.h"

enum { STMTS = 96, FREE_MIN = 256, FREE_SHARE = 4 };

struct store {
    sqlite3 *db;
    bool     group, joined;     /* a group is open; a writer is between store_join() and its end */
    void   (*settle)(void *arg);
    void    *settle_arg;
    int      nstmts;
    struct {
        const char   *sql;
        sqlite3_stmt *st;
    } stmts[STMTS];
};

/* WAL needs memory shared by all processes that open the store, which does not exist across machines. */
static const char LOCAL[] = "PRAGMA journal_mode=WAL;";
static const char SHARED[] = "PRAGMA journal_mode=TRUNCATE;";
static const char SETTINGS[] = "PRAGMA synchronous=FULL;"
                               "PRAGMA foreign_keys=ON;"
                               "PRAGMA wal_autocheckpoint=4000;"
                               "PRAGMA temp_store=MEMORY;";
/* Takes effect before the first table of a new store. */
static const char SHRINKS[] = "PRAGMA auto_vacuum=INCREMENTAL";
static const char PAGES[] = "PRAGMA page_count";
static const char FREE[] = "PRAGMA freelist_count";
static const char BEGIN[] = "BEGIN IMMEDIATE";
static const char COMMIT[] = "COMMIT";
static const char JOIN[] = "SAVEPOINT writer";
static const char LEAVE[] = "RELEASE writer";
static const char UNDO[] = "ROLLBACK TO writer";

/* Other users of the store never see or join a transaction that may still fail. */
static void settle(struct store *s)
{
    if (s->group && !s->joined && s->settle)
        s->settle(s->settle_arg);
}

sqlite3 *store_handle(struct store *s)
{
    settle(s);
    return s->db;
}

/* From the cache, or newly prepared; reset. */
static sqlite3_stmt *get(struct store *s, const char *sql, struct err *err)
{
    settle(s);
    for (int i = 0; i < s->nstmts; i++) {
        if (s->stmts[i].sql == sql) {
            sqlite3_reset(s->stmts[i].st);
            return s->stmts[i].st;
        }
    }
    sqlite3_stmt *st = NULL;
    if (s->nstmts == STMTS) {
        err_set(err, ERR_BUG, "the store keeps at most %d statements", STMTS);
        return NULL;
    }
    if (sqlite3_prepare_v3(s->db, sql, -1, SQLITE_PREPARE_PERSISTENT, &st, NULL) != SQLITE_OK) {
        if (integrity_is_damage(sqlite3_errcode(s->db)))
            integrity_failed(s->db, sqlite3_errmsg(s->db), err);
        err_set(err, ERR_SYSTEM, "store error: %s, in: %.160s", sqlite3_errmsg(s->db), sql);
        return NULL;
    }
    s->stmts[s->nstmts].sql = sql;
    s->stmts[s->nstmts++].st = st;
    return st;
}

static sqlite3_stmt *bound(struct store *s, struct err *err, const char *sql, const char *types, va_list ap)
{
    sqlite3_stmt *st = get(s, sql, err);
    return st && stmt_bind(st, err, types, ap) == 0 ? st : NULL;
}

sqlite3_stmt *stmt_query(struct store *s, struct err *err, const char *sql, const char *types, ...)
{
    va_list ap;
    va_start(ap, types);
    sqlite3_stmt *st = bound(s, err, sql, types, ap);
    va_end(ap);
    return st;
}

int stmt_do(struct store *s, struct err *err, const char *sql, const char *types, ...)
{
    va_list ap;
    va_start(ap, types);
    sqlite3_stmt *st = bound(s, err, sql, types, ap);
    va_end(ap);
    return stmt_run(st, err);
}

static void forget_all(struct store *s)
{
    for (int i = 0; i < s->nstmts; i++)
        sqlite3_finalize(s->stmts[i].st);
    s->nstmts = 0;
}

/* sqlite creates files by the umask; ours must be private to the owner. */
static int make_private(const char *path, struct err *err)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_set(err, ERR_SYSTEM, "cannot open the store %s: %m", path);
    int rc = fchmod(fd, 0600);
    close(fd);
    return rc == 0 ? 0 : err_set(err, ERR_SYSTEM, "cannot make %s private: %m", path);
}

static int apply_settings(struct store *s, const char *path, struct err *err)
{
    sqlite3_busy_timeout(s->db, 5000);
    if (sqlite3_exec(s->db, SHRINKS, NULL, NULL, NULL) == SQLITE_OK &&
        sqlite3_exec(s->db, file_system_shared(path) ? SHARED : LOCAL, NULL, NULL, NULL) == SQLITE_OK &&
        sqlite3_exec(s->db, SETTINGS, NULL, NULL, NULL) == SQLITE_OK)
        return 0;
    if (sqlite3_system_errno(s->db) == ENOLCK)
        return file_system_lock_error(err, path, ENOLCK);
    if (integrity_is_damage(sqlite3_errcode(s->db)))
        return integrity_failed(s->db, sqlite3_errmsg(s->db), err);
    return err_set(err, ERR_SYSTEM, "cannot use the store %s: %s", path, sqlite3_errmsg(s->db));
}

static int64_t number(struct store *s, const char *sql)
{
    sqlite3_stmt *st = NULL;
    int64_t n = -1;
    if (sqlite3_prepare_v2(s->db, sql, -1, &st, NULL) == SQLITE_OK && sqlite3_step(st) == SQLITE_ROW)
        n = sqlite3_column_int64(st, 0);
    sqlite3_finalize(st);
    return n;
}

int store_open(struct store **out, const char *path, struct err *err)
{
    return store_open_checked(out, path, INTEGRITY_UNCHECKED, err);
}

int store_open_checked(struct store **out, const char *path, enum integrity depth, struct err *err)
{
    struct store *s = calloc(1, sizeof(*s));
    if (!s)
        return err_set(err, ERR_MEMORY, "out of memory for the store");
    if (make_private(path, err) < 0)
        goto out;
    if (sqlite3_open_v2(path, &s->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK) {
        err_set(err, ERR_SYSTEM, "cannot open the store %s: %s", path, s->db ? sqlite3_errmsg(s->db) : "out of memory");
        goto out;
    }
    if (apply_settings(s, path, err) < 0 ||
        integrity_check(s->db, depth, err) < 0 || schema_open(s->db, path, err) < 0)
        goto out;
    *out = s;
    return 0;
out:
    store_close(s);
    return -1;
}

void store_close(struct store *s)
{
    if (!s)
        return;
    forget_all(s);
    sqlite3_close(s->db);
    free(s);
}

int store_begin(struct store *s, struct err *err)
{
    return stmt_do(s, err, BEGIN, "");
}

int store_commit(struct store *s, struct err *err)
{
    if (stmt_do(s, err, COMMIT, "") == 0)
        return 0;
    store_rollback(s);
    return -1;
}

void store_rollback(struct store *s)
{
    if (!sqlite3_get_autocommit(s->db))
        sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
}

void store_on_settle(struct store *s, void (*settle_group)(void *arg), void *arg)
{
    s->settle = settle_group;
    s->settle_arg = arg;
}

int store_join(struct store *s, struct err *err)
{
    s->joined = true;
    if (!s->group && store_begin(s, err) < 0) {
        s->joined = false;
        return -1;
    }
    s->group = true;
    if (stmt_do(s, err, JOIN, "") == 0)
        return 0;
    s->joined = false;
    return -1;
}

int store_leave(struct store *s, struct err *err)
{
    const int rc = stmt_do(s, err, LEAVE, "");
    s->joined = false;
    return rc;
}

void store_undo(struct store *s)
{
    stmt_do(s, NULL, UNDO, "");     /* fails if a disk error has rolled everything back; the commit then fails too */
    stmt_do(s, NULL, LEAVE, "");
    s->joined = false;
}

int store_commit_group(struct store *s, struct err *err)
{
    if (!s->group)
        return 0;
    s->group = s->joined = false;
    return store_commit(s, err);
}

int64_t store_rows_written(struct store *s)
{
    return sqlite3_total_changes(s->db);
}

int store_shrink(bool *left, struct store *s, int pages, struct err *err)
{
    char sql[64];
    *left = false;
    settle(s);
    const int64_t unused = number(s, FREE);
    if (unused < FREE_MIN || unused * FREE_SHARE < number(s, PAGES))
        return 0;
    snprintf(sql, sizeof(sql), "PRAGMA incremental_vacuum(%d)", pages);
    if (sqlite3_exec(s->db, sql, NULL, NULL, NULL) != SQLITE_OK)
        return err_set(err, ERR_SYSTEM, "cannot shrink the store: %s", sqlite3_errmsg(s->db));
    *left = number(s, FREE) < unused;
    return 0;
}
