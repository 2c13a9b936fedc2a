/* SPDX-License-Identifier: Apache-2.0 */
/* job_file.h - jobs/<id>/job.json: what a job is and where it stands, in case the store is lost
 *
 * The store (jobs.db) is the truth. Beside each job one small file repeats what must not be lost with it:
 *
 *   {format, id, origin, seq, submitted, state, run, placed, lost, lease_ms, checkpoint, loss, samples_per_s, yaml,
 *    canonical, sum}
 *
 *   sum         engine/base/json_seal.h: a flipped bit makes the file unreadable, never wrong
 *   seq         the newest event of the job when the file was written
 *   submitted   body of its first event (job_core.h); state: job_core_json.h; run: the agent of the newest attempt
 *   yaml, canonical             the two texts of its spec
 *   placed, lost, lease_ms, checkpoint, loss, samples_per_s: those of struct job
 *
 * It is written after the commit of each event that job_file_matters() names, and before its effect; with those of
 * job_file_durable() it is on the disk before the effect. So it is never ahead of the store that wrote it. It is
 * renamed into place last, so it is whole or the previous one. If a daemon dies in between, or its disk is full, the
 * next daemon writes it at its start (controller/daemon/takeover.h).
 *
 * Which one wins:
 *   store lost or damaged        its newest sound copy, then as below (controller/daemon/snapshots.h)
 *   job not in the store         job.json: the job is taken over, done or not; a removed one stays removed
 *   store older than job.json    job.json: the job has its state; the events between are lost
 *   store newer than job.json    the store; job.json is written again
 *   rows of an open job damaged  job.json; without it the job ends as failed
 *   job.json damaged             the store; without a row the job is not taken over, and `jobctl status` says so
 *   another origin in job.json   neither: the directory is that of another job, and nothing in it is touched
 *   directory moved or removed   the store; the job ends when it would start again (controller/nodes/fleet.c)
 */
#ifndef CONTROLLER_JOB_JOB_FILE_H
#define CONTROLLER_JOB_JOB_FILE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "controller/job/event_kind.h"

struct err;
struct job;

#define JOB_FILE "job.json"

bool job_file_matters(enum event_kind kind);
bool job_file_durable(enum event_kind kind);

/* Makes the directory of a job that has not started. Nothing is written in another job's directory (struct job). */
int job_file_write(const struct job *job, bool durable, struct err *err);

/* A new reference. NULL: err->errnum is ENOENT where there is none; ERR_DATA: damaged, or of another format. */
json_t *job_file_read(const char *home, int64_t id, struct err *err);

/* True if the directory is that of another job than the one of this origin. `spec`: its spec.json, or NULL. */
bool job_file_of_another(const char *home, int64_t id, const json_t *spec, const char *origin);

/* True if the directory has a job.json or a spec.json. A removal deletes both first, and may leave checkpoints. */
bool job_file_is_job(const char *home, int64_t id);

#endif
