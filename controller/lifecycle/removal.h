/* SPDX-License-Identifier: Apache-2.0 */
/* removal.h - removes a done job: first its rows, then its files
 *
 * The job is removed once its rows are deleted; the files follow.  A daemon that
 * dies in between finishes at its next start.  So a listed job is always whole.
 *
 * Only files in jobs/<id> of our home are deleted, checkpoints there only on
 * request.  A checkpoint.dir or mirror of the spec is never touched, nor files on
 * hosts (agent/attempt/host_cache.h cleans up there).  Files are deleted in a
 * worker thread: a checkpoint may be large.
 */
#ifndef CONTROLLER_LIFECYCLE_REMOVAL_H
#define CONTROLLER_LIFECYCLE_REMOVAL_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct daemon;
struct err;
struct removed_row;

/* Reports what would be deleted and kept, from the rows, without sizes; changes nothing. ERR_CONFLICT if the job is
 * not done, or another job needs it. */
int removal_plan(struct removed_row *row, struct daemon *d, int64_t id, bool checkpoints, struct err *err);

/* The same for a job whose rows are known; removal_measure() adds the sizes, in a thread.  `dir`: jobs/<id>. */
int removal_plan_rows(struct removed_row *row, struct daemon *d, int64_t id, const char *name, const char *canonical,
                      bool checkpoints, struct err *err);
void removal_measure(struct removed_row *row, const char *dir);

/* The two halves of removal_measure(): the sizes of all files in `dir` and of its checkpoints, 0 if there are none; and
 * their part of the answer. */
void removal_count(int64_t *all, int64_t *checkpoints, const char *dir);
void removal_set_sizes(struct removed_row *row, int64_t all, int64_t checkpoints);

/* The answer of POST /v1/jobs/JOB/remove (docs/API.md). */
json_t *removal_json(const struct removed_row *row, const struct daemon *d, bool removed);

/* A sweep is removed after its members. */
int removal_check_members(struct daemon *d, int64_t id, struct err *err);

/* On success the job is removed and the deletion of its files has started. */
int removal_begin(struct daemon *d, const struct removed_row *row, struct err *err);

/* True if the deletion is still running. server_wake() is called when it ends. */
bool removal_runs(const struct daemon *d, int64_t id);

/* Resumes an earlier daemon's removals; on close, unfinished ones stay pending. */
int removal_open(struct daemon *d, struct err *err);
void removal_close(struct daemon *d);

#endif
