/* SPDX-License-Identifier: Apache-2.0 */
/* openmetrics.h - writes metrics as text: OpenMetrics 1.0, or the older format of Prometheus (0.0.4)
 *
 * Pure: no clock, no I/O.
 * A family starts with its name, followed by its samples. The two formats differ in the names of counters, in `# UNIT`
 * and in the last line.
 */
#ifndef CONTROLLER_METRICS_OPENMETRICS_H
#define CONTROLLER_METRICS_OPENMETRICS_H

#include <stdbool.h>

#include "engine/base/buf.h"

struct histogram;

#define OPENMETRICS_TYPE "application/openmetrics-text; version=1.0.0; charset=utf-8"
#define PROMETHEUS_TYPE "text/plain; version=0.0.4; charset=utf-8"

enum openmetrics_kind { OPENMETRICS_GAUGE, OPENMETRICS_COUNTER, OPENMETRICS_HISTOGRAM, OPENMETRICS_INFO };

struct openmetrics {
    struct buf            out;
    bool                  prometheus;   /* the older format */
    const char           *family;       /* the family that was started */
    enum openmetrics_kind kind;
    bool                  failed;       /* out of memory */
};

struct openmetrics_label {
    const char *name, *value;
};

/* Up to four, the others {0}. Values may be any UTF-8. */
struct openmetrics_labels {
    struct openmetrics_label at[4];
};

/* `name` without "_total" and "_info"; it ends with its unit if it has one ("_seconds", "_bytes", "_ratio",
 * "_celsius", "_watts"). */
void openmetrics_family(struct openmetrics *m, const char *name, enum openmetrics_kind kind, const char *help);

/* A sample of that family, which is not a histogram. A value that is not finite is left out. */
void openmetrics_sample(struct openmetrics *m, struct openmetrics_labels labels, double value);
void openmetrics_histogram(struct openmetrics *m, struct openmetrics_labels labels, const struct histogram *h);

/* The text, to be freed by the caller; NULL: out of memory. */
char *openmetrics_end(struct openmetrics *m);

/* Does an Accept header ask for OpenMetrics rather than the older format? NULL: no. */
bool openmetrics_wanted(const char *accept);

#endif
