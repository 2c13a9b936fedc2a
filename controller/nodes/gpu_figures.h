/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_figures.h - the present load of GPUs, on this machine and where agents run, sampled while somebody watches
 *
 * A call of gpu_figures_want() starts a process that samples the GPUs of this machine (agent/probe/gpu_sampler.h).
 * Agents on other machines are asked to do the same in the answer to their next message (WATCH_GPUS, wire.h), and send
 * their samples (GPU_LOAD). Sampling ends GPU_FIGURES_PAGE_MS or GPU_FIGURES_SCRAPE_MS after the last call. So the
 * first answer has no figures, and nothing is sampled or sent when nobody watches.
 */
#ifndef CONTROLLER_NODES_GPU_FIGURES_H
#define CONTROLLER_NODES_GPU_FIGURES_H

#include <jansson.h>
#include <stdint.h>

struct daemon;

enum {
    GPU_FIGURES_PAGE_MS   = 8000,       /* the page asks every 3 s */
    GPU_FIGURES_SCRAPE_MS = 150000      /* Prometheus asks at least every two minutes, usually every 15 s to 60 s */
};

/* Somebody watches, and will ask again within `ms`. Forgets machines whose newest figures are too old. */
void gpu_figures_want(struct daemon *d, int64_t ms);

/* The newest line of a GPU of this machine, as in agent/probe/gpu_load.h, borrowed; NULL: unknown, or too old. */
const json_t *gpu_figures_of(const struct daemon *d, const char *uuid);

/* How long an agent on another machine should watch its GPUs from now on; 0: no change. *asked_ms: the end of what
 * was requested before, 0 at first. */
int64_t gpu_figures_ask(const struct daemon *d, int64_t *asked_ms);

/* Stores the GPU load of another machine: the array of GPU_LOAD. */
void gpu_figures_take(struct daemon *d, const char *node, const json_t *gpus);

/* The same arrays by machine name, as of the last gpu_figures_want(), borrowed; NULL: none. */
const json_t *gpu_figures_elsewhere(const struct daemon *d);

void gpu_figures_close(struct daemon *d);

#endif
