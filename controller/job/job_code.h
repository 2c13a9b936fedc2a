/* SPDX-License-Identifier: Apache-2.0 */
/* job_code.h - a job's code in jobs/<id>/code, and the originals of snapshots in HOME/code/DIGEST
 *
 * The submitting command makes both (controller/code/code_take.h); here they become part of the job, get a writable
 * copy, and are removed with it. An original stays as long as a job has a hard link to its manifest: the link count
 * tells.
 *
 *   jobs/<id>/code/info.json, commit, diff.patch, manifest.json
 *   jobs/<id>/code/tree/       the writable copy; made before the first attempt, kept for all others
 *
 * HOME/code/lock is held shared by a submit, and exclusively while originals are removed.
 */
#ifndef CONTROLLER_JOB_JOB_CODE_H
#define CONTROLLER_JOB_JOB_CODE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct daemon;
struct err;

#define JOB_CODE      "code"
#define JOB_CODE_INFO "info.json"

/* HOME/code/DIGEST. */
void job_code_original(char *out, size_t size, const char *home, const char *digest);

/* Makes HOME/code, removes the leftovers of dead processes, and takes the lock shared. */
int job_code_open(int *lock, const char *home, struct err *err);

/* Makes a hard link; where the file system has none, a copy, and the original is never removed. */
int job_code_link(const char *from, const char *to, struct err *err);

/* ---- of a job; `dir` is jobs/<id> ---- */

/* Makes HOME/code/`name` (code_take.h) the job's code. `must`: the spec demands a snapshot. */
int job_code_adopt(const struct daemon *d, int64_t id, const char *name, bool must, struct err *err);

/* A retry runs the code of the job that it retries. */
int job_code_inherit(const struct daemon *d, int64_t of, int64_t id, bool must, struct err *err);

/* The job was not stored. */
void job_code_discard(const struct daemon *d, int64_t id);

/* info.json with "dir", a new object; NULL: nothing was recorded. */
json_t *job_code_info(const char *dir);

/* jobs/<id>/code of a job with a snapshot, or false. */
bool job_code_dir(char *out, size_t size, const struct daemon *d, int64_t id);

/* Makes the writable copy, if the job has a snapshot and no copy yet. Files only, for a thread. */
int job_code_unpack(const char *dir, struct err *err);

/* ---- the end ---- */

/* Call before the job's directory is removed: write-protected directories would stay. */
void job_code_loosen(const char *dir);

/* Removes originals that no job uses. Does nothing during a submit: the next removal does it. */
void job_code_collect(const char *home);

#endif
