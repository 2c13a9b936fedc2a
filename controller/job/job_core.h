/* SPDX-License-Identifier: Apache-2.0 */
/* job_core.h - what the controller decides about one job
 *
 * Pure: no clock, no I/O.
 * (job, input) -> (job', events, effect).  The caller stores the events and
 * the row of job' in one transaction, then performs the effect.  A restart
 * feeds the stored events to job_core_replay(), which yields the same job.
 *
 * Events without `keep` (a step) change only numbers in the job's row; the
 * caller stores the row and the curve, not the event.
 *
 * The controller's events and their bodies follow; those of the agent are in
 * agent/wire/wire.h and are stored as received.
 *   submitted       {name, priority, held, retry_of, set, base, retry: {max, no_progress, same_line,
 *                   same_line_ms, early_ms, backoff_ms: []}, sweep, index, point}   set: overrides; base: directory of its
 *                   paths, if not workdir; the last three: of a member (controller/job/sweep.h)
 *   held, released  {}
 *   edited          {priority, retry: {}, keys: [], set: []}    while pending: its spec changes from here on;
 *                   retry as of submitted, keys: the paths that changed
 *   placed          {nonce, node, cpus, gpus, nodes, left_out, least}      a new attempt
 *                   nodes: names, if several; left_out: [{name, why}], if any were excluded;
 *                   least: minimum nodes that Slurm may allocate (controller/nodes/placement.h)
 *   agent_up        {node, boot_id, pid, start_time, incarnation, version}
 *   agent_lost      {text, step, cause}             proven dead, with all processes that it started; cause: disk_full,
 *                   or a cause that no retry helps; absent: none of those
 *   start_failed    {text, step, cause, node}       the same for an attempt whose agent never connected; cause: a word
 *                   of agent/core/cause.h
 *   stop_requested  {reason, limit, now}            limit: by max_duration, not by a user
 *   retry           {text, delay_ms, not_before_ms}
 *   clock           {text, jump_ms, suspended_ms, clock}   this machine's wall clock was set, or it was suspended
 *                   (engine/base/clock_jump.h): from here on the job's times are in the new time
 *   rebuilt         {text, state, run, placed, lost, lease_ms, checkpoint, loss, samples_per_s}    the job was taken
 *                   over from its job.json, whose values these are (controller/job/job_file.h)
 *   done            {result, reason, exit_code}                   always the last
 *
 * `submitted`, `placed` and `clock` also have clock: [boot, ahead_ms, asleep_ms], the clocks of the job's times: a
 * later program of the same boot sees in them whether the wall clock was set in between.
 */
#ifndef CONTROLLER_JOB_JOB_CORE_H
#define CONTROLLER_JOB_JOB_CORE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "controller/job/event_kind.h"
#include "controller/job/job_fsm.h"
#include "controller/job/job_goodput.h"
#include "controller/job/retry.h"
#include "engine/base/clock_jump.h"

struct err;

enum { CORE_NONCE = 33, CORE_NODE = 64, CORE_FINGERPRINT = 128, CORE_REASON = 400 };

/* A plain value, copied by assignment.  Steps are -1 while unknown. */
struct job_core {
    int64_t            id;
    enum job_state     state;
    enum job_result    result;
    int                exit_code;       /* of the job, once done */
    bool               held;
    bool               live;            /* an attempt was placed and has not ended */
    bool               agent_known;     /* agent_up is stored for this attempt */
    bool               stop_limit;      /* the stop was requested by max_duration */
    bool               stop_now;
    bool               full;            /* the last failure: a disk was full */
    bool               rebuilt;         /* since then nothing came from the agent: the next event may leave a gap */
    int64_t            priority;
    int64_t            attempt, generation, np;
    int64_t            cpus, gpus;      /* held by the live attempt */
    int64_t            not_before_ms;   /* end of the back-off; wall time */
    int64_t            backoff_ms;      /* its length */
    int64_t            step, steps, best, checkpoint;
    int64_t            stored_step;     /* the newest step of a stored event */
    int64_t            attempt_best;    /* `best` when the attempt began */
    int64_t            failures, same;  /* without progress; in a row with this fingerprint */
    int64_t            submitted_ms, started_ms, ended_ms;
    int64_t            jumped_ms;       /* how much the wall clock was set since the submit */
    struct clock_jump  clock;           /* the clocks of those times ... */
    int64_t            boot;            /* ... in this boot; 0: not known */
    struct job_goodput goodput;         /* how its time was spent */
    int64_t            gen_from;        /* the step at which the generation began ... */
    int64_t            gen_best;        /* ... and `best` then */
    struct retry_rules rules;
    char            nonce[CORE_NONCE];
    char            node[CORE_NODE];
    char            fingerprint[CORE_FINGERPRINT];
    char            reason[CORE_REASON];
};

