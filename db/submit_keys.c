/* SPDX-License-Identifier: Apache-2.0 */
/* submit_keys.c - see submit_keys.h */
#include "db/submit_keys.h"

#include "db/stmt.h"

static const char PUT[] = "INSERT INTO submit_keys (key, job, spec) VALUES (?,?,?)";
static const char FIND[] = "SELECT job, spec FROM submit_keys WHERE key=?";

int submit_keys_put(struct store *s, const char *key, int64_t job, const char *spec, struct err *err)
{
    return stmt_do(s, err, PUT, "tit", key, job, spec);
}

int submit_keys_find(int64_t *job, char spec[SUBMIT_KEYS_DIGEST], struct store *s, const char *key, struct err *err)
{
    sqlite3_stmt *st = stmt_query(s, err, FIND, "t", key);
    const int rc = stmt_step(st, err);
    *job = rc > 0 ? stmt_int(st, 0, 0) : 0;
    if (rc > 0)
        stmt_text(spec, SUBMIT_KEYS_DIGEST, st, 1);
    if (st)
        sqlite3_reset(st);
    return rc < 0 ? -1 : 0;
}
