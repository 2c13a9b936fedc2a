/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_watch.h - a process that waits for what the driver tells of a job's GPUs
 * (agent/probe/gpu_events.h)
 *
 * The kernel's log says the same, but containers often may not read it, and nobody looks into it
 * before a rank has ended: ranks that wait for a GPU that is gone do not.
 */
#ifndef AGENT_MONITOR_GPU_WATCH_H
#define AGENT_MONITOR_GPU_WATCH_H

#include <jansson.h>
#include <stdbool.h>
#include <uv.h>

struct err;
struct gpu_watch;

struct gpu_event {
    const char *uuid;
    int         rank;  /* the first one on that GPU */
    int         xid;
    bool        fault; /* the GPU is not to be used any more (agent/core/rules.h) */
    const char *text;  /* "GPU 1 (GPU-...) reports Xid 79: the GPU has fallen off the bus" */
    const char *line;  /* the same as the kernel writes it */
};

typedef void (*gpu_watch_fn)(void *arg, const struct gpu_event *e);

/* Watches the GPUs of the plan's ranks; *out is NULL where there are none. nonce: marks the process as
 * one of the attempt's. A driver that tells nothing is no failure. */
int gpu_watch_start(struct gpu_watch **out, uv_loop_t *loop, const json_t *plan, const json_t *facts,
                    const char *nonce, gpu_watch_fn told, void *arg, struct err *err);

/* What the kernel has lately said, and what the driver has told within half a minute, as lines;
 * valid until the next call.  NULL where there is neither. */
const char *gpu_watch_evidence(const struct gpu_watch *w, const char *kernel);

/* Ends the process; run the loop once more before gpu_watch_destroy(). NULL is fine for both. */
void gpu_watch_close(struct gpu_watch *w);
void gpu_watch_destroy(struct gpu_watch *w);

#endif
