/* SPDX-License-Identifier: Apache-2.0 */
/* agent_effects.h - what a step of the agent's core wants done, in its order
 *
 * Pure: no clock, no I/O.
 * A list with a fixed room.  The shell (agent/attempt/attempt.c) performs it.
 */
#ifndef AGENT_CORE_AGENT_EFFECTS_H
#define AGENT_CORE_AGENT_EFFECTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum agent_effect_kind {
    DO_EVENT,    /* spool it: event, body */
    DO_SETUP,
    DO_SPAWN,    /* generation */
    DO_CONTROL,  /* a line to every rank: command */
    DO_SIGNAL,   /* to the process groups of all that live: signo */
    DO_INCIDENT,   /* look at all ranks as they are, before anything is done to them */
    DO_CLEANUP,  /* kill all that is ours: of `generation`, or 0 = of the attempt */
    DO_TIMER,    /* one timer; at_ms replaces what was set, 0 = none */
    DO_FINISH    /* the attempt is over: linger until the controller knows, then exit */
};

struct agent_effect {
    enum agent_effect_kind kind;
    const char *event;       /* static */
    json_t     *body;        /* owned by the list; NULL when memory ran out */
    bool        droppable;   /* a step: may be thinned out when the spool is full */
    int         generation;
    int64_t     resume_step; /* DO_SPAWN: of the newest checkpoint known, or -1 */
    int64_t     skip_step;   /* DO_SPAWN: this step is left out, -1 = none */
    int         fallbacks;   /* DO_SPAWN: so many of the plan's are set */
    bool        keep;        /* DO_SPAWN: who lives goes on in its process */
    bool        forget;      /* DO_SPAWN: what is in memory is not to be resumed from */
    const char *text;        /* DO_INCIDENT: what happened; until the next step */
    int         rank;        /* DO_INCIDENT: of whom, -1 = all */
    bool        inspect;     /* DO_INCIDENT: they live and hang: look into them too */
    const char *command;     /* "stop", "checkpoint" */
    int         signo;
    int64_t     at_ms;
};

enum { AGENT_EFFECTS = 24 };

struct agent_effects {
    struct agent_effect list[AGENT_EFFECTS];
    int                 n;
};

/* Begins with zeros; the caller fills in what the kind asks for. */
struct agent_effect *agent_effects_add(struct agent_effects *out, enum agent_effect_kind kind);

/* DO_EVENT; takes the body. */
void agent_effects_event(struct agent_effects *out, const char *event, json_t *body);
void agent_effects_step(struct agent_effects *out, json_t *body); /* the one that may be dropped */

/* Lets go of the bodies; the list is empty then. */
void agent_effects_fini(struct agent_effects *effects);

#endif
