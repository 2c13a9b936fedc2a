/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_sampler.h - what the GPUs of this machine do at present, sampled in a process of its own while somebody looks
 *
 * gpu_sampler_want() starts `jobctl-agent gpu-load` (agent/probe/gpu_load.h), which may be abandoned when a driver
 * hangs; it is ended when the time of the last call is over. So the first answer has no lines, and nothing is sampled
 * when nobody looks.
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

/* Somebody looks, and will look again within `ms`. */
void gpu_sampler_want(struct gpu_sampler *s, int64_t ms);

/* The newest line of a GPU, borrowed; NULL: unknown, or too old. */
const json_t *gpu_sampler_of(const struct gpu_sampler *s, const char *uuid);

/* The newest line of each GPU, a new array; NULL: nothing came since the last call. */
json_t *gpu_sampler_news(struct gpu_sampler *s);

/* Ends the process; accepts NULL. */
void gpu_sampler_close(struct gpu_sampler *s);

#endif
