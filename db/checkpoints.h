/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoints.h - the checkpoints that a job wrote, each with its trust level */
#ifndef DB_CHECKPOINTS_H
#define DB_CHECKPOINTS_H

#include <stdint.h>

struct err;
struct store;

struct checkpoint_row {
    int64_t     step;
    const char *path;
    const char *digest;
    int64_t     bytes;
    const char *trust;      /* "written", "quarantined" */
    int64_t     at_ms;
};

typedef int (*checkpoints_each_fn)(void *ctx, const struct checkpoint_row *row);

/* Replaces a row of the same step and path. */
int checkpoints_put(struct store *s, int64_t job, const struct checkpoint_row *row, struct err *err);
int checkpoints_distrust(struct store *s, int64_t job, const char *path, struct err *err);
/* Newest step first; includes quarantined ones. */
int checkpoints_each(struct store *s, int64_t job, int64_t limit, checkpoints_each_fn each, void *ctx, struct err *err);

#endif
