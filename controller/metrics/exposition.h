/* SPDX-License-Identifier: Apache-2.0 */
/* exposition.h - the page that Prometheus reads: jobs, their progress, the node and the daemon
 *
 * Built from memory, without the store. Only jobs that have started and are not done have separate series;
 * queued and finished ones are only counted, so the page does not grow with the history.  docs/MONITORING.md lists the
 * metrics.
 */
#ifndef CONTROLLER_METRICS_EXPOSITION_H
#define CONTROLLER_METRICS_EXPOSITION_H

#include <stdbool.h>

struct daemon;

/* The text, to be freed by the caller; NULL: out of memory. `prometheus`: the older format (openmetrics.h). */
char *exposition_make(struct daemon *d, bool prometheus);

#endif
