/* SPDX-License-Identifier: Apache-2.0 */
/* metrics.h - curves: (step, value) by name, thinned so that a curve never exceeds its cap
 *
 * A curve keeps the steps that are multiples of its stride.  When it reaches
 * METRICS_CAP points the caller's next stride is twice as large and the points
 * between are removed.  A step that is trained again after a restart replaces
 * its point.
 */
#ifndef DB_METRICS_H
#define DB_METRICS_H

#include <stdint.h>

struct err;
struct store;

enum { METRICS_CAP = 2000 };

typedef int (*metrics_each_fn)(void *ctx, int64_t step, double value);

int metrics_put(struct store *s, int64_t job, const char *name, int64_t step, double value,
                struct err *err);
int metrics_count(int64_t *count, struct store *s, int64_t job, const char *name,
                  struct err *err);
/* Remove the points whose step is not a multiple of `stride`. */
int metrics_thin(struct store *s, int64_t job, const char *name, int64_t stride,
                 struct err *err);
/* About `limit` points in order of their steps, evenly chosen, the last one included. */
int metrics_each(struct store *s, int64_t job, const char *name, int64_t limit,
                 metrics_each_fn each, void *ctx, struct err *err);

#endif
