/* SPDX-License-Identifier: Apache-2.0 */
/* fleet.h - the local node's free resources, and the scheduler passes over it
 *
 * Free resources are computed from what live attempts hold, so a restart cannot
 * miscount.  fleet_dirty() requests a pass, which is made soon: many requests
 * share one, and passes take at most a few percent of the time, however many
 * jobs wait.
 */
#ifndef CONTROLLER_NODES_FLEET_H
#define CONTROLLER_NODES_FLEET_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "controller/job/sched.h"

struct daemon;
struct err;
struct fleet_probe;
struct job;

struct fleet {
    char              node[64];
    char              boot_id[64];
    int64_t           cpus;             /* CPU slots; its GPUs are in struct daemon */
    json_t           *facts;            /* from `jobctl-agent probe`; NULL until it answers */
    struct fleet_probe *probe;          /* the running probe, or NULL */
    struct sched_job *queue;
    size_t            room;
    struct job      **writers;          /* of directories that specs name (shared_dir.h), during a pass */
    size_t            nwriters;
    uv_timer_t        soon, wake;
    uint64_t          cost_us;          /* duration of the latest pass */
};

/* Probes the node (fleet_probe.h); no job is placed before the probe answers. */
int fleet_open(struct daemon *d, struct err *err);
void fleet_close(struct daemon *d);

/* Requests a scheduler pass. */
void fleet_dirty(struct daemon *d);

/* The resources that no live attempt holds. */
void fleet_free(const struct daemon *d, int64_t *cpus, int64_t *gpus);

#endif
