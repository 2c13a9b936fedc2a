/* SPDX-License-Identifier: Apache-2.0 */
/* orphans.h - agents that may still be alive although their attempt was abandoned: one row per node */
#ifndef DB_ORPHANS_H
#define DB_ORPHANS_H

#include <stdint.h>

struct err;
struct store;

struct orphan_row {
    int64_t     job, attempt, node;
    const char *launcher, *host;
};

typedef int (*orphans_each_fn)(void *ctx, const struct orphan_row *row);

int orphans_put(struct store *s, const struct orphan_row *row, struct err *err);
int orphans_remove(struct store *s, int64_t job, int64_t attempt, int64_t node, struct err *err);
int orphans_each(struct store *s, orphans_each_fn each, void *ctx, struct err *err);

#endif
