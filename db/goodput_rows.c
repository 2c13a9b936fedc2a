/* SPDX-License-Identifier: Apache-2.0 */
/* goodput_rows.c - see goodput_rows.h */
#include "db/goodput_rows.h"

#include "agent/core/goodput.h"
#include "db/stmt.h"
#include "db/store.h"
#include "engine/base/err.h"

#define COLUMN(id, name) ", " #name
#define MARK(id, name)   ",?"
#define PLUS(id, name)   ", " #name " = " #name " + excluded." #name
#define TOTAL(id, name)  ", coalesce(sum(" #name "),0)"

static const char ADD[] =
    "INSERT INTO goodput (job, attempt, generation, rank_ms" GOODPUT_BUCKETS(COLUMN) ") "
    "VALUES (?,?,?,?" GOODPUT_BUCKETS(MARK) ") ON CONFLICT (job, attempt, generation) "
    "DO UPDATE SET rank_ms = rank_ms + excluded.rank_ms" GOODPUT_BUCKETS(PLUS);
static const char FORGET[] = "DELETE FROM goodput WHERE job=?";
static const char SUM[] = "SELECT coalesce(sum(rank_ms),0)" GOODPUT_BUCKETS(TOTAL) " FROM goodput WHERE job=?";

int goodput_rows_add(struct store *s, int64_t job, int64_t attempt, int64_t generation,
                     const struct goodput *spent, struct err *err)
{
    sqlite3_stmt *st = stmt_query(s, err, ADD, "iiii", job, attempt, generation, spent->rank_ms);
    if (!st)
        return -1;
    for (int i = 0; i < BUCKETS; i++)
        sqlite3_bind_int64(st, 5 + i, spent->ms[i]);
    return stmt_run(st, err);
}

int goodput_rows_forget(struct store *s, int64_t job, struct err *err)
{
    return stmt_do(s, err, FORGET, "i", job);
}

int goodput_rows_sum(struct goodput *spent, struct store *s, int64_t job, struct err *err)
{
    sqlite3_stmt *st = stmt_query(s, err, SUM, "i", job);
    if (stmt_step(st, err) < 0)
        return -1;
    spent->rank_ms = stmt_int(st, 0, 0);
    for (int i = 0; i < BUCKETS; i++)
        spent->ms[i] = stmt_int(st, i + 1, 0);
    sqlite3_reset(st);
    return 0;
}
