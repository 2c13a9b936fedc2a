/* SPDX-License-Identifier: Apache-2.0 */
/* job.h - one job in memory: its core (job_core.h) and the state around it
 *
 * A job is created from its canonical spec, changes through job_apply() only, and leaves memory
 * when it is done.
 */
#ifndef CONTROLLER_JOB_JOB_H
#define CONTROLLER_JOB_JOB_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "controller/job/job_core.h"
#include "controller/job/job_rhythm.h"
#include "controller/job/sched.h"
#include "controller/spec/spec_after.h"
#include "db/attempts.h"
#include "db/jobs.h"

struct daemon;
struct err;
struct remote_link;
struct sweep;
struct followers;
struct remote;

/* From the latest heartbeat or step; NaN or -1: unknown. Not stored as a row. */
struct job_live_stats {
    double  loss, lr, samples_per_s, step_ms;
    double  tokens_per_s, epoch, eta_s;         /* as a `run:` job printed them */
    float   epochs;
    char    phase[12];
    struct job_rhythm rhythm;                   /* of its steps */
};

/* Current messages of an attempt or its placement; "" = nothing. */
struct job_texts {
    char unplaced[240];         /* the nodes or the directory it waits for */
    char waits[240];            /* what its launcher waits for */
    char lease[400];            /* the holders of the GPUs or slots of a shared machine that it waits for */
    char absent[240];           /* what keeps a node from joining ... */
    int  absent_node;           /* ... and which */
    char slow[280];             /* the straggler */
    char nccl[600];             /* where NCCL differs from the plan */
    char frees[400];            /* removals that would free the disk it waits for (controller/lifecycle/reclaim.h) */
    char by_hand[300];          /* and directories that only the user may delete */
    char channel_text[400];     /* the channel in use, where there are several */
};

struct job_after {
    int64_t id;
    enum spec_after kind;   /* what it must have done */
    bool    settled;        /* the dependency is done, and ... */
    bool    succeeded;
};

struct job_member {
    int64_t sweep;
    int     index;
    char   *point;          /* its values, a JSON map; NULL: none */
    int     wave, size;     /* the sweep has started it as one of `size` of its wave (sweep.h); 0: not known */
    int64_t placed_ms;      /* its newest attempt, until its agent has answered; 0: none */
};

/* What the spec says; only an edit changes it (job_exchange_spec()). */
struct job_spec {
    char              name[JOBS_NAME];
    bool              trains;           /* `train:`, not `run:` */
    bool              signal_saves;     /* `run:` with checkpoint_signal */
    bool              has_secrets;
    uint32_t          nafter;
    struct job_after *after;
    int64_t           max_duration_ms;  /* 0: none */
    int64_t           grace_ms;         /* from a stop to SIGKILL */
    char             *dir;              /* the checkpoint.dir that it names; NULL: the job's own */
    char             *origin;           /* engine/checkpoint/lineage.h */
};

/* What an attempt needs, by the spec; for a sweep, what its next member needs (job_aim()). */
struct job_need {
    const struct remote *remote;        /* where attempts run */
    json_t              *hosts;         /* of launch: ssh */
    int                  nodes, min_nodes;      /* of an attempt; the least after a node was lost */
    int64_t              node_cpus, node_gpus;  /* per node; -1: all of it */
    int64_t              want_cpus, want_gpus;  /* of this machine, all nodes together; -1: all of it */
};

/* Counters of its rows in the store (job_store.h). */
struct job_stored {
    int64_t last_seq;                   /* the newest event */
    int64_t curve_stride, curve_points;
};

/* Changed by job_note() and job_apply(). */
struct job_times {
    int64_t           ready_ms;         /* end of its back-off, on clock_ms() */
    int64_t           limit_ms;         /* end of max_duration, on clock_boot_ms(); 0: not yet */
    int64_t           lease_ms;         /* the part of the time since its start spent waiting for a shared machine */
    struct clock_jump clock;            /* the clocks of its times */
};

/* The nodes of its attempts; changed by job_note(). */
struct job_nodes {
    json_t *placed;                     /* how the newest attempt was placed: job_core.h; with `planned`, the GPUs
                                         * of its plan: {gpus: for people, uuids: []} */
    json_t *names;                      /* NULL: one, or not known yet */
    json_t *lost;                       /* [{name, text, at_ms}] nodes that attempts lost */
};

