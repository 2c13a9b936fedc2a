/* SPDX-License-Identifier: Apache-2.0 */
/* nodes.h - what was last known of each node */
#ifndef DB_NODES_H
#define DB_NODES_H

#include <stdint.h>

struct err;
struct store;

struct node_row {
    const char *name;
    const char *boot_id;
    int64_t     cpus;
    const char *facts;          /* JSON, as `jobctl-agent probe` prints them */
    int64_t     last_seen_ms;
};

typedef int (*nodes_each_fn)(void *ctx, const struct node_row *row);

int nodes_put(struct store *s, const struct node_row *row, struct err *err);
int nodes_each(struct store *s, nodes_each_fn each, void *ctx, struct err *err);

#endif
