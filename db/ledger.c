/* SPDX-License-Identifier: Apache-2.0 */
/* ledger.c - see ledger.h */
#include "db/ledger.h"

#include "db/stmt.h"
#include "db/store.h"
#include "engine/err.h"

static const char PUT[] = "INSERT OR REPLACE INTO ledger (job, attempt, generation, wall_ms, "
                          "kept_ms) VALUES (?,?,?,?,?)";
static const char SUM[] =
    "SELECT coalesce(sum(wall_ms),0), coalesce(sum(kept_ms),0) FROM ledger WHERE job=?";

int ledger_put(struct store *s, int64_t job, int64_t attempt, int64_t generation,
               int64_t wall_ms, int64_t kept_ms, struct err *err)
{
    sqlite3_stmt *st = stmt_get(s, PUT, err);
    if (!st || stmt_bind(st, err, "iiiii", job, attempt, generation, wall_ms, kept_ms) < 0)
        return -1;
    return stmt_run(st, err);
}

int ledger_sum(int64_t *wall_ms, int64_t *kept_ms, struct store *s, int64_t job,
               struct err *err)
{
    sqlite3_stmt *st = stmt_get(s, SUM, err);
    if (!st || stmt_bind(st, err, "i", job) < 0 || stmt_step(st, err) < 0)
        return -1;
    *wall_ms = stmt_int(st, 0, 0);
    *kept_ms = stmt_int(st, 1, 0);
    sqlite3_reset(st);
    return 0;
}
