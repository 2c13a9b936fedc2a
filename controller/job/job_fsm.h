/* SPDX-License-Identifier: Apache-2.0 */
/* job_fsm.h - the life of a job: states, events, and the arrows between them
 *
 * Pure: no clock, no I/O.
 * A state says where a job is in its life; a result says how it ended.  The two
 * are separate: a state answers "what does the job wait for", a result "did it
 * succeed".  There is one first state and one last state.
 *
 * job_fsm_step() only looks up the arrow.  The caller stores the event and the
 * new state in one transaction, then performs the effect.  Effects are
 * idempotent: after a restart the caller repeats the effect that
 * job_fsm_resume() returns for the state.
 */
#ifndef CONTROLLER_JOB_JOB_FSM_H
#define CONTROLLER_JOB_JOB_FSM_H

#include <stddef.h>

struct err;

enum job_state {
    JOB_PENDING,        /* queued */
    JOB_STARTING,       /* placed; agent and ranks are starting */
    JOB_RUNNING,        /* ranks run */
    JOB_RECOVERING,     /* ranks died; new ones are about to start */
    JOB_STOPPING,       /* stop requested; processes may still exist on a node */
    JOB_DONE,           /* no process is left; final */
    JOB_STATES
};

enum job_result { RESULT_NONE, RESULT_SUCCEEDED, RESULT_FAILED, RESULT_CANCELLED, RESULTS };

enum job_fsm_event {
    EV_PLACE,           /* the scheduler placed the job */
    EV_UP,              /* the attempt's agent answered */
    EV_RUN,             /* a generation of ranks started */
    EV_FALTER,          /* a generation of ranks died; its agent starts the next */
    EV_RETRY,           /* the attempt is over; another one will follow */
    EV_STOP,            /* stop requested while an attempt lives */
    EV_END,             /* no attempt lives and none will follow */
    EV_HOLD,            /* the user holds, releases or edits the job */
    JOB_FSM_EVENTS
};

enum job_effect {
    DO_NOTHING,
    DO_SCHEDULE,        /* run the scheduler, now or when the back-off ends */
    DO_START,           /* find the attempt's agent, or start one */
    DO_ATTACH,          /* find the attempt's agent; if there is none, it is lost */
    DO_LAUNCH,          /* send LAUNCH to the agent */
    DO_STOP,            /* send STOP to the agent */
    DO_REPORT,          /* free its slots, answer requests that wait for it */
    JOB_EFFECTS
};

struct job_step {
    enum job_state  to;
    enum job_effect effect;
};

/* Sets *step and returns 0; -1 (ERR_CONFLICT) if the table has no arrow for the event. */
int job_fsm_step(struct job_step *step, enum job_state from, enum job_fsm_event on, struct err *err);

/* The effect to perform after a restart for a job in `state`. */
enum job_effect job_fsm_resume(enum job_state state);

const char *job_state_name(enum job_state state);
const char *job_fsm_event_name(enum job_fsm_event event);
const char *job_effect_name(enum job_effect effect);

const char *job_result_name(enum job_result result);    /* "" for none */
int job_result_parse(enum job_result *result, const char *name);

#endif
