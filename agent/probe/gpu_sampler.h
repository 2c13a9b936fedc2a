/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_sampler.h - samples the load of this machine's GPUs, in a separate process, while somebody watches
 *
 * gpu_sampler_want() starts `jobctl-agent gpu-load` (agent/probe/gpu_load.h), which may be abandoned when a driver
 * hangs; it is stopped when the time requested by the last call is over. So the first answer has no lines, and nothing
 * is sampled when nobody watches.
 */
#ifndef AGENT_PROBE_GPU_SAMPLER_H
#define AGENT_PROBE_GPU_SAMPLER_H

#include <jansson.h>
#include <stdint.h>
#include <uv.h>

struct gpu_sampler;

enum { GPU_SAMPLER_OLD_MS = 10000 };      /* older lines are unknown: the driver hangs */

/* NULL: no memory. */
struct gpu_sampler *gpu_sampler_create(uv_loop_t *loop);

/* Somebody watches, and will ask again within `ms`. */
void gpu_sampler_want(struct gpu_sampler *s, int64_t ms);

/* The newest line of a GPU, borrowed; NULL: unknown, or too old. */
const json_t *gpu_sampler_of(const struct gpu_sampler *s, const char *uuid);

/* The newest line of each GPU, a new array; NULL: nothing new since the last call. */
json_t *gpu_sampler_news(struct gpu_sampler *s);

/* Ends the process; accepts NULL. */
void gpu_sampler_close(struct gpu_sampler *s);

#endif
