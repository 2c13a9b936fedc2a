/* SPDX-License-Identifier: Apache-2.0 */
/* removed.h - removed jobs: one row each, so that later requests can report the removal
 *
 * The rows of a job are deleted in one transaction, its files afterwards.  Until
 * then the row is `pending`: the next daemon finishes the removal.
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
    int64_t bytes;                          /* total size of its files, without checkpoints */
    char    checkpoints[REMOVED_PATH];      /* their directory; "": none */
    int64_t checkpoint_bytes;               /* -1: outside its directory, not counted */
    bool    kept;                           /* the checkpoints were not deleted */
    bool    pending;
};

/* Deletes all rows of the job and adds this one, atomically. */
int removed_put(struct store *s, const struct removed_row *row, struct err *err);
/* Deletes all rows of the job, in the open transaction. */
int removed_forget(struct store *s, int64_t job, struct err *err);
/* Marks its files as deleted. */
int removed_done(struct store *s, int64_t job, struct err *err);

/* ERR_NOT_FOUND if no job of that id was removed. */
int removed_get(struct removed_row *row, struct store *s, int64_t job, struct err *err);

/* The pending removals; returns the nonzero value of `each` that stopped it, else 0. */
typedef int (*removed_each_fn)(void *ctx, const struct removed_row *row);
int removed_each_pending(struct store *s, removed_each_fn each, void *ctx, struct err *err);

/* Sets *err to the reason why the job does not exist (ERR_NOT_FOUND); returns -1. */
int removed_say(struct store *s, int64_t job, struct err *err);

#endif
