/* SPDX-License-Identifier: Apache-2.0 */
/* jobs.c - see jobs.h */
#include "db/jobs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "db/removed.h"
#include "db/stmt.h"
#include "db/store.h"
#include "engine/base/err.h"

#define COLUMNS                                                                               \
    "id, name, state, result, reason, after_json, priority, held, attempt, generation, np, "  \
    "step, steps, exit_code, retry_of, submitted_ms, started_ms, ended_ms, productive_ms, "   \
    "last_seq, loss, samples_per_s, busy_ms, members, sweep, sweep_index, point"

#define UNKNOWN INT64_C(-1)

static const char DAMAGED[] = "its row in jobs.db is damaged";
static const char NEXT_ID[] = "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'jobs'), 0) + 1";
static const char INSERT[] = "INSERT INTO jobs (" COLUMNS ") "
                             "VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)";
static const char INSERT_SPEC[] = "INSERT INTO specs (job, yaml, canonical) VALUES (?,?,?)";
static const char UPDATE[] =
    "UPDATE jobs SET state=?2, result=?3, reason=?4, priority=?5, held=?6, attempt=?7, "
    "generation=?8, np=?9, step=?10, steps=?11, exit_code=?12, started_ms=?13, ended_ms=?14, "
    "productive_ms=?15, last_seq=?16, loss=?17, samples_per_s=?18, busy_ms=?19 WHERE id=?1";
static const char END[] = "UPDATE jobs SET state='done', result='failed', exit_code=1, reason=?2, ended_ms=?3 "
                          "WHERE id=?1";
static const char GET[] = "SELECT " COLUMNS " FROM jobs WHERE id=?";
static const char SPEC[] = "SELECT yaml, canonical FROM specs WHERE job=?";
static const char MENTION[] = "SELECT s.job, s.canonical FROM mentions m JOIN specs s ON s.job = m.job "
                              "WHERE m.named = ? ORDER BY s.job";
static const char INSERT_MENTION[] = "INSERT OR IGNORE INTO mentions (named, job) VALUES (?,?)";
static const char DONE_FROM[] = "SELECT min(id), count(*) FROM (SELECT id FROM jobs WHERE id < ? ORDER BY id DESC "
                                "LIMIT ?)";
static const char DONE_EACH[] =
    "SELECT j.id, j.name, s.canonical FROM jobs j JOIN specs s ON s.job = j.id WHERE j.id < ?1 AND j.id >= ?2 "
    "AND j.state = 'done' AND j.ended_ms < ?3 AND (?4 IS NULL OR j.result = ?4) ORDER BY j.id DESC";
static const char DONE_SKIP[] = "SELECT id + 1 FROM jobs WHERE state = 'done' AND (?1 IS NULL OR result = ?1) "
                                "ORDER BY id DESC LIMIT 1 OFFSET ?2";
static const char FIND[] = "SELECT id FROM jobs WHERE id < ? AND name=? ORDER BY id DESC LIMIT 1";
static const char NEWEST[] = "SELECT id FROM jobs WHERE id < ? AND sweep IS NULL ORDER BY id DESC LIMIT 1";
static const char EDIT_ROW[] = "UPDATE jobs SET name=?2, after_json=?3 WHERE id=?1";
static const char EDIT_SPEC[] = "UPDATE specs SET yaml=?2, canonical=?3 WHERE job=?1";
static const char DROP_MENTIONS[] = "DELETE FROM mentions WHERE job=?";
static const char IDS[] = "SELECT id, attempt > 0, state = 'done' FROM jobs UNION ALL "
                          "SELECT job, 0, 1 FROM removed ORDER BY 1";
static const char LATEST[] = "SELECT id FROM jobs WHERE state = 'done' ORDER BY ended_ms DESC LIMIT ?";
static const char EACH[] = "SELECT " COLUMNS " FROM jobs WHERE id < ? AND sweep IS NULL ORDER BY id DESC LIMIT ?";
static const char MEMBERS[] = "SELECT " COLUMNS " FROM jobs WHERE sweep = ? AND sweep_index > ? ORDER BY sweep_index "
                              "LIMIT ?";
