/* SPDX-License-Identifier: Apache-2.0 */
/* job_rhythm.h - how often a job reports steps, and whether the newest report is too old
 *
 * Pure: no clock, no I/O.
 * Speed and remaining time are those of the newest step. They no longer hold once it is older than ten times the usual
 * time from one report to the next, and than 30 s. Perhaps only one step in a hundred is reported, so that is not the
 * time of a step.
 */
#ifndef CONTROLLER_JOB_JOB_RHYTHM_H
#define CONTROLLER_JOB_JOB_RHYTHM_H

#include <stdint.h>

/* Zeroed: no ranks. */
struct job_rhythm {
    int64_t since_ms; /* of the newest step; before the first one, of the ranks' start; 0: not known */
    int32_t step;     /* its low bits; -1: none yet */
    float   usual_ms; /* mean time between reports; the first includes the program's start */
};

/* Ranks start. */
void job_rhythm_begin(struct job_rhythm *r, int64_t at_ms);

/* Records the newest step; the same as before does not count. */
void job_rhythm_step(struct job_rhythm *r, int64_t step, int64_t at_ms);

/* The time of the newest step if it is too old; 0: it is not, or there is none. */
int64_t job_rhythm_still_since(const struct job_rhythm *r, int64_t now_ms);

#endif
