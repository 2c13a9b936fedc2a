/* SPDX-License-Identifier: Apache-2.0 */
/* slurm_job.h - a Slurm job as reported by jobctl-slurm (controller/slurm/main.c): its number, and how it ended
 *
 * Pure: no clock, no I/O.
 */
#ifndef CONTROLLER_REMOTE_SLURM_JOB_H
#define CONTROLLER_REMOTE_SLURM_JOB_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum { SLURM_JOB_NUMBER = 48 };

/* Does it belong to an array: as a task, or as all tasks that have not started? */
bool slurm_job_is_task(const json_t *job);

/* "12", or "12_3" for task 3 of an array; returns `out`. */
const char *slurm_job_number(char out[SLURM_JOB_NUMBER], const json_t *job, int task);

/* Why it ended, as a sentence. True: the disk of `run_dir` had no space for its agent. */
bool slurm_job_end(char *out, size_t size, const json_t *job, int task, const char *run_dir);

/* Slurm will run it again, or is doing so. */
bool slurm_job_requeued(const json_t *job);

#endif
