/* SPDX-License-Identifier: Apache-2.0 */
/* lineage.h - which jobs' checkpoints a run may continue
 *
 * Each job has an origin, 128 random bits, which the controller gives it and which `retry` and `adopt` keep
 * (checkpoint.origin of its spec).  A checkpoint keeps the spec of the job that wrote it.  A run may continue
 * checkpoints of its own origin, of the origins in checkpoint.lineage (the jobs that it waited for), and of the
 * checkpoint named by `resume: PATH`.
 */
#ifndef ENGINE_CHECKPOINT_LINEAGE_H
#define ENGINE_CHECKPOINT_LINEAGE_H

#include <jansson.h>

struct err;

/* 0: the run of the spec `job` may continue the checkpoint `path`, or the writer is unknown (a run
 * without a controller, a damaged file).  -1: ERR_CONFLICT, naming the job that wrote it. */
int lineage_check(const json_t *job, const char *path, struct err *err);

/* The same for the newest checkpoint below `root`, by name alone; 0 if there is none. */
int lineage_check_root(const json_t *job, const char *root, struct err *err);

#endif