/* The agents of its newest attempt; changed in controller/attempt and by job_note(). */
struct job_agents {
    struct remote_link *link;           /* while the attempt lives */
    struct followers   *followers;      /* the agents beside the one at `link` (followers.h) */
    int64_t             gpus_asked_ms;  /* until when its agent was asked for the load of GPUs (gpu_request.h) */
    int64_t             gap_seq;        /* the event before which others were missing; 0: none */
    bool                gathered;       /* all nodes of the newest attempt joined */
    bool                channel_degraded;       /* a fallback channel is in use */
};

/* What fleet.c knows about it. */
struct job_filed {
    int64_t          attempt;           /* its newest attempt when fleet_note() last saw it ... */
    bool             live;              /* ... and whether that lived */
    struct sched_job verdict;           /* where it is filed (fleet_note()) and why it waits (fleet_explain()) */
};

struct job {
    struct daemon        *daemon;
    struct job_core       core;
    struct job_spec       spec;
    struct job_need       need;
    struct job_stored     stored;
    struct job_times      times;
    struct job_live_stats live_stats;
    struct job_nodes      nodes;
    struct job_agents     agents;
    struct job_filed      filed;
    struct job_texts     *texts;            /* never NULL; to write one, job_texts() */
    struct attempt_row   *attempt;          /* the newest one, NULL before the first */
    json_t               *secrets;          /* values, from secrets.env (job_env.h), once it has an attempt, or NULL */
    char                 *checkpoint_path;
    int64_t               retry_of;
    bool                  strange;          /* its directory is that of another job (job_file.h, takeover.h) */
    int64_t               matters_seq;      /* its newest event that job.json must have, as replay.h found it */
    int64_t               disk_since_ms;    /* its wait for a full disk that reclaim_look() last saw; 0: none */
    struct sweep         *sweep;            /* it stands for several members (sweep.h); NULL: a plain job */
    struct job_member    *member;           /* it is one of a sweep; NULL: it is not */
};

/* From its canonical spec; not yet among the active jobs, nor stored. */
struct job *job_create(struct daemon *d, int64_t id, const json_t *spec, struct err *err);
void job_destroy(struct job *job);      /* accepts NULL; its attempt is closed (job_attempt.h) */

/* Swaps the parts that job_create() made from two specs of one job that has never started; the other parts stay, and
 * the reasons why it waits are cleared. */
void job_exchange_spec(struct job *job, struct job *other);

/* A sweep needs the resources of its next member. */
int job_aim(struct job *sweep, struct err *err);

/* What a decision that is not stored takes back, besides the attempt. */
struct job_past {
    struct job_core       core;
    struct job_stored     stored;
    struct job_times      times;
    struct job_live_stats live_stats;
};

#define JOB_PAST(job) ((struct job_past){ (job)->core, (job)->stored, (job)->times, (job)->live_stats })
void job_take_back(struct job *job, const struct job_past *was);

/* Makes it a member; `point` may be NULL. -1: no memory. */
int job_join(struct job *job, int64_t sweep, int index, const json_t *point);

/* The sweep of a member; 0: it is none. */
int64_t job_sweep_of(const struct job *job);

/* Reads the origin, which a new job gets after job_create(). */
int job_know_origin(struct job *job, const json_t *spec, struct err *err);

/* Its own texts, for writing. Before that, job->texts is empty and shared by all: queued jobs have none. */
struct job_texts *job_texts(struct job *job);

/* Applies the parts of an event outside the core: live stats, checkpoint path, nodes. Also for
 * replay. */
void job_note(struct job *job, enum event_kind kind, const json_t *body, int64_t at_ms);

/* The time of its newest step, if that is too old for its speed to hold (job_rhythm.h); 0: it is not. */
int64_t job_still_since(const struct job *job, int64_t now_ms);
/* How its time was spent so far; what has passed since an old step does not count as productive. */
void job_spent(struct goodput *out, const struct job *job, int64_t now_ms);

/* The job's row as the store keeps it. */
void job_row_make(struct job_row *row, const struct job *job);

/* How far the clocks have changed since its times were taken; *clock: as of then. False: not at all. */
bool job_clock_look(const struct job *job, struct clock_jump *clock, struct clock_change *change);

/* {job, attempt, nonce}: the head of each message to an agent of the newest attempt. */
json_t *job_envelope(const struct job *job);

#endif
