/* SPDX-License-Identifier: Apache-2.0 */
/* job_fsm.c - see job_fsm.h; the table below is the specification */
#include "controller/job/job_fsm.h"

#include <stddef.h>
#include <string.h>

#include "engine/base/err.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* One row per arrow.  A transition without a row is refused; a row from a state to
 * itself with DO_NOTHING marks an expected event that needs no action. */
static const struct arrow {
    enum job_state     from;
    enum job_fsm_event on;
    enum job_state     to;
    enum job_effect    effect;
} arrows[] = {
    /* clang-format off */
    { JOB_PENDING,    EV_PLACE,  JOB_STARTING,   DO_START    },
    { JOB_PENDING,    EV_HOLD,   JOB_PENDING,    DO_SCHEDULE },
    { JOB_PENDING,    EV_END,    JOB_DONE,       DO_REPORT   },

    { JOB_STARTING,   EV_UP,     JOB_STARTING,   DO_LAUNCH   },
    { JOB_STARTING,   EV_RUN,    JOB_RUNNING,    DO_NOTHING  },
    { JOB_STARTING,   EV_FALTER, JOB_RECOVERING, DO_NOTHING  },
    { JOB_STARTING,   EV_RETRY,  JOB_RECOVERING, DO_SCHEDULE },
    { JOB_STARTING,   EV_STOP,   JOB_STOPPING,   DO_STOP     },
    { JOB_STARTING,   EV_END,    JOB_DONE,       DO_REPORT   },

    { JOB_RUNNING,    EV_UP,     JOB_RUNNING,    DO_LAUNCH   },
    { JOB_RUNNING,    EV_RUN,    JOB_RUNNING,    DO_NOTHING  },
    { JOB_RUNNING,    EV_FALTER, JOB_RECOVERING, DO_NOTHING  },
    { JOB_RUNNING,    EV_RETRY,  JOB_RECOVERING, DO_SCHEDULE },
    { JOB_RUNNING,    EV_STOP,   JOB_STOPPING,   DO_STOP     },
    { JOB_RUNNING,    EV_END,    JOB_DONE,       DO_REPORT   },

    { JOB_RECOVERING, EV_PLACE,  JOB_STARTING,   DO_START    },
    { JOB_RECOVERING, EV_UP,     JOB_RECOVERING, DO_LAUNCH   },
    { JOB_RECOVERING, EV_RUN,    JOB_RUNNING,    DO_NOTHING  },
    { JOB_RECOVERING, EV_FALTER, JOB_RECOVERING, DO_NOTHING  },
    { JOB_RECOVERING, EV_RETRY,  JOB_RECOVERING, DO_SCHEDULE },
    { JOB_RECOVERING, EV_STOP,   JOB_STOPPING,   DO_STOP     },
    { JOB_RECOVERING, EV_END,    JOB_DONE,       DO_REPORT   },

    { JOB_STOPPING,   EV_UP,     JOB_STOPPING,   DO_STOP     },
    { JOB_STOPPING,   EV_RUN,    JOB_STOPPING,   DO_NOTHING  },
    { JOB_STOPPING,   EV_FALTER, JOB_STOPPING,   DO_NOTHING  },
    { JOB_STOPPING,   EV_STOP,   JOB_STOPPING,   DO_STOP     },
    { JOB_STOPPING,   EV_END,    JOB_DONE,       DO_REPORT   },
    /* clang-format on */
};

static const struct {
    const char     *name;
    enum job_effect resume;
} states[] = {
    [JOB_PENDING]    = { "pending",    DO_SCHEDULE },
    [JOB_STARTING]   = { "starting",   DO_START    },
    [JOB_RUNNING]    = { "running",    DO_ATTACH   },
    [JOB_RECOVERING] = { "recovering", DO_ATTACH   },
    [JOB_STOPPING]   = { "stopping",   DO_ATTACH   },
    [JOB_DONE]       = { "done",       DO_NOTHING  },
};
_Static_assert(ARRAY_LEN(states) == JOB_STATES, "a state has no name");

static const char *const event_names[] = {
    [EV_PLACE]  = "place", [EV_UP]   = "agent up", [EV_RUN] = "ranks start",
    [EV_FALTER] = "ranks die", [EV_RETRY] = "retry", [EV_STOP] = "stop",
    [EV_END]    = "end",   [EV_HOLD] = "hold, release or edit",
};
_Static_assert(ARRAY_LEN(event_names) == JOB_FSM_EVENTS, "an event has no name");

static const char *const effect_names[] = {
    [DO_NOTHING] = "", [DO_SCHEDULE] = "schedule", [DO_START] = "find or start the agent",
    [DO_ATTACH] = "find the agent", [DO_LAUNCH] = "launch", [DO_STOP] = "stop the agent",
    [DO_REPORT] = "free its slots, report",
};
_Static_assert(ARRAY_LEN(effect_names) == JOB_EFFECTS, "an effect has no name");

int job_fsm_step(struct job_step *step, enum job_state from, enum job_fsm_event on, struct err *err)
{
    for (size_t i = 0; i < ARRAY_LEN(arrows); i++) {
        const struct arrow *a = &arrows[i];
        if (a->from == from && a->on == on) {
            *step = (struct job_step){ a->to, a->effect };
            return 0;
        }
    }
    return err_set(err, ERR_CONFLICT, "event '%s' is not valid in state %s",
                   job_fsm_event_name(on), job_state_name(from));
}

enum job_effect job_fsm_resume(enum job_state state)
{
    return states[state].resume;
}

const char *job_state_name(enum job_state state)
{
    return states[state].name;
}

const char *job_fsm_event_name(enum job_fsm_event event)
{
    return event_names[event];
}

const char *job_effect_name(enum job_effect effect)
{
    return effect_names[effect];
}

static const char *const result_names[] = {
    [RESULT_NONE] = "", [RESULT_SUCCEEDED] = "succeeded", [RESULT_FAILED] = "failed",
    [RESULT_CANCELLED] = "cancelled",
};
_Static_assert(ARRAY_LEN(result_names) == RESULTS, "a result has no name");

const char *job_result_name(enum job_result result)
{
    return result_names[result];
}

int job_result_parse(enum job_result *result, const char *name)
{
    for (size_t i = 0; i < RESULTS; i++) {
        if (strcmp(result_names[i], name) == 0) {
            *result = (enum job_result)i;
            return 0;
        }
    }
    return -1;
}
