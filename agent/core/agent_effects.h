/* SPDX-License-Identifier: Apache-2.0 */
/* agent_effects.h - the effects that a step of the agent's core asks for, in order
 *
 * Pure: no clock, no I/O.
 * A list of fixed size.  The shell (agent/attempt/attempt.c) performs them.
 */
#ifndef AGENT_CORE_AGENT_EFFECTS_H
#define AGENT_CORE_AGENT_EFFECTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum agent_effect_kind {
    DO_EVENT, /* spool it: event, body */
    DO_SETUP,
    DO_SPAWN,    /* start the ranks of `generation` */
    DO_CONTROL,  /* send the line `command` to every rank */
    DO_SIGNAL,   /* signal `signo` to the process groups of all live ranks */
    DO_INCIDENT, /* capture the state of all ranks before any of them is stopped */
    DO_CLEANUP,  /* kill every process of `generation`, or of the attempt if 0 */
    DO_TIMER,    /* set the one timer to at_ms, replacing the old value; 0 = none */
    DO_FINISH    /* the attempt is over: wait for the controller's acknowledgement, then exit */
};

struct agent_effect {
    enum agent_effect_kind kind;
    const char *event;       /* static */
    json_t     *body;        /* owned by the list; NULL when memory ran out */
    bool droppable;          /* a step event: may be dropped when the spool is full */
    int         generation;
    int64_t     resume_step; /* DO_SPAWN: step of the newest known checkpoint, or -1 */
    int64_t skip_step;       /* DO_SPAWN: skip this step, -1 = none */
    int fallbacks;           /* DO_SPAWN: set this many of the plan's fallbacks */
    bool keep;               /* DO_SPAWN: live ranks keep their processes */
    bool pull;               /* DO_SETUP: pull the image instead of running the setup */
    bool fetch;              /* DO_SETUP: download hub models instead of running the setup */
    bool forget;             /* DO_SPAWN: do not resume from the snapshot in memory */
    const char *text;        /* DO_INCIDENT: what happened; valid until the next step */
    int rank;                /* DO_INCIDENT: the rank concerned, -1 = all */
    bool inspect;            /* DO_INCIDENT: ranks hang: inspect them with a debugger */
    const char *command;     /* "stop", "checkpoint" */
    int         signo;
    int64_t     at_ms;
};

enum { AGENT_EFFECTS = 24 };

struct agent_effects {
    struct agent_effect list[AGENT_EFFECTS];
    int                 n;
};

/* Appends a zeroed effect; the caller fills in the fields of its kind. */
struct agent_effect *agent_effects_add(struct agent_effects *out, enum agent_effect_kind kind);

/* Appends a DO_EVENT; takes ownership of the body. */
void agent_effects_event(struct agent_effects *out, const char *event, json_t *body);
void agent_effects_step(struct agent_effects *out, json_t *body); /* droppable */

/* Frees the bodies and empties the list. */
void agent_effects_fini(struct agent_effects *effects);

#endif
