/* SPDX-License-Identifier: Apache-2.0 */
/* shared_dir.h - jobs that name the same checkpoint.dir: the first to start writes there, the others wait
 *
 * So a job takes no GPUs while it cannot have its directory. Paths are compared as resolved by `submit`. The final
 * decision, also between homes and machines, is the lease in the directory (agent/os/lease.h).
 */
#ifndef CONTROLLER_NODES_SHARED_DIR_H
#define CONTROLLER_NODES_SHARED_DIR_H

#include <stdbool.h>
#include <stdint.h>

struct job;
struct job_order;

/* A started job that is not done may write into the checkpoint.dir that its spec names. */
bool shared_dir_writes(const struct job *job);

/* The same key for jobs of which one may write into the other's directory; ids are those of owners of jobs/N. */
int64_t shared_dir_key(const struct job *job);

/* The job that must be done before `job` may start, or NULL. `writers`: the jobs that write, by (key, id). */
struct job *shared_dir_writer(const struct job *job, const struct job_order *writers);

/* Writes why `job` waits for `writer` into job->unplaced. */
void shared_dir_text(struct job *job, const struct job *writer);

#endif
