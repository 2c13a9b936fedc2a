/* SPDX-License-Identifier: Apache-2.0 */
/* nodes.c - see nodes.h */
#include "db/nodes.h"

#include "db/stmt.h"
#include "db/store.h"
#include "engine/base/err.h"

static const char PUT[] =
    "INSERT INTO nodes (name, boot_id, cpus, facts, last_seen_ms) VALUES (?1,?2,?3,?4,?5) "
    "ON CONFLICT(name) DO UPDATE SET boot_id=?2, cpus=?3, facts=?4, last_seen_ms=?5";
static const char PUT_HEALTH[] =
    "INSERT INTO nodes (name, boot_id, cpus, last_seen_ms, failures, failed_ms, vanished, error, "
    "drained) VALUES (?1,'',0,?2,?3,?4,?5,?6,?7) ON CONFLICT(name) DO UPDATE SET last_seen_ms=?2, "
    "failures=?3, failed_ms=?4, vanished=?5, error=?6, drained=?7";
static const char REMOVE[] = "DELETE FROM nodes WHERE name=?";
static const char EACH[] =
    "SELECT name, boot_id, cpus, facts, last_seen_ms, failures, failed_ms, vanished, error, drained "
    "FROM nodes ORDER BY name";

int nodes_put(struct store *s, const struct node_row *row, struct err *err)
{
    return stmt_do(s, err, PUT, "ttiti", row->name, row->boot_id, row->cpus, row->facts, row->last_seen_ms);
}

int nodes_put_health(struct store *s, const struct node_row *row, struct err *err)
{
    return stmt_do(s, err, PUT_HEALTH, "tiiiitt", row->name, row->last_seen_ms, row->failures,
                   row->failed_ms, (int64_t)row->vanished, row->error, row->drained);
}

int nodes_remove(struct store *s, const char *name, struct err *err)
{
    return stmt_do(s, err, REMOVE, "t", name);
}

int nodes_each(struct store *s, nodes_each_fn each, void *ctx, struct err *err)
{
    sqlite3_stmt *st = stmt_query(s, err, EACH, "");
    int rc = 0;
    while (rc == 0 && (rc = stmt_step(st, err)) > 0) {
        const struct node_row row = {
            .name = (const char *)sqlite3_column_text(st, 0),
            .boot_id = (const char *)sqlite3_column_text(st, 1),
            .cpus = stmt_int(st, 2, 0),
            .facts = (const char *)sqlite3_column_text(st, 3),
            .last_seen_ms = stmt_int(st, 4, 0),
            .failures = stmt_int(st, 5, 0),
            .failed_ms = stmt_int(st, 6, 0),
            .vanished = stmt_int(st, 7, 0) != 0,
            .error = (const char *)sqlite3_column_text(st, 8),
            .drained = (const char *)sqlite3_column_text(st, 9),
        };
        rc = each(ctx, &row);
    }
    sqlite3_reset(st);
    return rc;
}
