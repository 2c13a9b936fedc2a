/* SPDX-License-Identifier: Apache-2.0 */
/* fleet.h - the local node's free resources, and the scheduler passes over it
 *
 * Free resources are computed from what live attempts hold, so a restart cannot
 * miscount.  fleet_dirty() requests a pass, which is made soon: many requests
 * share one.  A pass examines the jobs that can start, not those that wait (sched_queue.h); the reason for a wait is
 * computed on request.
 */
#ifndef CONTROLLER_NODES_FLEET_H
#define CONTROLLER_NODES_FLEET_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "controller/job/job_order.h"
#include "controller/job/sched_queue.h"

struct daemon;
struct err;
struct fleet_probe;
struct job;

struct fleet {
    char              node[64];
    char              boot_id[64];
    json_t           *facts;            /* from `jobctl-agent probe`; NULL until it answers */
    struct fleet_probe *probe;          /* the running probe, or NULL */
    struct sched_queue queue;           /* the `verdict` of each waiting job */
    struct job_order  after;            /* (dependency, id): jobs that name a dependency, until they are done */
    struct job_order  named;            /* waiting jobs by the checkpoint.dir that they name (shared_dir.h) ... */
    struct job_order  writers;          /* ... and those that write to it */
    bool              explained;        /* the verdicts are those of the present queue */
    uv_timer_t        soon, wake;
    uint64_t          cost_us;          /* duration of the latest pass */
    /* Stores the next member of a sweep as a job, which then starts; NULL: *err. */
    struct job     *(*member)(struct job *sweep, struct err *err);
    /* Ends a sweep whose members are all done. */
    int             (*settle)(struct job *sweep, struct err *err);
};

/* Probes the node (fleet_probe.h); no job is placed before the probe answers. */
int fleet_open(struct daemon *d, struct err *err);
void fleet_close(struct daemon *d);

/* Called after each change of a job, and before it is removed: files it for the next pass. */
void fleet_note(struct job *job);
void fleet_forget(struct job *job);

/* Call before its spec changes (job_apply_edit()): takes it out of the queue, to which fleet_note() returns it. */
void fleet_take_out(struct job *job);

/* The probe has found no NVIDIA library on this machine. */
bool fleet_lacks_nvml(const struct daemon *d);

/* A job that is not done and names job `id` in `after`, or NULL. */
const struct job *fleet_dependent(const struct daemon *d, int64_t id);

/* Sets job->filed.verdict of each waiting job: why it waits now. */
void fleet_explain(struct daemon *d);

/* Requests a scheduler pass. */
void fleet_dirty(struct daemon *d);

/* The jobs that hold GPUs of this machine, or CPU slots: "4 in use by jobs 1-3, 7"; "": none. */
void fleet_users(char *out, size_t size, const struct daemon *d, bool gpus);

/* The resources that no live attempt holds. */
void fleet_free(const struct daemon *d, int64_t *cpus, int64_t *gpus);

#endif
