/* SPDX-License-Identifier: Apache-2.0 */
/* histogram.h - how many values fell into each of a few buckets, as Prometheus counts them
 *
 * Pure: no clock, no I/O.
 */
#ifndef CONTROLLER_METRICS_HISTOGRAM_H
#define CONTROLLER_METRICS_HISTOGRAM_H

#include <stdint.h>

enum { HISTOGRAM_BOUNDS = 13 };

struct histogram {
    const double *bounds;                       /* HISTOGRAM_BOUNDS upper bounds, ascending; static */
    int64_t       count[HISTOGRAM_BOUNDS + 1];  /* of each bucket by itself; the last is above all bounds */
    double        sum;
};

/* Seconds: of a training step, 5 ms to 1 min; of a wait, 1 s to 1 week. */
extern const double histogram_step_s[HISTOGRAM_BOUNDS];
extern const double histogram_wait_s[HISTOGRAM_BOUNDS];

/* `times` values that are equal. A value that is not finite or is negative is not counted. */
void histogram_add(struct histogram *h, double value, int64_t times);

/* Values up to bounds[i]; with i = HISTOGRAM_BOUNDS all of them. */
int64_t histogram_below(const struct histogram *h, int i);

#endif
