/* SPDX-License-Identifier: Apache-2.0 */
/* job_env.h - a job's environment in jobs/<id>/env and secrets.env (agent/os/env_file.h)
 *
 * Written before the job is stored, mode 0600, and read by the job's agents; values of secrets are in secrets.env
 * and nowhere else on disk, until the job's end.  Not in the spec, the store, a snapshot, a mirror or a report: a
 * rebuilt store finds the files where they were, and an adopted job gets the environment of its adopter.
 */
#ifndef CONTROLLER_JOB_JOB_ENV_H
#define CONTROLLER_JOB_JOB_ENV_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/buf.h"

struct daemon;
struct err;
struct job;
struct store;

/* What it is made from; NULL: none. All borrowed. */
struct job_env_source {
    const json_t *spec;         /* env_from and secrets */
    const json_t *environment;  /* {NAME: value} of the submitter; NULL: the client did not send it */
    const json_t *secrets;      /* {NAME: value} for the names in `spec`, and for the secrets of `older` */
    const struct buf *older;    /* entries of the job that is retried: they come before `environment` */
    bool host;                  /* for an SSH host: nothing but the secrets of the spec */
};

struct job_env {
    struct buf open, secret;
};

/* ERR_USAGE: a secret of the spec has no value, or all variables together exceed the kernel's limit. */
int job_env_init(struct job_env *e, const struct job_env_source *from, struct err *err);
void job_env_fini(struct job_env *e);

/* Writes the files, with the directory of the job; nothing is left if that fails. */
int job_env_write(const struct job_env *e, const struct daemon *d, int64_t id, struct err *err);

/* The entries of env. */
int job_env_read(struct buf *open, const struct daemon *d, int64_t id, struct err *err);

/* {from, variables, secrets: [names]} for the directory of a job; NULL: nothing is known. Values are not shown. */
json_t *job_env_describe(const char *dir, const json_t *spec);

/* Loads job->secrets, the values to be kept out of what is stored. */
void job_env_recall(struct job *job);

/* True if there are values for all secrets that its spec names. */
bool job_env_complete(const struct job *job);

/* The job is done: deletes the values of its secrets, unless the directory is that of a job of another origin. */
void job_env_end(const struct daemon *d, int64_t id, const char *origin);

/* The job was not stored: deletes both files, and the directory if it is empty. */
void job_env_discard(const struct daemon *d, int64_t id);

/* After an unclean end: deletes the files of jobs that are done, or were never stored. */
void job_env_sweep(const struct daemon *d);

#endif
