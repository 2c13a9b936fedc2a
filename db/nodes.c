/* SPDX-License-Identifier: Apache-2.0 */
/* nodes.c - see nodes.h */
#include "db/nodes.h"

#include "db/stmt.h"
#include "db/store.h"
#include "engine/err.h"

static const char PUT[] = "INSERT OR REPLACE INTO nodes (name, boot_id, cpus, facts, last_seen_ms) "
                          "VALUES (?,?,?,?,?)";
static const char EACH[] = "SELECT name, boot_id, cpus, facts, last_seen_ms FROM nodes ORDER BY name";

int nodes_put(struct store *s, const struct node_row *row, struct err *err)
{
    sqlite3_stmt *st = stmt_get(s, PUT, err);
    if (!st || stmt_bind(st, err, "ttiti", row->name, row->boot_id, row->cpus, row->facts,
                         row->last_seen_ms) < 0)
        return -1;
    return stmt_run(st, err);
}

int nodes_each(struct store *s, nodes_each_fn each, void *ctx, struct err *err)
{
    sqlite3_stmt *st = stmt_get(s, EACH, err);
    if (!st)
        return -1;
    int rc, stop = 0;
    while (!stop && (rc = stmt_step(st, err)) != 0) {
        if (rc < 0)
            return -1;
        const struct node_row row = {
            .name = (const char *)sqlite3_column_text(st, 0),
            .boot_id = (const char *)sqlite3_column_text(st, 1),
            .cpus = stmt_int(st, 2, 0),
            .facts = (const char *)sqlite3_column_text(st, 3),
            .last_seen_ms = stmt_int(st, 4, 0),
        };
        stop = each(ctx, &row);
    }
    sqlite3_reset(st);
    return stop;
}
