/* SPDX-License-Identifier: Apache-2.0 */
/* job_dir.h - a job's directories and the spec files in them
 *
 *   jobs/<id>/                  spec.yaml, spec.json, and checkpoints if the spec sets no directory
 *   jobs/<id>/<attempt>/        files of node 0 of the attempt (agent/os/run_dir.h)
 *   jobs/<id>/<attempt>/node1/  files of node 1, and so on
 */
#ifndef CONTROLLER_JOB_JOB_DIR_H
#define CONTROLLER_JOB_JOB_DIR_H

#include <jansson.h>
#include <limits.h>
#include <stddef.h>
#include <stdint.h>

struct daemon;
struct err;

/* jobs/<id>, jobs/<id>/<attempt>. */
void job_dir(char *out, size_t size, const struct daemon *d, int64_t id);
void job_dir_run(char *out, size_t size, const struct daemon *d, int64_t id, int64_t attempt);

/* The directory of node k: RUN_DIR/node<k>; RUN_DIR for node 0. */
void job_dir_node(char *out, size_t size, const char *run_dir, int node);

/* jobs/<id> as safe_open_dir() opens it, and the file `name` there, as safe_open() does: the loop waits for them no
 * longer than for the store. spec.json: a new value; NULL: errno is set, or it is not JSON. */
int job_dir_open(const char *home, int64_t id, struct err *err);
int job_dir_open_file(const char *home, int64_t id, const char *name, int flags, struct err *err);
json_t *job_dir_spec(const char *home, int64_t id);

/* Creates one of them; an existing directory is not an error. */
int job_dir_make(const char *path, struct err *err);

/* jobs/<id>/ and the texts of spec.yaml and spec.json in it, from the store. Files cost more than a commit, so they
 * are created on first access, at the latest when the job starts: by a thread (controller/base/file_work.h). */
struct job_dir_files {
    char  dir[PATH_MAX];
    char *yaml, *canonical;
};
int job_dir_files_init(struct job_dir_files *f, const struct daemon *d, int64_t id, struct err *err);
void job_dir_files_fini(struct job_dir_files *f);

/* Writes what is missing or of an older spec. Accesses only files. */
int job_dir_files_write(const struct job_dir_files *f, struct err *err);

#endif