enum core_input_kind {
    CORE_SUBMIT,        /* body as of `submitted` */
    CORE_PLACE,         /* body as of `placed` */
    CORE_AGENT_UP,      /* body as of `agent_up` */
    CORE_AGENT_EVENT,   /* event, body, at_ms */
    CORE_AGENT_LOST,    /* text; event: NULL, or its cause (agent/core/cause.h) */
    CORE_STOP,          /* body as of `stop_requested` */
    CORE_HOLD,
    CORE_RELEASE,
    CORE_REFUSE,        /* the job can never start: text */
    CORE_CLOCK,         /* body as of `clock` */
    CORE_EDIT,          /* body as of `edited` */
    CORE_SETTLE,        /* all members of a sweep are done: body as of `done` */
    CORE_INPUTS
};

struct core_input {
    enum core_input_kind kind;
    int64_t              at_ms;     /* wall time; of an agent's event, the agent's */
    uint64_t             random;    /* for jitter */
    int64_t              attempt;   /* of the agent, for agent inputs */
    const char          *nonce;     /* presented by the agent: the fence */
    const char          *event;
    const char          *text;
    int64_t              places;    /* of an agent that was lost (retry.h) */
    const json_t        *body;      /* borrowed */
};

struct core_event {
    enum event_kind kind;
    const char     *name;           /* of the kind, even if this program does not know it */
    bool            from_agent;
    bool            keep;
    int64_t         at_ms;
    int64_t         attempt;
    json_t         *body;           /* owned by the output */
};

enum { CORE_EVENTS = 3 };

struct core_output {
    struct core_event events[CORE_EVENTS];
    int               count;
    enum job_effect   effect;
};

void job_core_init(struct job_core *core, int64_t id);

/* Returns -1 (ERR_CONFLICT) if the input does not apply to the job's state; *core and
 * *out are then unchanged. The caller calls core_output_fini(). */
int job_core_step(struct job_core *core, const struct core_input *in, struct core_output *out, struct err *err);
void core_output_fini(struct core_output *out);

/* Applies one stored event. */
int job_core_replay(struct job_core *core, const struct core_event *event, struct err *err);

/* 0 while it has not started; else -1, ERR_CONFLICT. */
int job_core_can_edit(const struct job_core *core, struct err *err);

/* True if the scheduler may place the job. */
bool job_core_waits(const struct job_core *core);

/* Whether it waits for a full disk: since when, if its ranks live; 1 if not, until it is retried; 0: it does not. */
int64_t job_core_disk_wait(const struct job_core *core);

/* The remaining back-off for a program that has just read the job from the store. A wall clock
 * that was set meanwhile may shorten it or start it again, and cannot make it longer. While the program lives, it is
 * counted on a monotonic clock (struct job). */
int64_t job_core_backoff_left(const struct job_core *core, int64_t wall_ms);

/* A boot as a number, from its id; and `clock` of an event. */
int64_t job_core_boot(const char *boot_id);
json_t *job_core_clock(int64_t boot, const struct clock_jump *clock);

/* How the job's time was spent so far. Live ranks count as productive beyond `best`. */
void job_core_spent(struct goodput *out, const struct job_core *core, int64_t now_ms);
/* The same for live ranks without a step since that time, which may be their last: from then on they count as hung. */
void job_core_spent_still(struct goodput *out, const struct job_core *core, int64_t now_ms, int64_t since_ms);

#endif