static const char MEMBER[] = "SELECT id FROM jobs WHERE sweep = ? AND sweep_index = ?";
static const char MEMBERS_COUNT[] = "SELECT count(*), coalesce(max(sweep_index), -1), "
                                    "coalesce(sum(result = 'succeeded'), 0), coalesce(sum(result = 'failed'), 0), "
                                    "coalesce(sum(result = 'cancelled'), 0) FROM jobs WHERE sweep = ?";
static const char EACH_OPEN[] = "SELECT " COLUMNS " FROM jobs WHERE state <> 'done' AND id < ? "
                                "ORDER BY id DESC LIMIT ?";

static const char *null_if_empty(const char *text)
{
    return text[0] ? text : NULL;
}

static void row_read(struct job_row *row, sqlite3_stmt *st)
{
    row->id = stmt_int(st, 0, -1);
    int sound = 0; /* after five columns: each is read, even if one before it is damaged */
    sound += stmt_words(row->name, sizeof(row->name), st, 1);
    sound += stmt_words(row->state, sizeof(row->state), st, 2);
    sound += stmt_words(row->result, sizeof(row->result), st, 3);
    sound += stmt_words(row->reason, sizeof(row->reason), st, 4);
    sound += stmt_words(row->after, sizeof(row->after), st, 5);
    row->damaged = sound != 5;
    if (row->damaged)
        snprintf(row->reason, sizeof(row->reason), "%s", DAMAGED);
    int64_t *numbers[] = { &row->priority, &row->held, &row->attempt, &row->generation, &row->np,
                           &row->step, &row->steps, &row->exit_code, &row->retry_of,
                           &row->submitted_ms, &row->started_ms, &row->ended_ms,
                           &row->productive_ms, &row->last_seq };
    for (int i = 0; i < (int)(sizeof(numbers) / sizeof(numbers[0])); i++)
        *numbers[i] = stmt_int(st, 6 + i, -1);
    row->loss = stmt_real(st, 20);
    row->samples_per_s = stmt_real(st, 21);
    row->busy_ms = stmt_int(st, 22, 0);
    row->members = stmt_int(st, 23, -1);
    row->sweep = stmt_int(st, 24, -1);
    row->sweep_index = stmt_int(st, 25, -1);
    stmt_words(row->point, sizeof(row->point), st, 26);
}

int jobs_next_id(int64_t *id, struct store *s, struct err *err)
{
    sqlite3_stmt *st = stmt_query(s, err, NEXT_ID, "");
    if (stmt_step(st, err) < 0)
        return -1;
    *id = stmt_int(st, 0, 1);
    sqlite3_reset(st);
    return 0;
}

static int insert_mentions(struct store *s, int64_t id, const char *canonical, struct err *err)
{
    for (const char *at = canonical; (at = strstr(at, "/jobs/"));) {
        at += strlen("/jobs/");
        const long long named = strtoll(at, NULL, 10);
        if (named > 0 && named != id && stmt_do(s, err, INSERT_MENTION, "ii", (int64_t)named, id) < 0)
            return -1;
    }
    return 0;
}

int jobs_insert(struct store *s, const struct job_row *row, const char *yaml, const char *canonical, struct err *err)
{
    if (stmt_do(s, err, INSERT, "ittttt" "iiii" "ooooo" "i" "oo" "ii" "dd" "i" "ooot", row->id, row->name,
                row->state, null_if_empty(row->result), row->reason, row->after, row->priority,
                row->held, row->attempt, row->generation, row->np, row->step, row->steps,
                row->exit_code, row->retry_of, row->submitted_ms, row->started_ms, row->ended_ms,
                row->productive_ms, row->last_seq, row->loss, row->samples_per_s, row->busy_ms,
                row->members > 0 ? row->members : UNKNOWN, row->sweep > 0 ? row->sweep : UNKNOWN,
                row->sweep > 0 ? row->sweep_index : UNKNOWN, null_if_empty(row->point)) < 0)
        return -1;
    if (stmt_do(s, err, INSERT_SPEC, "itt", row->id, yaml, canonical) < 0)
        return -1;
    return insert_mentions(s, row->id, canonical, err);
}

