/* SPDX-License-Identifier: Apache-2.0 */
/* histogram.h - a histogram with a few buckets, as in Prometheus
 *
 * Pure: no clock, no I/O.
 */
#ifndef CONTROLLER_METRICS_HISTOGRAM_H
#define CONTROLLER_METRICS_HISTOGRAM_H

#include <stdint.h>

enum { HISTOGRAM_BOUNDS = 13 };

struct histogram {
    const double *bounds;                       /* HISTOGRAM_BOUNDS upper bounds, ascending; static */
    int64_t       count[HISTOGRAM_BOUNDS + 1];  /* count of each bucket alone; the last is above all bounds */
    double        sum;
};

/* Seconds: of a training step, 5 ms to 1 min; of a wait, 1 s to 1 week. */
extern const double histogram_step_s[HISTOGRAM_BOUNDS];
extern const double histogram_wait_s[HISTOGRAM_BOUNDS];

/* Adds `times` equal values. Values that are negative or not finite are not counted. */
void histogram_add(struct histogram *h, double value, int64_t times);

/* The number of values up to bounds[i]; with i = HISTOGRAM_BOUNDS, of all values. */
int64_t histogram_below(const struct histogram *h, int i);

#endif
