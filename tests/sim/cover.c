/* SPDX-License-Identifier: Apache-2.0 */
/* cover.c - see world.h: which rows of the tables have been exercised
 *
 * The linker sends every call of job_fsm_step() through here (--wrap), so that
 * an arrow counts when the real core has taken it.
 */
#include <stdio.h>

#include "agent/core/cause.h"
#include "tests/sim/world.h"

_Static_assert(CAUSES <= 32, "a cause has no counter");

static struct cover *counting;
static bool enough;             /* worlds that all of it must have been seen */

int __real_job_fsm_step(struct job_step *step, enum job_state from, enum job_fsm_event on, struct err *err);
int __wrap_job_fsm_step(struct job_step *step, enum job_state from, enum job_fsm_event on, struct err *err);

int __wrap_job_fsm_step(struct job_step *step, enum job_state from, enum job_fsm_event on, struct err *err)
{
    int rc = __real_job_fsm_step(step, from, on, err);
    if (rc == 0 && counting)
        counting->arrows[from][on]++;
    return rc;
}

void cover_arrows(struct cover *c)
{
    counting = c;
}

static const char *const harm_names[HARMS] = {
    [HARM_LOST] = "a message is lost",
    [HARM_TWICE] = "a message comes twice",
    [HARM_LATE] = "messages are late",
    [HARM_GHOST] = "a message out of another age",
    [HARM_STRANGER] = "a message of another controller",
    [HARM_CUT] = "a connection breaks",
    [HARM_HUB_CRASH] = "the controller dies",
    [HARM_STORE_FULL] = "the store's disk is full",
    [HARM_CLOCK] = "the clock jumps",
    [HARM_AGENT_CRASH] = "an agent dies",
    [HARM_AGENT_MISSING] = "an agent does not start",
    [HARM_AGENT_SLOW] = "an agent starts late",
    [HARM_PREEMPTED] = "the machine wants its node back",
    [HARM_SETUP] = "the setup fails",
    [HARM_SPAWN] = "ranks cannot be started",
    [HARM_SWEEP] = "a process would not die",
    [HARM_RANK] = "a rank fails",
    [HARM_HANG] = "a rank stands still",
    [HARM_RANK_DEAF] = "ranks do not hear SIGTERM",
    [HARM_DISK] = "a checkpoint finds the disk full",
    [HARM_SPOOL] = "an event finds the disk full",
    [HARM_GPU] = "a GPU fails",
    [HARM_NODE] = "a node of several is lost",
    [HARM_PARTED] = "ranks lose each other",
    [HARM_SLEEP] = "the machine is suspended",
    [HARM_HUB_STOP] = "the controller gets SIGTERM",
    [HARM_HUB_STALL] = "the controller gets no processor",
    [HARM_STORE_FAILS] = "the store's disk fails",
    [HARM_STORE_TORN] = "the controller dies in the middle of a write",
    [HARM_REFUSED] = "a node has too few GPUs",
    [HARM_POWER] = "the machine loses its power",
};

const char *harm_name(enum harm kind)
{
    return harm_names[kind];
}

void cover_add(struct cover *sum, const struct cover *c)
{
    /* Longs all through: added as what they are. */
    const long *from = (const long *)(const void *)c;
    long *to = (long *)(void *)sum;
    for (size_t i = 0; i < sizeof(*c) / sizeof(long); i++)
        to[i] += from[i];
}

static int missing(bool seen, const char *what, const char *name, const char *more)
{
    if (!seen && enough)
        printf("  never seen: %s %s%s%s\n", what, name, more[0] ? ": " : "", more);
    return !seen;
}

/* The arrows that there are; NULL: only count them. */
static int arrows(const struct cover *c, int *all)
{
    int none = 0;
    struct job_step step;
    *all = 0;
    for (int s = 0; s < JOB_STATES; s++) {
        for (int e = 0; e < JOB_FSM_EVENTS; e++) {
            if (__real_job_fsm_step(&step, (enum job_state)s, (enum job_fsm_event)e, NULL) < 0)
                continue;
            ++*all;
            none += missing(c->arrows[s][e] > 0, "arrow", job_state_name((enum job_state)s),
                            job_fsm_event_name((enum job_fsm_event)e));
        }
    }
    return none;
}

int cover_print(const struct cover *c, long seeds)
{
    int all, none[3] = { 0 };
    long harms = 0;
    enough = seeds >= COVERS_ALL;
    none[0] = arrows(c, &all);
    for (int i = CAUSE_NONE + 1; i < CAUSES; i++)
        none[1] += missing(c->causes[i] > 0, "cause", cause_name((enum cause)i), "");
    for (int i = 0; i < HARMS; i++) {
        harms += c->harms[i];
        none[2] += missing(c->harms[i] > 0, "fault", harm_names[i], "");
    }
    printf("covered: %d of %d arrows, %d of %d causes, %d of %d kinds of fault; %.0f inputs, "
           "%.0f events and %.1f faults a run; %ld jobs succeeded, %ld failed, %ld cancelled; "
           "%ld ranks went on in their processes\n",
           all - none[0], all, CAUSES - 1 - none[1], CAUSES - 1, HARMS - none[2], HARMS,
           (double)c->inputs / (double)seeds, (double)c->events / (double)seeds,
           (double)harms / (double)seeds, c->results[RESULT_SUCCEEDED],
           c->results[RESULT_FAILED], c->results[RESULT_CANCELLED], c->kept);
    none[2] += missing(c->kept > 0, "effect", "a rank goes on in its process", "");
    return none[0] + none[1] + none[2];
}
