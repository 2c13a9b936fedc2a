/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_selftest_child.h - the GPUs of a plan are tried before its ranks start, by a process of its
 * own
 *
 * Copies and sums (agent/plan/gpu_selftest.h) take seconds, or their deadlines where GPUs do not
 * work together, and the agent must be heard meanwhile, and hear that the job is cancelled. 
 * `jobctl-agent trial` does it: facts and spec come on descriptor 3, the rows of `pairs` with what
 * was found go to standard output.  It has the attempt's nonce in its environment but no
 * generation, so that a sweep of the attempt ends it.
 */
#ifndef AGENT_PLAN_GPU_SELFTEST_CHILD_H
#define AGENT_PLAN_GPU_SELFTEST_CHILD_H

#include <jansson.h>
#include <uv.h>

struct err;
struct gpu_selftest_child;

/* pairs: as they are now (borrowed), or NULL with why nothing is known. Not from within
 * gpu_selftest_child_start(). */
typedef void (*gpu_selftest_child_done_fn)(void *arg, const json_t *pairs, const char *why);

/* Is something of this plan to be tried that is not known yet? */
int gpu_selftest_child_start(struct gpu_selftest_child **out, uv_loop_t *loop, const json_t *facts,
                             const json_t *spec,
                             const char *nonce, gpu_selftest_child_done_fn done, void *arg, struct err *err);

/* Ends the process, and done() is not called any more; run the loop once more before
 * gpu_selftest_child_destroy(). NULL is fine for both. */
void gpu_selftest_child_close(struct gpu_selftest_child *t);
void gpu_selftest_child_destroy(struct gpu_selftest_child *t);

/* The process: from 3 to standard output. */
int gpu_selftest_child_run(const char *train, struct err *err);

#endif
