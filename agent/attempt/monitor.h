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
struct vigil;
struct world;

/* A generation that must end. */
struct vigil_trouble {
    int         generation, rank; /* -1: no rank in particular */
    bool        init, value;      /* see hang_detector.h and watch.h */
    const char *text;
};

struct vigil_hooks {
    void (*trouble)(void *arg, const struct vigil_trouble *t);
    void (*warning)(void *arg, const char *text);
    void (*slow)(void *arg, json_t *body); /* straggler_body(), when it has changed; taken */
    void *arg;
};

/* Nothing is looked at before vigil_begin().  `world` must outlive it. */
int vigil_create(struct vigil **out, uv_loop_t *loop, struct world *world, const json_t *plan,
                 const json_t *spec, const json_t *learned,
                 const struct vigil_hooks *hooks, struct err *err);
/* Closes the timer; run the loop once more before vigil_destroy().  NULL is fine for both. */
void vigil_close(struct vigil *v);
void vigil_destroy(struct vigil *v);

/* A generation runs; a hang ends the watch over it, and so does vigil_end(). */
void vigil_begin(struct vigil *v, int generation);
void vigil_end(struct vigil *v);

/* What a rank has printed, for the rules of `watch:`. */
void vigil_output(struct vigil *v, int rank, const char *bytes, size_t size);

/* What was learned so far, for the next attempt (hang_learned()); NULL: nothing. */
json_t *vigil_learned(const struct vigil *v);

#endif
