/* SPDX-License-Identifier: Apache-2.0 */
/* metrics.c - see metrics.h */
#include "db/metrics.h"

#include "db/stmt.h"
#include "db/store.h"
#include "engine/base/err.h"

static const char PUT[] = "INSERT OR REPLACE INTO metrics (job, name, step, value) VALUES (?,?,?,?)";
static const char COUNT[] = "SELECT count(*) FROM metrics WHERE job=? AND name=?";
static const char THIN[] =
    "DELETE FROM metrics WHERE job=?1 AND name=?2 AND step NOT IN "
    "(SELECT min(step) FROM metrics WHERE job=?1 AND name=?2 GROUP BY step / ?3)";
static const char CUT[] = "DELETE FROM metrics WHERE job=? AND step > ?";
static const char EACH[] = "SELECT step, value FROM metrics WHERE job=? AND name=? ORDER BY step";

int metrics_put(struct store *s, int64_t job, const char *name, int64_t step, double value, struct err *err)
{
    return stmt_do(s, err, PUT, "itid", job, name, step, value);
}

int metrics_count(int64_t *count, struct store *s, int64_t job, const char *name, struct err *err)
{
    sqlite3_stmt *st = stmt_query(s, err, COUNT, "it", job, name);
    if (stmt_step(st, err) < 0)
        return -1;
    *count = stmt_int(st, 0, 0);
    sqlite3_reset(st);
    return 0;
}

int metrics_thin(struct store *s, int64_t job, const char *name, int64_t stride, struct err *err)
{
    return stmt_do(s, err, THIN, "iti", job, name, stride);
}

int metrics_cut(struct store *s, int64_t job, int64_t step, struct err *err)
{
    return stmt_do(s, err, CUT, "ii", job, step);
}

int metrics_each(struct store *s, int64_t job, const char *name, int64_t limit,
                 metrics_each_fn each, void *ctx, struct err *err)
{
    int64_t count = 0;
    if (metrics_count(&count, s, job, name, err) < 0)
        return -1;
    int64_t every = limit > 0 && count > limit ? (count + limit - 1) / limit : 1;
    sqlite3_stmt *st = stmt_query(s, err, EACH, "it", job, name);
    int rc = 0;
    for (int64_t i = 0; rc == 0 && (rc = stmt_step(st, err)) > 0; i++)
        rc = i % every == 0 || i == count - 1 ? each(ctx, stmt_int(st, 0, 0), stmt_real(st, 1)) : 0;
    sqlite3_reset(st);
    return rc;
}
