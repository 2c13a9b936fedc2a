/* SPDX-License-Identifier: Apache-2.0 */
/* monitor.h - checks the ranks a few times a second and reports hangs and stragglers
 *
 * The shell around agent/monitor/hang_detector.h, agent/monitor/straggler.h,
 * agent/monitor/watch.h and agent/monitor/output_progress.h: a timer, the rank states from
 * agent/nodes/leader.h, and the learned durations.
 */
#ifndef AGENT_ATTEMPT_MONITOR_H
#define AGENT_ATTEMPT_MONITOR_H

#include <jansson.h>
#include <uv.h>

#include "agent/monitor/hang_detector.h"

struct err;
struct monitor;
struct leader;

/* A generation that must be stopped. */
struct monitor_trouble {
    int         generation, rank; /* -1: no particular rank */
    bool        init, value;      /* see hang_detector.h and watch.h */
    const char *text;
};

struct monitor_hooks {
    void (*trouble)(void *arg, const struct monitor_trouble *t);
    void (*warning)(void *arg, const char *text);
    void (*progress)(void *arg, int generation, const json_t *line); /* agent/monitor/output_progress.h */
    void (*slow)(void *arg, json_t *body); /* straggler_body() after a change; takes the body */
    void *arg;
};

/* Idle until monitor_begin(). The leader must outlive it. */
int monitor_create(struct monitor **out, uv_loop_t *loop, struct leader *leader, const json_t *plan, const json_t *spec,
                   const json_t *learned, const struct monitor_hooks *hooks, struct err *err);
/* Closes the timer; run the loop once more before monitor_destroy(). Both accept NULL. */
void monitor_close(struct monitor *v);
void monitor_destroy(struct monitor *v);

/* Starts to check a generation, until a hang or monitor_end(). */
void monitor_begin(struct monitor *v, int generation);
void monitor_end(struct monitor *v);

/* Reports progress found in output since the last check. */
void monitor_progress(struct monitor *v);
/* The job reports progress in protocol lines, so its output is not parsed for progress. */
void monitor_tells_itself(struct monitor *v);

/* Output of a rank, for the rules of `watch:` and for progress. */
void monitor_output(struct monitor *v, int rank, const char *bytes, size_t size);

/* The durations learned so far, for the next attempt (hang_detector_learned()); NULL: none. */
json_t *monitor_learned(const struct monitor *v);

#endif
