/* SPDX-License-Identifier: Apache-2.0 */
/* job.h - one job in memory: what the core decides about, and what lives beside it
 *
 * It is made from its canonical spec, changes by job_apply() alone, and leaves memory when it is done.
 */
#ifndef CONTROLLER_JOB_JOB_H
#define CONTROLLER_JOB_JOB_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "controller/job/job_core.h"
#include "controller/job/sched.h"
#include "db/attempts.h"
#include "db/jobs.h"

struct daemon;
struct err;
struct remote_link;
struct followers;
struct remote;

/* What its latest heartbeat or step told; NaN or -1 while unknown. Not stored as such. */
struct job_live_stats {
    char    slow[280];          /* which rank slows all down, "" = none */
    char    nccl[600];          /* how it connects otherwise than predicted, "" = as predicted */
    double  loss, lr, samples_per_s, step_ms;
    char    phase[16];
    int64_t at_ms;
};

struct job_after {
    int64_t id;
    bool    settled;        /* it is done, and ... */
    bool    succeeded;
};

struct job {
    struct daemon        *daemon;
    struct job_core       core;
    char                  name[JOBS_NAME];
    int64_t               retry_of;
    int64_t               last_seq;
    struct job_after     *after;
    size_t                nafter;
    int64_t               want_cpus, want_gpus;   /* -1: all of a node */
    int64_t               max_duration_ms;        /* 0: none */
    bool                  trains;         /* `train:`, not `run:` */
    bool                  has_secrets;
    json_t               *secrets;        /* only here, never stored; NULL after a restart */
    struct job_live_stats live_stats;
    char                 *checkpoint_path;
    int64_t               curve_stride, curve_points;
    struct attempt_row   *attempt;        /* the newest one, NULL before the first */
    const struct remote *remote;        /* where its attempts run */
    json_t             *hosts;          /* of launch: ssh */
    int                 nodes, min_nodes;   /* of an attempt, and of one that follows a loss */
    int64_t             node_gpus;      /* of each of several nodes; -1: not said */
    json_t             *placed;         /* how the newest attempt was placed: job_core.h */
    json_t             *names;          /* of its nodes; NULL: one, or not known yet */
    json_t             *lost;           /* [{name, text, at_ms}] nodes that attempts lost */
    bool                gathered;       /* all nodes of the newest attempt have joined */
    char                unplaced[240];  /* for which nodes it waits; "" = for none */
    char                waits[240];     /* for what its launcher waits; "" = nothing */
    struct remote_link *link;           /* while the attempt lives */
    /* by which way the agent is heard; "" = there is only one */
    char                channel_text[400];
    bool                channel_degraded; /* and it is not the best one */
    char                absent[240];    /* what keeps a node from joining; "" = nothing */
    struct followers   *followers;      /* the agents beside the one at `link` (followers.h) */
    struct sched_job    verdict;        /* why it waits */
};

/* From its canonical spec; not yet in the roster, nor stored. */
struct job *job_create(struct daemon *d, int64_t id, const json_t *spec, struct err *err);
void job_destroy(struct job *job);      /* accepts NULL; its attempt is closed (job_attempt.h) */

/* Facts of an event that live beside the core: pulse, path of the checkpoint, nodes. For replay
 * too. */
void job_note(struct job *job, const char *kind, const json_t *body, int64_t at_ms);

/* The row that the store keeps of it, now. */
void job_row_make(struct job_row *row, const struct job *job);

/* {job, attempt, nonce}: how each message to an agent of its newest attempt begins. */
json_t *job_envelope(const struct job *job);

#endif
