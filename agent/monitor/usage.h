/* SPDX-License-Identifier: Apache-2.0 */
/* usage.h - reads the counters of all ranks of a node (agent/monitor/activity.h): output each second, others by windows
 *
 * One pass over /proc serves all ranks. Where a pass takes long, passes are less frequent, so that they take at most 2
 * % of the time.
 */
#ifndef AGENT_MONITOR_USAGE_H
#define AGENT_MONITOR_USAGE_H

#include <stdint.h>

struct activity_sample;
struct err;
struct ranks;
struct usage;

/* The ranks must outlive it. */
int usage_create(struct usage **out, const struct ranks *ranks, struct err *err);
void usage_destroy(struct usage *u); /* NULL accepted */

/* A generation starts: sets the window, and the address of the machine of rank 0 (NULL: this machine). */
void usage_begin(struct usage *u, int64_t window_ms, const char *first);

/* A rank's newest sample, read again if it is old; all zero if there is none. */
void usage_get(struct usage *u, int rank, struct activity_sample *out);

#endif
