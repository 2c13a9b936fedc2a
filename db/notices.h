/* SPDX-License-Identifier: Apache-2.0 */
/* notices.h - messages about jobs that are still to be sent, one row per job and target
 *
 * controller/notify/notice.h decides when a row is due and how it changes. A row has the name of a target in
 * config.yaml, never its address.
 */
#ifndef DB_NOTICES_H
#define DB_NOTICES_H

#include <stdbool.h>
#include <stdint.h>

#include "db/jobs.h"

struct err;
struct store;

enum { NOTICES_TARGET = 65, NOTICES_EVENT = 16, NOTICES_REASON = 400 };

struct notice_row {
    int64_t job;
    char    target[NOTICES_TARGET];
    char    event[NOTICES_EVENT];       /* the most important one since the last message; "": none */
    char    name[JOBS_NAME];            /* the job's */
    char    reason[NOTICES_REASON];     /* the newest event's */
    int64_t restarts, hangs;            /* since the last message */
    int64_t first_ms, last_ms;          /* the first and the newest event since then; wall time */
    int64_t due_ms;                     /* when to send; 0: nothing to send */
    int64_t sent, sent_ms;              /* messages so far, and when the last one left */
    int64_t tries;                      /* failed attempts to send the present message */
    bool    ended;                      /* the job is done: the row is deleted after its message */
};

/* 1: found; 0: none, and *row is zero except for its key; -1: the store failed. */
int notices_get(struct notice_row *row, struct store *s, int64_t job, const char *target, struct err *err);
int notices_put(struct store *s, const struct notice_row *row, struct err *err);
int notices_remove(struct store *s, int64_t job, const char *target, struct err *err);

/* A target's waiting rows, fewest tries first, then by due_ms, at most `limit`; and the targets that have waiting rows,
 * with their number. Both return the nonzero value of `each` that stopped it, else 0. */
typedef int (*notices_each_fn)(void *ctx, const struct notice_row *row);
int notices_each(struct store *s, const char *target, int64_t limit, notices_each_fn each, void *ctx, struct err *err);
typedef int (*notices_target_fn)(void *ctx, const char *target, int64_t waiting);
int notices_targets(struct store *s, notices_target_fn each, void *ctx, struct err *err);

#endif
