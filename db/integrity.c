/* SPDX-License-Identifier: Apache-2.0 */
/* integrity.c - see integrity.h */
#include "db/integrity.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "engine/base/err.h"

static _Thread_local struct {
    void (*fn)(void *arg, const char *text);
    void  *arg;
} hook;

void integrity_hook(void (*fn)(void *arg, const char *text), void *arg)
{
    hook.fn = fn;
    hook.arg = arg;
}

int integrity_is_damage(int code)
{
    return (code & 0xff) == SQLITE_CORRUPT || (code & 0xff) == SQLITE_NOTADB;
}

void integrity_tell(const char *text)
{
    if (hook.fn)
        hook.fn(hook.arg, text);
}

int integrity_failed(sqlite3 *db, const char *what, struct err *err)
{
    struct err said = { 0 };
    const char *path = sqlite3_db_filename(db, "main");
    err_set(&said, ERR_SYSTEM, "the store %.200s is damaged (%.120s). The next start of the daemon replaces "
            "it with its newest copy and takes over the jobs from their directories; running jobs continue meanwhile",
            path ? path : "", what);
    integrity_tell(said.text);
    err_set(err, said.code, "%s", said.text);
    if (err)
        err->errnum = EUCLEAN;
    return -1;
}

int integrity_check(sqlite3 *db, enum integrity depth, struct err *err)
{
    static const char *const sql[] = { [INTEGRITY_QUICK] = "PRAGMA quick_check(1)",
                                       [INTEGRITY_FULL] = "PRAGMA integrity_check(1)" };
    sqlite3_stmt *st = NULL;
    int rc = -1;
    if (depth == INTEGRITY_UNCHECKED)
        return 0;
    const int ran = sqlite3_prepare_v2(db, sql[depth], -1, &st, NULL) == SQLITE_OK ? sqlite3_step(st)
                                                                                  : sqlite3_errcode(db);
    const char *said = ran == SQLITE_ROW ? (const char *)sqlite3_column_text(st, 0) : NULL;
    if (said && strcmp(said, "ok") == 0)
        rc = 0;
    else if (said || integrity_is_damage(ran))
        integrity_failed(db, said ? said : sqlite3_errmsg(db), err);
    else
        err_set(err, ERR_SYSTEM, "cannot check the store: %s", sqlite3_errmsg(db));
    sqlite3_finalize(st);
    return rc;
}
