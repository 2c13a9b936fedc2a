/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoints.c - see checkpoints.h */
#include "db/checkpoints.h"

#include "db/stmt.h"
#include "db/store.h"
#include "engine/contract/err.h"

static const char PUT[] = "INSERT OR REPLACE INTO checkpoints (job, step, path, digest, bytes, "
                          "trust, at_ms) VALUES (?,?,?,?,?,?,?)";
static const char DISTRUST[] = "UPDATE checkpoints SET trust='quarantined' WHERE job=? AND path=?";
static const char EACH[] = "SELECT step, path, digest, bytes, trust, at_ms FROM checkpoints "
                           "WHERE job=? ORDER BY step DESC, at_ms DESC LIMIT ?";

int checkpoints_put(struct store *s, int64_t job, const struct checkpoint_row *row,
                    struct err *err)
{
    sqlite3_stmt *st = stmt_get(s, PUT, err);
    if (!st || stmt_bind(st, err, "iittiti", job, row->step, row->path, row->digest, row->bytes,
                         row->trust, row->at_ms) < 0)
        return -1;
    return stmt_run(st, err);
}

int checkpoints_distrust(struct store *s, int64_t job, const char *path, struct err *err)
{
    sqlite3_stmt *st = stmt_get(s, DISTRUST, err);
    if (!st || stmt_bind(st, err, "it", job, path) < 0)
        return -1;
    return stmt_run(st, err);
}

int checkpoints_each(struct store *s, int64_t job, int64_t limit, checkpoints_each_fn each,
                     void *ctx, struct err *err)
{
    sqlite3_stmt *st = stmt_get(s, EACH, err);
    if (!st || stmt_bind(st, err, "ii", job, limit) < 0)
        return -1;
    int rc, stop = 0;
    while (!stop && (rc = stmt_step(st, err)) != 0) {
        if (rc < 0)
            return -1;
        const struct checkpoint_row row = {
            .step = stmt_int(st, 0, 0),
            .path = (const char *)sqlite3_column_text(st, 1),
            .digest = (const char *)sqlite3_column_text(st, 2),
            .bytes = stmt_int(st, 3, 0),
            .trust = (const char *)sqlite3_column_text(st, 4),
            .at_ms = stmt_int(st, 5, 0),
        };
        stop = each(ctx, &row);
    }
    sqlite3_reset(st);
    return stop;
}
