/* SPDX-License-Identifier: Apache-2.0 */
/* job_store.h - what follows from an input, stored in one transaction
 *
 * Events, the row of the job, and what can be asked for without reading all
 * events: attempts, checkpoints, curves, the ledger.
 */
#ifndef CONTROLLER_JOB_JOB_STORE_H
#define CONTROLLER_JOB_JOB_STORE_H

#include <stdint.h>

struct core_output;
struct err;
struct job;
struct job_core;

/* Who told an event: the key by which the store takes it once. */
struct event_source {
    int64_t seq;            /* 0: not an agent's */
    int64_t incarnation;
};

/* `job->core` is the job as it is after the input, `was` as before. Sets last_seq, the attempt's
 * row and the curve's counters of the job; failing leaves them, and the store, as they were. */
int job_store_write(struct job *job, const struct job_core *was, const struct core_output *out,
                    const struct event_source *told, struct err *err);

/* The rows of a new job, in the transaction that is open (submit_batch.h). */
int job_store_submit(struct job *job, const struct core_output *out, const char *yaml,
                     const char *canonical, struct err *err);

/* An event of an agent that means nothing any more: only remember that it was heard. */
int job_store_heard(struct job *job, const struct event_source *told, struct err *err);

#endif
