/* SPDX-License-Identifier: Apache-2.0 */
/* removed.h - jobs that were removed: a row each, so that it can be said what became of them
 *
 * The rows of a job go in one transaction; its files go after that.  Until they
 * are gone the row is `pending`: whoever opens the store next ends what was begun.
 */
#ifndef DB_REMOVED_H
#define DB_REMOVED_H

#include <stdbool.h>
#include <stdint.h>

struct err;
struct store;

enum { REMOVED_NAME = 65, REMOVED_PATH = 4096 };

struct removed_row {
    int64_t job;
    char    name[REMOVED_NAME];
    int64_t removed_ms;
    int64_t bytes;                          /* of its files, without checkpoints */
    char    checkpoints[REMOVED_PATH];      /* where they are or were; "": none */
    int64_t checkpoint_bytes;               /* -1: not in its directory, not counted */
    bool    kept;                           /* they stay */
    bool    pending;
};

/* All rows of the job go, and this one comes, or nothing changes. */
int removed_put(struct store *s, const struct removed_row *row, struct err *err);
/* Its files are gone. */
int removed_done(struct store *s, int64_t job, struct err *err);

/* ERR_NOT_FOUND where none of that id was removed. */
int removed_get(struct removed_row *row, struct store *s, int64_t job, struct err *err);

/* Those that are pending; returns the value by which `each` ended it early, else 0. */
typedef int (*removed_each_fn)(void *ctx, const struct removed_row *row);
int removed_each_pending(struct store *s, removed_each_fn each, void *ctx, struct err *err);

/* Why there is no job of that id: ERR_NOT_FOUND, and -1. */
int removed_say(struct store *s, int64_t job, struct err *err);

#endif
