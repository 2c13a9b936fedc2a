/* SPDX-License-Identifier: Apache-2.0 */
/* goodput_rows.c - see goodput_rows.h */
#include "db/goodput_rows.h"

#include "db/stmt.h"
#include "db/store.h"
#include "engine/contract/err.h"

static const char ADD[] =
    "INSERT INTO goodput (job, attempt, generation, rank_ms, productive, replayed, init, data, "
    "checkpoint, hang, restart, queued, paused) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?) "
    "ON CONFLICT (job, attempt, generation) DO UPDATE SET rank_ms = rank_ms + excluded.rank_ms, "
    "productive = productive + excluded.productive, replayed = replayed + excluded.replayed, "
    "init = init + excluded.init, data = data + excluded.data, "
    "checkpoint = checkpoint + excluded.checkpoint, hang = hang + excluded.hang, "
    "restart = restart + excluded.restart, queued = queued + excluded.queued, "
    "paused = paused + excluded.paused";
static const char SUM[] =
    "SELECT coalesce(sum(rank_ms),0), coalesce(sum(productive),0), coalesce(sum(replayed),0), "
    "coalesce(sum(init),0), coalesce(sum(data),0), coalesce(sum(checkpoint),0), "
    "coalesce(sum(hang),0), coalesce(sum(restart),0), coalesce(sum(queued),0), "
    "coalesce(sum(paused),0) FROM goodput WHERE job=?";

int goodput_rows_add(struct store *s, int64_t job, int64_t attempt, int64_t generation,
                     int64_t rank_ms,
                     const int64_t ms[GOODPUT_ROWS_BUCKETS], struct err *err)
{
    sqlite3_stmt *st = stmt_get(s, ADD, err);
    if (!st || stmt_bind(st, err, "iiiiiiiiiiiii", job, attempt, generation, rank_ms, ms[0], ms[1],
                         ms[2], ms[3], ms[4], ms[5], ms[6], ms[7], ms[8]) < 0)
        return -1;
    return stmt_run(st, err);
}

int goodput_rows_sum(int64_t *rank_ms, int64_t ms[GOODPUT_ROWS_BUCKETS], struct store *s,
                     int64_t job,
                     struct err *err)
{
    sqlite3_stmt *st = stmt_get(s, SUM, err);
    if (!st || stmt_bind(st, err, "i", job) < 0 || stmt_step(st, err) < 0)
        return -1;
    *rank_ms = stmt_int(st, 0, 0);
    for (int i = 0; i < GOODPUT_ROWS_BUCKETS; i++)
        ms[i] = stmt_int(st, i + 1, 0);
    sqlite3_reset(st);
    return 0;
}
