/* SPDX-License-Identifier: Apache-2.0 */
/* host_copies.c - see host_copies.h */
#include "db/host_copies.h"

#include "db/stmt.h"

static const char PUT[] = "INSERT OR REPLACE INTO host_copies (job, host, attempt, nonce) VALUES (?,?,?,?)";
static const char REMOVE[] = "DELETE FROM host_copies WHERE job=? AND host=?";
static const char EACH[] = "SELECT job, host, attempt, nonce FROM host_copies WHERE (?1 = 0 OR job = ?1) AND "
                           "job NOT IN (SELECT id FROM jobs)";

int host_copies_put(struct store *s, const struct host_copy_row *row, struct err *err)
{
    return stmt_do(s, err, PUT, "itit", row->job, row->host, row->attempt, row->nonce);
}

int host_copies_remove(struct store *s, int64_t job, const char *host, struct err *err)
{
    return stmt_do(s, err, REMOVE, "it", job, host);
}

int host_copies_each(struct store *s, int64_t job, host_copies_each_fn each, void *ctx, struct err *err)
{
    sqlite3_stmt *st = stmt_query(s, err, EACH, "i", job);
    int rc = 0;
    while (rc == 0 && (rc = stmt_step(st, err)) > 0) {
        const struct host_copy_row row = {
            .job = stmt_int(st, 0, 0),
            .host = (const char *)sqlite3_column_text(st, 1),
            .attempt = stmt_int(st, 2, 0),
            .nonce = (const char *)sqlite3_column_text(st, 3),
        };
        rc = each(ctx, &row);
    }
    if (st)
        sqlite3_reset(st);
    return rc;
}
