/* SPDX-License-Identifier: Apache-2.0 */
/* attempts.c - see attempts.h */
#include "db/attempts.h"

#include "db/stmt.h"
#include "db/store.h"
#include "engine/base/err.h"

static const char INSERT[] =
    "INSERT INTO attempts (job, attempt, nonce, node, run_dir, boot_id, pid, start_time, "
    "incarnation, acked, started_ms, ended_ms) VALUES (?,?,?,?,?,?,?,?,?,?,?,?)";
static const char DROP[] = "DELETE FROM attempts WHERE job=? AND attempt=?";
static const char UPDATE[] =
    "UPDATE attempts SET boot_id=?3, pid=?4, start_time=?5, incarnation=?6, acked=?7, ended_ms=?8 "
    "WHERE job=?1 AND attempt=?2";
#define COLUMNS                                                                        \
    "job, attempt, nonce, node, run_dir, boot_id, pid, start_time, incarnation, acked, " \
    "started_ms, ended_ms"
static const char GET[] = "SELECT " COLUMNS " FROM attempts WHERE job=? AND attempt=?";
static const char ENDED[] = "SELECT " COLUMNS " FROM attempts WHERE ended_ms > ?";

static void row_read(struct attempt_row *row, sqlite3_stmt *st)
{
    row->job = stmt_int(st, 0, 0);
    row->attempt = stmt_int(st, 1, 0);
    stmt_text(row->nonce, sizeof(row->nonce), st, 2);
    stmt_text(row->node, sizeof(row->node), st, 3);
    stmt_text(row->run_dir, sizeof(row->run_dir), st, 4);
    stmt_text(row->boot_id, sizeof(row->boot_id), st, 5);
    int64_t *numbers[] = { &row->pid, &row->start_time, &row->incarnation, &row->acked,
                           &row->started_ms, &row->ended_ms };
    for (int i = 0; i < (int)(sizeof(numbers) / sizeof(numbers[0])); i++)
        *numbers[i] = stmt_int(st, 6 + i, -1);
}

int attempts_insert(struct store *s, const struct attempt_row *row, struct err *err)
{
    return stmt_do(s, err, INSERT, "iittttooiiio", row->job, row->attempt, row->nonce, row->node,
                   row->run_dir, row->boot_id, row->pid, row->start_time, row->incarnation,
                   row->acked, row->started_ms, row->ended_ms);
}

int attempts_put(struct store *s, const struct attempt_row *row, struct err *err)
{
    return stmt_do(s, err, DROP, "ii", row->job, row->attempt) < 0 ? -1 : attempts_insert(s, row, err);
}

int attempts_update(struct store *s, const struct attempt_row *row, struct err *err)
{
    return stmt_do(s, err, UPDATE, "iitooiio", row->job, row->attempt, row->boot_id, row->pid,
                   row->start_time, row->incarnation, row->acked, row->ended_ms);
}

int attempts_get(struct attempt_row *row, struct store *s, int64_t job, int64_t attempt, struct err *err)
{
    sqlite3_stmt *st = stmt_query(s, err, GET, "ii", job, attempt);
    int rc = stmt_step(st, err);
    if (rc == 0)
        return err_set(err, ERR_NOT_FOUND, "job %lld has no attempt %lld", (long long)job, (long long)attempt);
    if (rc < 0)
        return -1;
    row_read(row, st);
    sqlite3_reset(st);
    return 0;
}

int attempts_ended_since(struct store *s, int64_t ms, attempts_each_fn each, void *ctx, struct err *err)
{
    sqlite3_stmt *st = stmt_query(s, err, ENDED, "i", ms);
    int rc = 0;
    while (rc == 0 && (rc = stmt_step(st, err)) > 0) {
        struct attempt_row row;
        row_read(&row, st);
        rc = each(ctx, &row);
    }
    sqlite3_reset(st);
    return rc;
}
