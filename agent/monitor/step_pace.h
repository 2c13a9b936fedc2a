/* SPDX-License-Identifier: Apache-2.0 */
/* step_pace.h - how regularly a job reports steps
 *
 * Pure: no clock, no I/O.
 * A report is a step that was printed, or written into a flight page. The mean time between reports is that of about
 * the last ten, so a long evaluation raises it for a while. Twenty reports or fewer are no rhythm.
 */
#ifndef AGENT_MONITOR_STEP_PACE_H
#define AGENT_MONITOR_STEP_PACE_H

#include <stdbool.h>
#include <stdint.h>

/* Zeroed: a generation begins. */
struct step_pace {
    int     reports;
    int64_t since_ms; /* passed since the last report */
    double  mean_ms;
};

/* Advances time; reported: there was a report in it. */
void step_pace_pass(struct step_pace *p, int64_t passed_ms, bool reported);

/* 0: no rhythm yet. */
int64_t step_pace_usual_ms(const struct step_pace *p);

#endif
