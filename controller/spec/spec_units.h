/* SPDX-License-Identifier: Apache-2.0 */
/* spec_units.h - parses durations, ranges of durations, and intervals in steps or time
 *
 *   duration  500 ms, 30s, 5m, 1h 30m, 2d, 24:00:00, 1-12:00:00 (days-hours:minutes:seconds)
 *   range     5s..5m
 *   every     500 steps, 1 step, or a duration
 *
 * A number without a unit is rejected, because seconds and minutes are easily
 * confused.  On failure the result is unchanged and *err says what was expected.
 */
#ifndef CONTROLLER_SPEC_SPEC_UNITS_H
#define CONTROLLER_SPEC_SPEC_UNITS_H

#include <stdint.h>

struct err;

struct spec_every {
    int64_t steps;   /* 0: by time */
    double  seconds;
};

int spec_duration_parse(double *seconds, const char *text, struct err *err);
int spec_range_parse(double *low, double *high, const char *text, struct err *err);
int spec_every_parse(struct spec_every *every, const char *text, struct err *err);

#endif
