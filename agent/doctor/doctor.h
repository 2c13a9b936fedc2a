/* SPDX-License-Identifier: Apache-2.0 */
/* doctor.h - checks whether a node is fit for a job: one row per check, from facts alone
 *
 *   {"rows":[{"check":"GPU 0", "status":"ok"|"warn"|"fail"|"unknown", "seen":"...", "todo":"..."}],
 *    "fail":0, "warn":1, "unknown":2}
 *
 * `fail`: a job will not run, or not correctly. `warn`: it will run, but this needs attention.
 * `unknown`: it cannot be determined here, which is not a fault.
 */
#ifndef AGENT_DOCTOR_DOCTOR_H
#define AGENT_DOCTOR_DOCTOR_H

#include <jansson.h>

struct err;

/* What the checks use besides the facts of probe.h:
 *   {"versions":{"jobctl-agent":"0.2.0","jobctl-train":"0.2.0"|null},
 *    "kernels":"cpu-avx2",                      the kernel table for this processor
 *    "start_error":"...",                       why jobctl-train does not start
 *    "train":{..output of `jobctl-train plan --json`..}|null, "train_error":"..."|null,
 *    "models":{..output of jobctl-fetch..}|{"error":"..."},   if the spec names models on a hub
 *    "checkpoint_dir":"/..."|null, "checkpoint_free_bytes":N|null,
 *    "checkpoint_bytes":N|null,                 size of an existing checkpoint
 *    "clock_synchronised":true|false|null,
 *    "peers":[{"host":"gpu2","address":"10.0.0.2"|null}],     other nodes of the job
 *    "step_ms":N, "last_step":N, "now_s":N}     of the last attempt; Unix time
 * All of them are optional. */

/* Pure; spec NULL: checks only the node. A new object, or NULL: no memory. */
json_t *doctor_check(const json_t *facts, const json_t *spec, const json_t *looked);

/* doctor_engine.c: collects what doctor_check() uses. `train` is the path of jobctl-train, NULL: a job that does not
 * use it; it evaluates the spec in the file spec_path, which may take long; NULL: skipped. dir: default directory of
 * checkpoints. A new object, or NULL: no memory. */
json_t *doctor_look(const char *train, const json_t *spec, const char *spec_path, const char *dir);

/* doctor_engine.c: checks that the container runtimes work, and runs the GPU self-test on all pairs, in the
 * environment of a `run:` command (agent/plan/gpu_selftest.h). Adds the results to the facts and caches them in the
 * directory `state` (NULL: not cached), so that agents need not repeat the test. */
void doctor_try(json_t *facts, const char *train, const char *state);

/* A quick check before an attempt; history: of the job's earlier attempts (agent/wire/wire.h),
 * or NULL. Returns the body of an event {text, rows} about problems, or NULL. -1 in *rc, and
 * err: the attempt must not be launched. */
json_t *doctor_preflight(int *rc, const char *train, const json_t *facts, const json_t *spec,
                         const char *dir, const json_t *history, struct err *err);

#endif
