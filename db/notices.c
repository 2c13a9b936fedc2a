/* SPDX-License-Identifier: Apache-2.0 */
/* notices.c - see notices.h */
#include "db/notices.h"

#include <stdio.h>

#include "db/stmt.h"
#include "db/store.h"

#define COLUMNS "job, target, event, name, reason, restarts, hangs, first_ms, last_ms, due_ms, sent, sent_ms, tries, " \
                "ended"
static const char PUT[] = "INSERT OR REPLACE INTO notices (" COLUMNS ") VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)";
static const char GET[] = "SELECT " COLUMNS " FROM notices WHERE job=? AND target=?";
static const char REMOVE[] = "DELETE FROM notices WHERE job=? AND target=?";
static const char EACH[] = "SELECT " COLUMNS " FROM notices WHERE due_ms > 0 AND target=? "
                           "ORDER BY tries, due_ms LIMIT ?";
static const char TARGETS[] = "SELECT target, count(*) FROM notices WHERE due_ms > 0 GROUP BY target";

static void row_read(struct notice_row *row, sqlite3_stmt *st)
{
    row->job = stmt_int(st, 0, 0);
    stmt_text(row->target, sizeof(row->target), st, 1);
    stmt_text(row->event, sizeof(row->event), st, 2);
    stmt_words(row->name, sizeof(row->name), st, 3);
    stmt_words(row->reason, sizeof(row->reason), st, 4);
    row->restarts = stmt_int(st, 5, 0);
    row->hangs = stmt_int(st, 6, 0);
    row->first_ms = stmt_int(st, 7, 0);
    row->last_ms = stmt_int(st, 8, 0);
    row->due_ms = stmt_int(st, 9, 0);
    row->sent = stmt_int(st, 10, 0);
    row->sent_ms = stmt_int(st, 11, 0);
    row->tries = stmt_int(st, 12, 0);
    row->ended = stmt_int(st, 13, 0) != 0;
}

int notices_get(struct notice_row *row, struct store *s, int64_t job, const char *target, struct err *err)
{
    sqlite3_stmt *st = stmt_query(s, err, GET, "it", job, target);
    const int rc = stmt_step(st, err);
    *row = (struct notice_row){ .job = job };
    snprintf(row->target, sizeof(row->target), "%s", target);
    if (rc > 0)
        row_read(row, st);
    sqlite3_reset(st);
    return rc;
}

int notices_put(struct store *s, const struct notice_row *row, struct err *err)
{
    return stmt_do(s, err, PUT, "ittttiiiiiiiii", row->job, row->target, row->event, row->name, row->reason,
                   row->restarts, row->hangs, row->first_ms, row->last_ms, row->due_ms, row->sent, row->sent_ms,
                   row->tries, (int64_t)row->ended);
}

int notices_remove(struct store *s, int64_t job, const char *target, struct err *err)
{
    return stmt_do(s, err, REMOVE, "it", job, target);
}

int notices_each(struct store *s, const char *target, int64_t limit, notices_each_fn each, void *ctx, struct err *err)
{
    sqlite3_stmt *st = stmt_query(s, err, EACH, "ti", target, limit);
    int rc = 0;
    while (rc == 0 && (rc = stmt_step(st, err)) > 0) {
        struct notice_row row;
        row_read(&row, st);
        rc = each(ctx, &row);
    }
    sqlite3_reset(st);
    return rc;
}

int notices_targets(struct store *s, notices_target_fn each, void *ctx, struct err *err)
{
    sqlite3_stmt *st = stmt_query(s, err, TARGETS, "");
    int rc = 0;
    while (rc == 0 && (rc = stmt_step(st, err)) > 0) {
        char target[NOTICES_TARGET];
        stmt_text(target, sizeof(target), st, 0);
        rc = each(ctx, target, stmt_int(st, 1, 0));
    }
    sqlite3_reset(st);
    return rc;
}
