/* SPDX-License-Identifier: Apache-2.0 */
/* monitor.h - looks at the ranks a few times a second, and tells when one hangs
 *
 * The shell around agent/monitor/hang_detector.h, agent/monitor/straggler.h and
 * agent/monitor/watch.h: a timer, what agent/nodes/rank_set.h shows of each rank, and what was
 * learned.
 */
#ifndef AGENT_ATTEMPT_MONITOR_H
#define AGENT_ATTEMPT_MONITOR_H

#include <jansson.h>
#include <uv.h>

#include "agent/monitor/hang_detector.h"

struct err;
struct monitor;
struct rank_set;

/* A generation that must end. */
struct monitor_trouble {
    int         generation, rank; /* -1: no rank in particular */
    bool        init, value;      /* see hang_detector.h and watch.h */
    const char *text;
};

struct monitor_hooks {
    void (*trouble)(void *arg, const struct monitor_trouble *t);
    void (*warning)(void *arg, const char *text);
    void (*slow)(void *arg, json_t *body); /* straggler_body(), when it has changed; taken */
    void *arg;
};

/* Nothing is looked at before monitor_begin(). `world` must outlive it. */
int monitor_create(struct monitor **out, uv_loop_t *loop, struct rank_set *rank_set,
                   const json_t *plan,
                   const json_t *spec, const json_t *learned,
                   const struct monitor_hooks *hooks, struct err *err);
/* Closes the timer; run the loop once more before monitor_destroy(). NULL is fine for both. */
void monitor_close(struct monitor *v);
void monitor_destroy(struct monitor *v);

/* A generation runs; a hang ends the watch over it, and so does monitor_end(). */
void monitor_begin(struct monitor *v, int generation);
void monitor_end(struct monitor *v);

/* What a rank has printed, for the rules of `watch:`. */
void monitor_output(struct monitor *v, int rank, const char *bytes, size_t size);

/* What was learned so far, for the next attempt (hang_detector_learned()); NULL: nothing. */
json_t *monitor_learned(const struct monitor *v);

#endif
