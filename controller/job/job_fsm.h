/* SPDX-License-Identifier: Apache-2.0 */
/* job_fsm.h - the life of a job: states, events, and the arrows between them
 *
 * Pure: no clock, no I/O.
 * A state says where a job is in its life; a result says how it ended.  They
 * are kept apart so that "what is it waiting for" and "did it work" are two
 * short questions.  There is one first state and one last state.
 *
 * job_fsm_step() only looks the arrow up.  The caller stores what happened and
 * the new state in one transaction and then performs the effect.  Effects may
 * be performed twice: after a restart job_fsm_resume() says what a job in this
 * state still needs, and it is done again.
 */
#ifndef CONTROLLER_JOB_JOB_FSM_H
#define CONTROLLER_JOB_JOB_FSM_H

#include <stddef.h>

struct err;

enum job_state {
    JOB_PENDING,        /* waiting for its turn */
    JOB_STARTING,       /* placed; its agent and ranks are on their way */
    JOB_RUNNING,        /* ranks live */
    JOB_RECOVERING,     /* its ranks died; the next ones are on their way */
    JOB_STOPPING,       /* asked to end; something of it may still be on a node */
    JOB_DONE,           /* nothing of it is left anywhere; never changes */
    JOB_STATES
};

enum job_fsm_event {
    EV_PLACE,           /* the scheduler gave it a node */
    EV_UP,              /* the attempt's agent answered */
    EV_RUN,             /* a generation of ranks started */
    EV_FALTER,          /* a generation of ranks died; its agent starts the next */
    EV_RETRY,           /* the attempt is over; there will be another one */
    EV_STOP,            /* somebody asked for its end while an attempt lives */
    EV_END,             /* no attempt lives and there will be no other one */
    EV_HOLD,            /* a person holds or releases it */
    JOB_FSM_EVENTS
};

enum job_effect {
    DO_NOTHING,
    DO_SCHEDULE,        /* look again who can be placed, now or when its back-off is over */
    DO_START,           /* find the attempt's agent, or start one */
    DO_ATTACH,          /* find the attempt's agent; gone means lost */
    DO_LAUNCH,          /* tell the agent what to run */
    DO_STOP,            /* tell the agent to stop */
    DO_REPORT,          /* free its slots, tell whoever waits for it */
    JOB_EFFECTS
};

struct job_step {
    enum job_state  to;
    enum job_effect effect;
};

/* 0 and *step; or -1 (ERR_CONFLICT) when the event has no meaning in that state. */
int job_fsm_step(struct job_step *step, enum job_state from, enum job_fsm_event on,
                 struct err *err);

/* What to do for a job that is found in `state` after a restart. */
enum job_effect job_fsm_resume(enum job_state state);

const char *job_state_name(enum job_state state);
const char *job_fsm_event_name(enum job_fsm_event event);
const char *job_effect_name(enum job_effect effect);
int job_state_parse(enum job_state *state, const char *name);   /* -1: no such state */

/* The arrows as Markdown: a Mermaid diagram and a table. Returns the length
 * that the whole text has, as snprintf does. */
size_t job_fsm_draw(char *out, size_t size);

#endif
