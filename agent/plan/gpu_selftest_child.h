/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_selftest_child.h - runs the GPU self-test of a plan in a child process before its ranks start
 *
 * Copies and sums (agent/plan/gpu_selftest.h) take seconds, or up to their deadlines if GPUs fail,
 * and the agent must keep sending heartbeats and accept a cancel during that time. `jobctl-agent gpu-selftest`
 * reads facts and spec from descriptor 3 and writes the rows of `pairs` with the results to
 * standard output. Its environment has the attempt's nonce but no generation, so the cleanup of the
 * attempt kills it.
 */
#ifndef AGENT_PLAN_GPU_SELFTEST_CHILD_H
#define AGENT_PLAN_GPU_SELFTEST_CHILD_H

#include <jansson.h>
#include <uv.h>

struct err;
struct gpu_selftest_child;

/* pairs: the rows with results (borrowed), or NULL and the reason in `why`. Not called from
 * within gpu_selftest_child_start(). */
typedef void (*gpu_selftest_child_done_fn)(void *arg, const json_t *pairs, const char *why);

/* Does this plan use pairs without a result? */
int gpu_selftest_child_start(struct gpu_selftest_child **out, uv_loop_t *loop, const json_t *facts, const json_t *spec,
                             const char *nonce, gpu_selftest_child_done_fn done, void *arg, struct err *err);

/* Kills the process; done() is not called any more. Run the loop once more before
 * gpu_selftest_child_destroy(). Both accept NULL. */
void gpu_selftest_child_close(struct gpu_selftest_child *t);
void gpu_selftest_child_destroy(struct gpu_selftest_child *t);

/* Main function of the process: from descriptor 3 to standard output. */
int gpu_selftest_child_run(const char *train, struct err *err);

#endif