int jobs_edit(struct store *s, const struct job_row *row, const char *yaml, const char *canonical, struct err *err)
{
    if (stmt_do(s, err, EDIT_ROW, "itt", row->id, row->name, row->after) < 0 ||
        stmt_do(s, err, EDIT_SPEC, "itt", row->id, yaml, canonical) < 0 ||
        stmt_do(s, err, DROP_MENTIONS, "i", row->id) < 0)
        return -1;
    return insert_mentions(s, row->id, canonical, err);
}

int jobs_update(struct store *s, const struct job_row *row, struct err *err)
{
    return stmt_do(s, err, UPDATE, "ittt" "iiii" "oooo" "oo" "ii" "dd" "i", row->id, row->state,
                   null_if_empty(row->result), row->reason, row->priority, row->held, row->attempt, row->generation,
                   row->np, row->step, row->steps, row->exit_code, row->started_ms, row->ended_ms, row->productive_ms,
                   row->last_seq, row->loss, row->samples_per_s, row->busy_ms);
}

/* The statement positioned at the job's row; the caller resets it. NULL on failure. */
static sqlite3_stmt *step_to(struct store *s, const char *sql, int64_t id, struct err *err)
{
    sqlite3_stmt *st = stmt_query(s, err, sql, "i", id);
    int rc = stmt_step(st, err);
    if (rc == 0)
        removed_say(s, id, err);
    return rc > 0 ? st : NULL;
}

int jobs_get(struct job_row *row, struct store *s, int64_t id, struct err *err)
{
    sqlite3_stmt *st = step_to(s, GET, id, err);
    if (!st)
        return -1;
    row_read(row, st);
    sqlite3_reset(st);
    return 0;
}

int jobs_spec(char **yaml, char **canonical, struct store *s, int64_t id, struct err *err)
{
    sqlite3_stmt *st = step_to(s, SPEC, id, err);
    if (!st)
        return -1;
    char *y = stmt_dup(st, 0, err);
    char *c = y ? stmt_dup(st, 1, err) : NULL;
    sqlite3_reset(st);
    if (!c) {
        free(y);
        return -1;
    }
    *yaml = y;
    *canonical = c;
    return 0;
}

int jobs_that_mention(struct store *s, int64_t id, jobs_mention_fn each, void *ctx, struct err *err)
{
    sqlite3_stmt *st = stmt_query(s, err, MENTION, "i", id);
    int rc = 0;
    while (rc == 0 && (rc = stmt_step(st, err)) > 0)
        rc = each(ctx, stmt_int(st, 0, 0), (const char *)sqlite3_column_text(st, 1));
    sqlite3_reset(st);
    return rc;
}

/* The id of the last of `scan` rows; *next as for jobs_done_each(). */
static int done_from(int64_t *from, int64_t *next, struct store *s, const struct jobs_done *which, struct err *err)
{
    sqlite3_stmt *st = stmt_query(s, err, DONE_FROM, "ii", which->before > 0 ? which->before : INT64_MAX, which->scan);
    if (stmt_step(st, err) < 0)
        return -1;
    *from = stmt_int(st, 0, 0);
    *next = stmt_int(st, 1, 0) < which->scan ? 0 : *from;
    sqlite3_reset(st);
    return 0;
}

int jobs_done_each(struct store *s, const struct jobs_done *which, int64_t *next, jobs_done_fn each, void *ctx,
                   struct err *err)
{
    int64_t from;
    if (done_from(&from, next, s, which, err) < 0)
        return -1;
    sqlite3_stmt *st = stmt_query(s, err, DONE_EACH, "iiit", which->before > 0 ? which->before : INT64_MAX, from,
                                  which->ended_before_ms, which->result);
    int rc = 0;
    while (rc == 0 && (rc = stmt_step(st, err)) > 0)
        rc = each(ctx, stmt_int(st, 0, 0), (const char *)sqlite3_column_text(st, 1),
                  (const char *)sqlite3_column_text(st, 2));
    sqlite3_reset(st);
    return rc;
}

