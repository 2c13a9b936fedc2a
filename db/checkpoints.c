/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoints.c - see checkpoints.h */
#include "db/checkpoints.h"

#include "db/stmt.h"
#include "db/store.h"
#include "engine/base/err.h"

static const char PUT[] = "INSERT OR REPLACE INTO checkpoints (job, step, path, digest, bytes, "
                          "trust, at_ms) VALUES (?,?,?,?,?,?,?)";
static const char DISTRUST[] = "UPDATE checkpoints SET trust='quarantined' WHERE job=? AND path=?";
static const char EACH[] = "SELECT step, path, digest, bytes, trust, at_ms FROM checkpoints "
                           "WHERE job=? ORDER BY step DESC, at_ms DESC LIMIT ?";

int checkpoints_put(struct store *s, int64_t job, const struct checkpoint_row *row, struct err *err)
{
    return stmt_do(s, err, PUT, "iittiti", job, row->step, row->path, row->digest, row->bytes, row->trust, row->at_ms);
}

int checkpoints_distrust(struct store *s, int64_t job, const char *path, struct err *err)
{
    return stmt_do(s, err, DISTRUST, "it", job, path);
}

int checkpoints_each(struct store *s, int64_t job, int64_t limit, checkpoints_each_fn each, void *ctx, struct err *err)
{
    sqlite3_stmt *st = stmt_query(s, err, EACH, "ii", job, limit);
    char path[4096], digest[80], trust[32];
    int rc = 0;
    while (rc == 0 && (rc = stmt_step(st, err)) > 0) {
        stmt_words(path, sizeof(path), st, 1);
        stmt_words(digest, sizeof(digest), st, 2);
        stmt_words(trust, sizeof(trust), st, 4);
        const struct checkpoint_row row = {
            .step = stmt_int(st, 0, 0),
            .path = path,
            .digest = digest,
            .bytes = stmt_int(st, 3, 0),
            .trust = trust,
            .at_ms = stmt_int(st, 5, 0),
        };
        rc = each(ctx, &row);
    }
    sqlite3_reset(st);
    return rc;
}
