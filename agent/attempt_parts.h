/* SPDX-License-Identifier: Apache-2.0 */
/* attempt_parts.h - the inside of an attempt, shared by attempt*.c only */
#ifndef AGENT_ATTEMPT_PARTS_H
#define AGENT_ATTEMPT_PARTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "agent/agent_core.h"
#include "agent/attempt.h"
#include "agent/deadline.h"
#include "agent/identity.h"
#include "agent/payload.h"

struct attempt {
    struct attempt_options o;
    struct identity identity;
    uv_loop_t loop;
    uv_timer_t timer; /* the core's */
    uv_timer_t beat;  /* heartbeats, and patience with the controller */
    uv_timer_t broom; /* between two looks of a sweep */
    uv_timer_t dusk;  /* the machine will be taken away: time to save */
    uv_signal_t sigterm, sigint;
    struct agent_core *core;
    struct ranks *ranks;
    struct vigil *vigil; /* from LAUNCH on */
    struct inspector *inspector;
    struct session *session;
    struct mail *mail; /* NULL: controllers connect to the socket */
    bool noticed;      /* RUN_DIR_NOTICE was seen */
    struct spool *spool;
    json_t *facts;

    /* from LAUNCH */
    json_t *launch, *plan;
    int64_t deadline_s; /* deadline.h */
    char tag[48]; /* "7.1", for the log */
    struct payload payload;
    int64_t *pids;
    int np;
    int64_t restarts;
    struct mirror_child *mirror; /* NULL: the job has none */

    int sweep_generation;
    int64_t sweep_since_ms;
    int64_t started_ms, finished_ms; /* finished: 0 = not yet */
    int64_t beats;
    bool leaving;
    int remedies;    /* of the plan that are in use */
    json_t *learned; /* as it was stored last, or NULL */
};

/* One step of the core; performing an effect may lead to the next step. */
void attempt_feed(struct attempt *a, struct agent_input *in);

/* Stores one event; true if it must be on disk before anything else happens. Takes the body. */
bool attempt_store(struct attempt *a, const char *kind, json_t *body, bool droppable);
void attempt_sync(struct attempt *a);

/* [0, 1), for the jitter of the back-off. */
double attempt_dice(void);

/* End all that is ours of sweep_generation, and answer the core when nothing is left. */
void attempt_sweep(struct attempt *a);

/* attempt_launch.c: the controller's LAUNCH. */
void attempt_on_launch(struct attempt *a, const json_t *body);

#endif
