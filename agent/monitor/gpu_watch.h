/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_watch.h - watches a job's GPUs for driver errors and work (agent/probe/gpu_events.h)
 *
 * The kernel log has the same errors, but containers often cannot read it, and it is only consulted
 * after a rank has exited; ranks that wait for a lost GPU do not exit.
 */
#ifndef AGENT_MONITOR_GPU_WATCH_H
#define AGENT_MONITOR_GPU_WATCH_H

#include <jansson.h>
#include <stdbool.h>
#include <uv.h>

struct activity_sample;
struct err;
struct gpu_watch;

struct gpu_event {
    const char *uuid;
    int         rank;  /* the first one on that GPU: its index among the ranks of the plan */
    int         xid;
    bool fault;        /* the GPU must not be used any more (agent/core/rules.h) */
    const char *text;  /* "GPU 1 (GPU-...) reports Xid 79: the GPU has fallen off the bus" */
    const char *line;  /* the same in the kernel log's format */
};

typedef void (*gpu_watch_fn)(void *arg, const struct gpu_event *e);

/* Watches the GPUs of the plan's ranks; *out is NULL if there are none. nonce: marks the process
 * as part of the attempt. A driver without events is not an error. */
int gpu_watch_start(struct gpu_watch **out, uv_loop_t *loop, const json_t *plan, const json_t *facts,
                    const char *nonce, gpu_watch_fn told, void *arg, struct err *err);

/* Adds the newest counters of the rank's GPU to its sample, if the driver has them. w: or NULL. */
void gpu_watch_add_use(const struct gpu_watch *w, int rank, struct activity_sample *sample);

/* Has a program been seen computing on the rank's GPU? w: or NULL. */
bool gpu_watch_held(const struct gpu_watch *w, int rank);

/* Recent kernel messages, and driver events of the last half minute, as lines; valid until the
 * next call. NULL if there are none. */
const char *gpu_watch_evidence(const struct gpu_watch *w, const char *kernel);

/* Kills the process; run the loop once more before gpu_watch_destroy(). Both accept NULL. */
void gpu_watch_close(struct gpu_watch *w);
void gpu_watch_destroy(struct gpu_watch *w);

#endif
