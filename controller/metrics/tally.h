/* SPDX-License-Identifier: Apache-2.0 */
/* tally.h - counts job events since the daemon started
 *
 * Prometheus expects counters that restart with the program.  An event whose commit fails is counted once more
 * when its agent repeats it.
 */
#ifndef CONTROLLER_METRICS_TALLY_H
#define CONTROLLER_METRICS_TALLY_H

#include <stdint.h>

#include "agent/core/cause.h"
#include "agent/core/goodput.h"
#include "controller/job/job_core.h"
#include "controller/metrics/histogram.h"

struct job;

/* A job that has started and is not done. */
struct tally_job {
    int64_t          id, step;      /* step: the newest one counted, -1: none */
    enum cause       cause;         /* cause of its newest failure */
    struct histogram step_s;
};

struct tally {
    int64_t             started;                /* attempts */
    int64_t             ended[RESULTS];
    int64_t             failures[CAUSES];       /* generations that ended with this cause */
    int64_t             restarts[CAUSES];       /* generations and attempts started after such an end */
    struct goodput      spent;                  /* by jobs that are done */
    struct goodput      shown;                  /* the largest sums exported so far: a counter never decreases */
    struct histogram    queued_s;                /* seconds from submit to the first start */
    struct tally_job   *jobs;                   /* by id, ascending */
    int                 count, room;
};

void tally_init(struct tally *t);
void tally_fini(struct tally *t);

/* Counts these stored events of a job in its daemon's tally. */
void tally_note(struct job *job, const struct core_output *out);

/* NULL: none of its events was counted since the daemon started. */
const struct tally_job *tally_job(const struct tally *t, int64_t id);

/* Seconds of all jobs by bucket; `live`: those of jobs that are not done. If an estimate was too high, the counter
 * still never decreases. */
void tally_goodput(struct goodput *sum, struct tally *t, const struct goodput *live);

#endif
