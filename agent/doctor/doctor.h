/* SPDX-License-Identifier: Apache-2.0 */
/* doctor.h - is this node fit for a job?  Every check is a row, from facts alone
 *
 *   {"rows":[{"check":"GPU 0", "status":"ok"|"warn"|"fail"|"unknown", "seen":"...", "todo":"..."}],
 *    "fail":0, "warn":1, "unknown":2}
 *
 * `fail`: a job will not run, or not rightly. `warn`: it will, but look at this.
 * `unknown`: what was asked cannot be told here, which is no fault.
 */
#ifndef AGENT_DOCTOR_DOCTOR_H
#define AGENT_DOCTOR_DOCTOR_H

#include <jansson.h>

struct err;

/* What the checks know beside the facts of probe.h:
 *   {"versions":{"jobctl-agent":"0.1.0","jobctl-train":"0.1.0"|null},
 *    "kernels":"cpu-avx2",                      the table that the engine takes on this processor
 *    "start_error":"...",                       why jobctl-train does not start
 *    "train":{..what `jobctl-train plan --json` says..}|null, "train_error":"..."|null,
 *    "checkpoint_dir":"/..."|null, "checkpoint_free_bytes":N|null,
 *    "checkpoint_bytes":N|null,                 of one that is already there
 *    "clock_synchronised":true|false|null,
 *    "peers":[{"host":"gpu2","address":"10.0.0.2"|null}],     other nodes of the job
 *    "step_ms":N, "last_step":N, "now_s":N}     of the attempt before; Unix time
 * Any of them may be absent. */

/* Pure; spec NULL: only the node. A new object, or NULL: no memory. */
json_t *doctor_check(const json_t *facts, const json_t *spec, const json_t *looked);

/* doctor_engine.c: finds what doctor_check() wants. `train` is the engine's program; it is asked
 * about the spec in the file spec_path, which may take long, or not: NULL. dir: where checkpoints
 * go that the spec does not place. A new object, or NULL: no memory. */
json_t *doctor_look(const char *train, const json_t *spec, const char *spec_path, const char *dir);

/* doctor_engine.c: all pairs of GPUs, as a command would use them (agent/plan/gpu_selftest.h), into
 * the facts; kept in the directory `state`, NULL: nowhere, so that agents need not try again. */
void doctor_try(json_t *facts, const char *train, const char *state);

/* Before an attempt, in a moment; history: of the job's attempts before (agent/wire/wire.h), or
 * NULL.  The body of an event {text, rows} on what is not as it should be, or NULL. -1 in *rc, with
 * a sentence: it must not be launched. */
json_t *doctor_preflight(int *rc, const char *train, const json_t *facts, const json_t *spec,
                         const char *dir, const json_t *history, struct err *err);

#endif
