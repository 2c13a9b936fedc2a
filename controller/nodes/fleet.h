/* SPDX-License-Identifier: Apache-2.0 */
/* fleet.h - the node as of now, and the passes of the scheduler over it
 *
 * What is free follows from what the live attempts hold; nothing is counted
 * twice over a restart.  A pass is asked for by fleet_dirty() and made soon:
 * many requests share one, and passes never take more than a few percent of
 * the time however many jobs wait.
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

struct fleet {
    char              node[64];
    char              boot_id[64];
    int64_t           cpus;             /* its GPUs: struct daemon */
    json_t           *facts;            /* of `jobctl-agent probe`; NULL until it has answered */
    struct fleet_probe *probe;          /* while it is asked */
    struct sched_job *queue;
    size_t            room;
    uv_timer_t        soon, wake;
    uint64_t          cost_us;          /* of the latest pass */
};

/* The node is asked what it has (fleet_probe.h); until it answers nothing is placed. */
int fleet_open(struct daemon *d, struct err *err);
void fleet_close(struct daemon *d);

/* Something changed: look again who can be placed. */
void fleet_dirty(struct daemon *d);

/* What is not held by a live attempt. */
void fleet_free(const struct daemon *d, int64_t *cpus, int64_t *gpus);

#endif
