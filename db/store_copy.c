/* SPDX-License-Identifier: Apache-2.0 */
/* store_copy.c - see store_copy.h */
#include "db/store_copy.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "db/integrity.h"
#include "engine/base/err.h"

/* Private, and on the disk. */
static int settle(const char *path)
{
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    const int rc = fd >= 0 && fchmod(fd, 0600) == 0 ? fsync(fd) : -1;
    if (fd >= 0)
        close(fd);
    return rc;
}

static int vacuum_into(sqlite3 *db, const char *to, struct err *err)
{
    char *sql = sqlite3_mprintf("PRAGMA auto_vacuum=INCREMENTAL; VACUUM INTO %Q", to);
    const int code = sql ? sqlite3_exec(db, sql, NULL, NULL, NULL) : SQLITE_NOMEM;
    sqlite3_free(sql);
    if (code == SQLITE_OK && settle(to) == 0)
        return 0;
    err_set(err, ERR_SYSTEM, "cannot copy the store to %s: %s", to, sqlite3_errmsg(db));
    unlink(to);
    return -1;
}

int store_copy(const char *from, const char *to, struct err *err)
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
