/* SPDX-License-Identifier: Apache-2.0 */
/* removed.c - see removed.h */
#include "db/removed.h"

#include <time.h>

#include "db/stmt.h"
#include "db/store.h"
#include "engine/base/err.h"

/* Rows that refer to a job are deleted before it. */
static const char *const FORGET[] = {
    "DELETE FROM specs WHERE job=?",       "DELETE FROM events WHERE job=?",
    "DELETE FROM attempts WHERE job=?",    "DELETE FROM checkpoints WHERE job=?",
    "DELETE FROM metrics WHERE job=?",     "DELETE FROM goodput WHERE job=?",
    "DELETE FROM orphans WHERE job=?",     "DELETE FROM mentions WHERE job=?",
    "DELETE FROM notices WHERE job=?",     "DELETE FROM submit_keys WHERE job=?",
    "DELETE FROM jobs WHERE id=?",
};
static const char PUT[] = "INSERT INTO removed (job, name, removed_ms, bytes, checkpoints, "
                          "checkpoint_bytes, kept) VALUES (?,?,?,?,?,?,?)";
static const char DONE[] = "UPDATE removed SET pending=0 WHERE job=?";
#define COLUMNS "job, name, removed_ms, bytes, checkpoints, checkpoint_bytes, kept, pending"
static const char GET[] = "SELECT " COLUMNS " FROM removed WHERE job=?";
static const char EACH_PENDING[] = "SELECT " COLUMNS " FROM removed WHERE pending ORDER BY job";

static int run_with_id(struct store *s, const char *sql, int64_t job, struct err *err)
{
    return stmt_do(s, err, sql, "i", job);
}

int removed_forget(struct store *s, int64_t job, struct err *err)
{
    for (size_t i = 0; i < sizeof(FORGET) / sizeof(FORGET[0]); i++)
        if (run_with_id(s, FORGET[i], job, err) < 0)
            return -1;
    return 0;
}

static int replace(struct store *s, const struct removed_row *row, struct err *err)
{
    if (removed_forget(s, row->job, err) < 0)
        return -1;
    return stmt_do(s, err, PUT, "itiitoi", row->job, row->name, row->removed_ms, row->bytes,
                   row->checkpoints, row->checkpoint_bytes, (int64_t)row->kept);
}

int removed_put(struct store *s, const struct removed_row *row, struct err *err)
{
    if (store_begin(s, err) < 0)
        return -1;
    if (replace(s, row, err) == 0)
        return store_commit(s, err);
    store_rollback(s);
    return -1;
}

int removed_done(struct store *s, int64_t job, struct err *err)
{
    return run_with_id(s, DONE, job, err);
}

static void row_read(struct removed_row *row, sqlite3_stmt *st)
{
    row->job = stmt_int(st, 0, -1);
    stmt_text(row->name, sizeof(row->name), st, 1);
    row->removed_ms = stmt_int(st, 2, 0);
    row->bytes = stmt_int(st, 3, 0);
    stmt_text(row->checkpoints, sizeof(row->checkpoints), st, 4);
    row->checkpoint_bytes = stmt_int(st, 5, -1);
    row->kept = stmt_int(st, 6, 1) != 0;
    row->pending = stmt_int(st, 7, 0) != 0;
}

int removed_get(struct removed_row *row, struct store *s, int64_t job, struct err *err)
{
    sqlite3_stmt *st = stmt_query(s, err, GET, "i", job);
    int rc = stmt_step(st, err);
    if (rc == 0)
        return err_set(err, ERR_NOT_FOUND, "job %lld does not exist", (long long)job);
    if (rc > 0)
        row_read(row, st);
    sqlite3_reset(st);
    return rc > 0 ? 0 : -1;
}

int removed_each_pending(struct store *s, removed_each_fn each, void *ctx, struct err *err)
{
    sqlite3_stmt *st = stmt_query(s, err, EACH_PENDING, "");
    int rc = 0;
    while (rc == 0 && (rc = stmt_step(st, err)) > 0) {
        struct removed_row row;
        row_read(&row, st);
        rc = each(ctx, &row);
    }
    sqlite3_reset(st);
    return rc;
}

int removed_say(struct store *s, int64_t job, struct err *err)
{
    struct removed_row row;
    struct tm tm;
    char when[32] = "";
    if (removed_get(&row, s, job, err) < 0)
        return -1;
    const time_t t = (time_t)(row.removed_ms / 1000);
    if (localtime_r(&t, &tm))
        strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", &tm);
    return err_set(err, ERR_NOT_FOUND, "job %lld (%s) was removed on %s%s%s", (long long)job, row.name, when,
                   row.kept && row.checkpoints[0] ? "; its checkpoints are still in " : "",
                   row.kept ? row.checkpoints : "");
}