int jobs_done_skip(int64_t *before, struct store *s, int64_t keep, const char *result, struct err *err)
{
    sqlite3_stmt *st = stmt_query(s, err, DONE_SKIP, "ti", result, keep);
    int rc = stmt_step(st, err);
    *before = rc > 0 ? stmt_int(st, 0, 1) : 1;
    sqlite3_reset(st);
    return rc < 0 ? -1 : 0;
}

int jobs_end(struct store *s, int64_t id, const char *reason, int64_t at_ms, struct err *err)
{
    return stmt_do(s, err, END, "iti", id, reason, at_ms);
}

int jobs_ids(struct store *s, jobs_ids_fn each, void *ctx, struct err *err)
{
    sqlite3_stmt *st = stmt_query(s, err, IDS, "");
    int rc = 0;
    while (rc == 0 && (rc = stmt_step(st, err)) > 0)
        rc = each(ctx, stmt_int(st, 0, 0), stmt_int(st, 1, 0), stmt_int(st, 2, 0));
    sqlite3_reset(st);
    return rc;
}

int jobs_done_latest(struct store *s, int64_t limit, jobs_ids_fn each, void *ctx, struct err *err)
{
    sqlite3_stmt *st = stmt_query(s, err, LATEST, "i", limit);
    int rc = 0;
    while (rc == 0 && (rc = stmt_step(st, err)) > 0)
        rc = each(ctx, stmt_int(st, 0, 0), true, true);
    sqlite3_reset(st);
    return rc;
}

int jobs_find(int64_t *id, struct store *s, const char *name, int64_t before, struct err *err)
{
    sqlite3_stmt *st = stmt_query(s, err, name ? FIND : NEWEST, name ? "it" : "i", before, name);
    int rc = stmt_step(st, err);
    if (rc == 0)
        return name ? err_set(err, ERR_NOT_FOUND, "no job is named '%s'", name)
                    : err_set(err, ERR_NOT_FOUND, "there are no jobs yet");
    if (rc < 0)
        return -1;
    *id = stmt_int(st, 0, 0);
    sqlite3_reset(st);
    return 0;
}

static int each_row(sqlite3_stmt *st, jobs_each_fn each, void *ctx, struct err *err)
{
    int rc = 0;
    while (rc == 0 && (rc = stmt_step(st, err)) > 0) {
        struct job_row row;
        row_read(&row, st);
        rc = each(ctx, &row);
    }
    sqlite3_reset(st);
    return rc;
}

int jobs_each(struct store *s, bool open, int64_t before, int64_t limit, jobs_each_fn each, void *ctx, struct err *err)
{
    return each_row(stmt_query(s, err, open ? EACH_OPEN : EACH, "ii", before > 0 ? before : INT64_MAX, limit), each,
                    ctx, err);
}

int jobs_members_each(struct store *s, int64_t sweep, int64_t after, int64_t limit, jobs_each_fn each, void *ctx,
                      struct err *err)
{
    return each_row(stmt_query(s, err, MEMBERS, "iii", sweep, after, limit), each, ctx, err);
}

int jobs_members_find(int64_t *id, struct store *s, int64_t sweep, int64_t index, struct err *err)
{
    sqlite3_stmt *st = stmt_query(s, err, MEMBER, "ii", sweep, index);
    const int rc = stmt_step(st, err);
    if (rc > 0)
        *id = stmt_int(st, 0, 0);
    sqlite3_reset(st);
    return rc;
}

int jobs_members_count(struct jobs_members *m, struct store *s, int64_t sweep, struct err *err)
{
    sqlite3_stmt *st = stmt_query(s, err, MEMBERS_COUNT, "i", sweep);
    const int rc = stmt_step(st, err);
    *m = (struct jobs_members){.last = -1};
    if (rc > 0)
        *m = (struct jobs_members){stmt_int(st, 0, 0), stmt_int(st, 1, -1), stmt_int(st, 2, 0), stmt_int(st, 3, 0),
                                   stmt_int(st, 4, 0)};
    sqlite3_reset(st);
    return rc > 0 ? 0 : -1;
}
