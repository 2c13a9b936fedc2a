/* SPDX-License-Identifier: Apache-2.0 */
/* packed_events.c - see packed_events.h */
#include "db/packed_events.h"

#include "db/stmt.h"
#include "db/store.h"
#include "engine/contract/err.h"

#define CHUNK "(SELECT * FROM events WHERE job = ?1 ORDER BY seq LIMIT 256)"
_Static_assert(PACKED_EVENTS_CHUNK == 256, "the statements have the number");

enum { NOT_YET, PACKED, DAMAGED, JOB_WORK = 10 };   /* the first three: jobs.packed */

static const char NEXT[] = "SELECT id FROM jobs WHERE state = 'done' AND packed = 0 AND ended_ms < ? "
                           "ORDER BY ended_ms LIMIT 1";
static const char SOUND[] = "SELECT count(*), coalesce(min(json_valid(body)), 1) FROM " CHUNK;
static const char PACK[] =
    "INSERT INTO packed_events (job, first, last, rows) SELECT ?1, first, last, text_pack(rows) FROM ("
    "  SELECT min(seq) AS first, max(seq) AS last, json_group_array(json_array(seq, at_ms, source, kind, attempt, "
    "    node, incarnation, agent_seq, json(body))) AS rows FROM " CHUNK ")";
/* Those that the packed row has, value by value. */
static const char DELETE[] =
    "DELETE FROM events WHERE job = ?1 AND seq IN (SELECT e.seq FROM packed_events p "
    "  CROSS JOIN json_each(text_unpack(p.rows, 'packed events', p.job)) u "
    "  CROSS JOIN events e ON e.job = p.job AND e.seq = json_extract(u.value, '$[0]') "
    "  WHERE p.job = ?1 AND p.first = (SELECT max(first) FROM packed_events WHERE job = ?1) "
    "  AND e.at_ms IS json_extract(u.value, '$[1]') AND e.source IS json_extract(u.value, '$[2]') "
    "  AND e.kind IS json_extract(u.value, '$[3]') AND e.attempt IS json_extract(u.value, '$[4]') "
    "  AND e.node IS json_extract(u.value, '$[5]') AND e.incarnation IS json_extract(u.value, '$[6]') "
    "  AND e.agent_seq IS json_extract(u.value, '$[7]') AND e.body IS json_extract(u.value, '$[8]'))";
static const char LEFT[] = "SELECT count(*) FROM events WHERE job = ?1 AND "
                           "seq <= (SELECT max(last) FROM packed_events WHERE job = ?1)";
static const char MARK[] = "UPDATE jobs SET packed = ?2 WHERE id = ?1";
static const char SAVEPOINT[] = "SAVEPOINT chunk";
static const char UNDO[] = "ROLLBACK TO chunk";
static const char RELEASE[] = "RELEASE chunk";

/* Two numbers of the first row. 1: there is one; 0: none; -1. */
static int numbers(int64_t out[2], sqlite3_stmt *st, struct err *err)
{
    const int rc = stmt_step(st, err);
    for (int i = 0; rc > 0 && i < 2; i++)
        out[i] = i < sqlite3_column_count(st) ? stmt_int(st, i, 0) : 0;
    if (st)
        sqlite3_reset(st);
    return rc;
}

/* Of sound events. 1: done; 0: they cannot be packed, and are as before. */
static int replace(struct store *s, int64_t job, struct err *err)
{
    int64_t left[2];
    if (stmt_do(s, err, SAVEPOINT, "") < 0 || stmt_do(s, err, PACK, "i", job) < 0 ||
        stmt_do(s, err, DELETE, "i", job) < 0 || numbers(left, stmt_query(s, err, LEFT, "i", job), err) < 0)
        return -1;
    if (left[0] > 0 && stmt_do(s, err, UNDO, "") < 0)
        return -1;
    return stmt_do(s, err, RELEASE, "") < 0 ? -1 : left[0] == 0;
}

/* The next chunk of a job, which is marked behind its last one. How many events; -1. */
static int pack_chunk(struct store *s, int64_t job, struct err *err)
{
    int64_t found[2];
    if (numbers(found, stmt_query(s, err, SOUND, "i", job), err) < 0)
        return -1;
    const int rc = found[0] == 0 ? 1 : found[1] == 0 ? 0 : replace(s, job, err);
    if (rc < 0)
        return -1;
    if ((rc == 0 || found[0] < PACKED_EVENTS_CHUNK) &&
        stmt_do(s, err, MARK, "ii", job, (int64_t)(rc == 0 ? DAMAGED : PACKED)) < 0)
        return -1;
    return (int)found[0];
}

static int pack_jobs(bool *left, struct store *s, int64_t ended_before_ms, int work, struct err *err)
{
    int64_t job[2];
    int rc, done = 0;
    *left = true;
    while (done < work && (rc = numbers(job, stmt_query(s, err, NEXT, "i", ended_before_ms), err)) != 0) {
        const int n = rc < 0 ? -1 : pack_chunk(s, job[0], err);
        if (n < 0)
            return -1;
        done += n + JOB_WORK;
    }
    *left = done >= work;
    return 0;
}

int packed_events_some(bool *left, struct store *s, int64_t ended_before_ms, int work, struct err *err)
{
    int64_t job[2];
    const int rc = numbers(job, stmt_query(s, err, NEXT, "i", ended_before_ms), err);
    *left = false;
    if (rc <= 0)
        return rc;
    if (store_begin(s, err) < 0)
        return -1;
    if (pack_jobs(left, s, ended_before_ms, work, err) == 0)
        return store_commit(s, err);
    store_rollback(s);
    *left = false;
    return -1;
}
