/* SPDX-License-Identifier: Apache-2.0 */
/* jobs.h - one row per job: its present state, derived from its events */
#ifndef DB_JOBS_H
#define DB_JOBS_H

#include <stdbool.h>
#include <stdint.h>

struct err;
struct store;

enum { JOBS_NAME = 65, JOBS_WORD = 16, JOBS_REASON = 512, JOBS_POINT = 1024 };

/* Numbers that may be unknown are negative, `loss` and `samples_per_s` NaN. */
struct job_row {
    int64_t id;
    char    name[JOBS_NAME];
    char    state[JOBS_WORD];
    char    result[JOBS_WORD];      /* "" until it is done */
    char    reason[JOBS_REASON];
    char    after[JOBS_REASON];     /* JSON list of ids */
    int64_t priority;
    int64_t held;
    int64_t attempt;
    int64_t generation;
    int64_t np;
    int64_t step;
    int64_t steps;
    int64_t exit_code;
    int64_t retry_of;
    int64_t submitted_ms;
    int64_t started_ms;
    int64_t ended_ms;
    int64_t productive_ms;          /* productive rank-time (db/goodput_rows.h) ... */
    int64_t busy_ms;                /* ... out of rank-time neither queued nor paused */
    int64_t last_seq;
    int64_t members;                /* the number of members of a sweep or array, else -1 */
    int64_t sweep;                  /* for a member: its sweep, ... */
    int64_t sweep_index;            /* ... its index in the sweep ... */
    char    point[JOBS_POINT];      /* ... and its values, a JSON map; "": none, or too long for this field */
    double  loss;
    double  samples_per_s;
    bool    damaged;                /* a text in the row was invalid: `reason` explains it */
};

/* Returns nonzero to stop the listing, which then returns that value. */
typedef int (*jobs_each_fn)(void *ctx, const struct job_row *row);

/* Every id in ascending order, including removed jobs (as done and not started); started: it has an attempt. Returns
 * the nonzero value of `each` that stopped it, else 0. */
typedef int (*jobs_ids_fn)(void *ctx, int64_t id, bool started, bool done);
int jobs_ids(struct store *s, jobs_ids_fn each, void *ctx, struct err *err);
/* Jobs in the order in which they ended, newest first; otherwise as jobs_ids(). */
int jobs_done_latest(struct store *s, int64_t limit, jobs_ids_fn each, void *ctx, struct err *err);

/* The smallest unused id. */
int jobs_next_id(int64_t *id, struct store *s, struct err *err);
int jobs_insert(struct store *s, const struct job_row *row, const char *yaml, const char *canonical, struct err *err);
/* Updates everything except id, name, after, retry_of and submitted_ms; jobs_edit() changes name and after, the
 * others never change. */
int jobs_update(struct store *s, const struct job_row *row, struct err *err);
/* Ends one whose other rows cannot be read: failed. */
int jobs_end(struct store *s, int64_t id, const char *reason, int64_t at_ms, struct err *err);
/* ERR_NOT_FOUND if there is none; the error says if it was removed (removed.h). */
int jobs_get(struct job_row *row, struct store *s, int64_t id, struct err *err);
/* Replaces both spec texts, and the copies of name and after in the row. */
int jobs_edit(struct store *s, const struct job_row *row, const char *yaml, const char *canonical, struct err *err);
/* The caller frees both texts. */
int jobs_spec(char **yaml, char **canonical, struct store *s, int64_t id, struct err *err);
/* The other jobs whose canonical spec has a path ".../jobs/`id`/..."; returns the nonzero value of `each` that
 * stopped it, else 0. */
typedef int (*jobs_mention_fn)(void *ctx, int64_t id, const char *canonical);
int jobs_that_mention(struct store *s, int64_t id, jobs_mention_fn each, void *ctx, struct err *err);

/* Done jobs to choose from, newest first. */
struct jobs_done {
    int64_t     before;             /* ids below; 0: all */
    int64_t     scan;               /* the maximum number of rows to read */
    int64_t     ended_before_ms;
    const char *result;             /* NULL: any */
};
typedef int (*jobs_done_fn)(void *ctx, int64_t id, const char *name, const char *canonical);
/* *next: `before` of the call that continues, or 0 after the last row. */
int jobs_done_each(struct store *s, const struct jobs_done *which, int64_t *next, jobs_done_fn each, void *ctx,
                   struct err *err);
/* *before: the value for which->before that leaves out the newest `keep` jobs of this result; 1: no job remains. */
int jobs_done_skip(int64_t *before, struct store *s, int64_t keep, const char *result, struct err *err);
/* The newest job with that name and an id below `before`; with NULL, the newest of any name that is not a member of
 * a sweep. */
int jobs_find(int64_t *id, struct store *s, const char *name, int64_t before, struct err *err);
/* Newest first, without members of sweeps unless `open`; `before` = 0 starts at the newest; `open`: only jobs not
 * done. */
int jobs_each(struct store *s, bool open, int64_t before, int64_t limit, jobs_each_fn each, void *ctx, struct err *err);

/* The members of a sweep that have started. */
struct jobs_members {
    int64_t started, last;          /* last: the largest index, -1: no member has started */
    int64_t succeeded, failed, cancelled;       /* of the members that are done */
};
int jobs_members_count(struct jobs_members *m, struct store *s, int64_t sweep, struct err *err);
/* By index, from `after` + 1. */
int jobs_members_each(struct store *s, int64_t sweep, int64_t after, int64_t limit, jobs_each_fn each, void *ctx,
                      struct err *err);
/* 1: there is one; 0: there is none; -1: the store failed. */
int jobs_members_find(int64_t *id, struct store *s, int64_t sweep, int64_t index, struct err *err);

#endif
