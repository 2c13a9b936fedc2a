/* SPDX-License-Identifier: Apache-2.0 */
/* rebuild.h - builds a new store from an old one: whole copies, missing jobs, rows to be written again */
#ifndef DB_REBUILD_H
#define DB_REBUILD_H

#include <stdint.h>

struct err;
struct store;

/* A checked copy of the store `from` (all of it is read, indexes included) as the new file `to`, without slack and
 * without a log, mode 0600. -1: `from` is damaged or absent, or `to` cannot be written and is not there. */
int rebuild_copy(const char *from, const char *to, struct err *err);

/* Takes the rows of jobs that `s` lacks and has not removed from the store `from`, which is of the same version; also
 * rows of nodes and removed jobs. *taken: how many jobs. */
int rebuild_take(int64_t *taken, struct store *s, const char *from, struct err *err);

/* Deletes a job's rows except its curves, in a transaction that must write its row again before it commits. */
int rebuild_forget(struct store *s, int64_t job, struct err *err);
/* All of them. */
int rebuild_drop(struct store *s, int64_t job, struct err *err);

/* 1: the job's rows can be read and its events are whole; 0: they cannot be read, are incomplete, or are missing. */
int rebuild_intact(struct store *s, int64_t job, int64_t last_seq);

#endif
