/* SPDX-License-Identifier: Apache-2.0 */
/* nodes.h - the last known state of each node
 *
 * Facts and health are updated separately: new facts do not clear the failures, and a drain does not clear the facts.
 */
#ifndef DB_NODES_H
#define DB_NODES_H

#include <stdbool.h>
#include <stdint.h>

struct err;
struct store;

struct node_row {
    const char *name;
    const char *boot_id;        /* "" and 0 until its facts are known */
    int64_t     cpus;
    const char *facts;          /* JSON, as `jobctl-agent probe` prints them */
    int64_t     last_seen_ms;
    int64_t     failures;       /* since it last answered */
    int64_t     failed_ms;      /* time of the latest failure */
    bool        vanished;       /* it stopped answering */
    const char *error;          /* of the latest failure, "" = none */
    const char *drained;        /* reason of the drain; NULL: not drained */
};

typedef int (*nodes_each_fn)(void *ctx, const struct node_row *row);

int nodes_put(struct store *s, const struct node_row *row, struct err *err);         /* facts */
int nodes_put_health(struct store *s, const struct node_row *row, struct err *err);  /* the rest */
int nodes_remove(struct store *s, const char *name, struct err *err);
int nodes_each(struct store *s, nodes_each_fn each, void *ctx, struct err *err);

#endif
