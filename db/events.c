/* SPDX-License-Identifier: Apache-2.0 */
/* events.c - see events.h */
#include "db/events.h"

#include "db/stmt.h"
#include "db/store.h"
#include "engine/base/err.h"

static const char APPEND[] =
    "INSERT INTO events (job, seq, at_ms, source, kind, attempt, node, incarnation, agent_seq, "
    "body) VALUES (?,?,?,?,?,?,?,?,?,?)";
static const char EACH[] =
    "SELECT seq, at_ms, source, kind, attempt, node, incarnation, agent_seq, body FROM events "
    "WHERE job = ? AND seq > ? ORDER BY seq LIMIT ?";
int events_append(struct store *s, const struct event_row *row, struct err *err)
{
    return stmt_do(s, err, APPEND, "iiittitoot", row->job, row->seq, row->at_ms, row->source,
                   row->kind, row->attempt, row->node, row->incarnation, row->agent_seq, row->body);
}

int events_each(struct store *s, int64_t job, int64_t after, int64_t limit, events_each_fn each,
                void *ctx, struct err *err)
{
    sqlite3_stmt *st = stmt_query(s, err, EACH, "iii", job, after, limit);
    char source[32], kind[64], node[256];
    int rc = 0;
    while (rc == 0 && (rc = stmt_step(st, err)) > 0) {
        stmt_words(source, sizeof(source), st, 2);
        stmt_words(kind, sizeof(kind), st, 3);
        stmt_words(node, sizeof(node), st, 5);
        const struct event_row row = {
            .job = job,
            .seq = stmt_int(st, 0, 0),
            .at_ms = stmt_int(st, 1, 0),
            .source = source,
            .kind = kind,
            .attempt = stmt_int(st, 4, 0),
            .node = sqlite3_column_type(st, 5) == SQLITE_NULL ? NULL : node,
            .incarnation = stmt_int(st, 6, 0),
            .agent_seq = stmt_int(st, 7, -1),
            .body = (const char *)sqlite3_column_text(st, 8),
        };
        rc = each(ctx, &row);
    }
    sqlite3_reset(st);
    return rc;
}
