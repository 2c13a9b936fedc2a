/* SPDX-License-Identifier: Apache-2.0 */
/* orphans.c - see orphans.h */
#include "db/orphans.h"

#include "db/stmt.h"
#include "db/store.h"

static const char PUT[] = "INSERT OR REPLACE INTO orphans (job, attempt, node, launcher, host) "
                          "VALUES (?,?,?,?,?)";
static const char REMOVE[] = "DELETE FROM orphans WHERE job=? AND attempt=? AND node=?";
static const char EACH[] = "SELECT job, attempt, node, launcher, host FROM orphans";

int orphans_put(struct store *s, const struct orphan_row *row, struct err *err)
{
    return stmt_do(s, err, PUT, "iiitt", row->job, row->attempt, row->node, row->launcher, row->host);
}

int orphans_remove(struct store *s, int64_t job, int64_t attempt, int64_t node, struct err *err)
{
    return stmt_do(s, err, REMOVE, "iii", job, attempt, node);
}

int orphans_each(struct store *s, orphans_each_fn each, void *ctx, struct err *err)
{
    sqlite3_stmt *st = stmt_query(s, err, EACH, "");
    int rc = 0;
    while (rc == 0 && (rc = stmt_step(st, err)) > 0) {
        const struct orphan_row row = {
            .job = stmt_int(st, 0, 0),
            .attempt = stmt_int(st, 1, 0),
            .node = stmt_int(st, 2, 0),
            .launcher = (const char *)sqlite3_column_text(st, 3),
            .host = (const char *)sqlite3_column_text(st, 4),
        };
        rc = each(ctx, &row);
    }
    sqlite3_reset(st);
    return rc;
}
