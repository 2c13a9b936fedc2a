/* SPDX-License-Identifier: Apache-2.0 */
/* metrics.h - curves: (step, value) by name, thinned to a maximum number of points
 *
 * The caller stores a point every `stride` steps.  When a curve reaches METRICS_CAP points, the stride doubles and only
 * one point per stride is kept.  After a restart the points beyond the resumed step are deleted.
 */
#ifndef DB_METRICS_H
#define DB_METRICS_H

#include <stdint.h>

struct err;
struct store;

enum { METRICS_CAP = 2000 };

typedef int (*metrics_each_fn)(void *ctx, int64_t step, double value);

int metrics_put(struct store *s, int64_t job, const char *name, int64_t step, double value, struct err *err);
int metrics_count(int64_t *count, struct store *s, int64_t job, const char *name, struct err *err);
/* Keeps the first point of each `stride` steps. */
int metrics_thin(struct store *s, int64_t job, const char *name, int64_t stride, struct err *err);
/* Deletes the points beyond `step` in all curves of the job. */
int metrics_cut(struct store *s, int64_t job, int64_t step, struct err *err);
/* About `limit` points in step order, evenly spaced, including the last one. */
int metrics_each(struct store *s, int64_t job, const char *name, int64_t limit,
                 metrics_each_fn each, void *ctx, struct err *err);

#endif
