/* SPDX-License-Identifier: Apache-2.0 */
/* job_store.h - stores all results of an input together
 *
 * Events, the job's row, and tables derived from the events for fast queries:
 * attempts, checkpoints, curves, goodput.
 */
#ifndef CONTROLLER_JOB_JOB_STORE_H
#define CONTROLLER_JOB_JOB_STORE_H

#include <jansson.h>
#include <stdint.h>

struct core_event;
struct core_output;
struct err;
struct job;
struct job_core;
struct job_row;
struct store;

/* The source of an event: the key by which the store drops duplicates. */
struct event_source {
    int64_t seq;            /* 0: not from an agent */
    int64_t incarnation;
};

/* `job->core` is the state after the input, `was` the state before. Updates the job's last_seq, attempt row and curve
 * counters; on failure these and the store are unchanged. Written into the store's group, which the caller commits
 * (store_commit_group()). */
int job_store_write(struct job *job, const struct job_core *was, const struct core_output *out,
                    const struct event_source *told, struct err *err);

/* The same for an edit, with the texts of the new spec, which `job` already has. */
int job_store_edit(struct job *job, const struct job_core *was, const struct core_output *out, const char *yaml,
                   const char *canonical, struct err *err);

/* Stores the rows of a new job in the open transaction (submit_batch.h). */
int job_store_submit(struct job *job, const struct core_output *out, const char *yaml,
                     const char *canonical, struct err *err);

/* Stores a job as its job.json has it (takeover.h), into the store's group: `events` are its first one and `rebuilt`,
 * which gets the number after + 1; row: the store's row of it, or NULL. */
int job_store_take_over(struct job *job, const struct job_row *row, const struct core_event *events, int64_t after,
                        const char *yaml, const char *canonical, struct err *err);

/* The canonical spec of a stored job, a new reference; NULL on failure. */
json_t *job_store_spec(struct store *s, int64_t id, struct err *err);

/* For an obsolete agent event: stores only its sequence number. */
int job_store_heard(struct job *job, const struct event_source *told, struct err *err);

#endif
