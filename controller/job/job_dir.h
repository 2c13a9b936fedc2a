/* SPDX-License-Identifier: Apache-2.0 */
/* job_dir.h - the directories of a job, and its spec in them
 *
 *   jobs/<id>/                  spec.yaml, spec.json, and its checkpoints where the spec names no place
 *   jobs/<id>/<attempt>/        what concerns node 0 of the attempt (agent/os/run_dir.h)
 *   jobs/<id>/<attempt>/node1/  the same of node 1, and so on
 */
#ifndef CONTROLLER_JOB_JOB_DIR_H
#define CONTROLLER_JOB_JOB_DIR_H

#include <stddef.h>
#include <stdint.h>

struct daemon;
struct err;

/* jobs/<id>, jobs/<id>/<attempt>. */
void job_dir(char *out, size_t size, const struct daemon *d, int64_t id);
void job_dir_run(char *out, size_t size, const struct daemon *d, int64_t id, int64_t attempt);

/* RUN_DIR/node<k>, where what concerns node k is kept; RUN_DIR for node 0. */
void job_dir_node(char *out, size_t size, const char *run_dir, int node);

/* One of them; it may be there already. */
int job_dir_make(const char *path, struct err *err);

/* jobs/<id>/ with spec.yaml and spec.json, from the store where they are missing. Files cost more
 * than a commit does: they are made when somebody looks, at the latest when the job starts. */
int job_dir_fill(const struct daemon *d, int64_t id, struct err *err);

#endif
