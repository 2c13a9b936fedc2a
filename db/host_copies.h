/* SPDX-License-Identifier: Apache-2.0 */
/* host_copies.h - code copies that removed jobs left on other machines: one row per job and host, until the copy is
 * deleted */
#ifndef DB_HOST_COPIES_H
#define DB_HOST_COPIES_H

#include <stdint.h>

struct err;
struct store;

struct host_copy_row {
    int64_t     job, attempt;   /* the newest attempt on that host */
    const char *host, *nonce;
};

/* A new row replaces an older one of the same job and host. */
int host_copies_put(struct store *s, const struct host_copy_row *row, struct err *err);
int host_copies_remove(struct store *s, int64_t job, const char *host, struct err *err);

/* The rows of a job, or with job 0 those of all removed jobs. Returns the nonzero value of `each` that stopped it. */
typedef int (*host_copies_each_fn)(void *ctx, const struct host_copy_row *row);
int host_copies_each(struct store *s, int64_t job, host_copies_each_fn each, void *ctx, struct err *err);

#endif
