/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_figures.h - what the GPUs of this machine do at present, sampled while somebody asks
 *
 * A call of gpu_figures_want() starts `jobctl-agent gpu-load` (agent/probe/gpu_load.h), a process that may be abandoned
 * when a driver hangs; it is ended GPU_FIGURES_PAGE_MS or GPU_FIGURES_SCRAPE_MS after the last call. So the first answer
 * has no figures, and nothing is sampled when nobody looks.
 */
#ifndef CONTROLLER_NODES_GPU_FIGURES_H
#define CONTROLLER_NODES_GPU_FIGURES_H

#include <jansson.h>
#include <stdint.h>

struct daemon;

enum {
    GPU_FIGURES_PAGE_MS   = 8000,       /* the page asks every 3 s */
    GPU_FIGURES_SCRAPE_MS = 150000,     /* a Prometheus at least every two minutes, usually every 15 s to 60 s */
    GPU_FIGURES_OLD_MS    = 10000       /* older ones are unknown: the driver hangs */
};

/* Somebody looks, and will look again within `ms`. Does nothing on a machine without GPUs. */
void gpu_figures_want(struct daemon *d, int64_t ms);

/* The newest line of a GPU, as in agent/probe/gpu_load.h, borrowed; NULL: unknown, or too old. */
const json_t *gpu_figures_of(const struct daemon *d, const char *uuid);

void gpu_figures_close(struct daemon *d);

#endif
