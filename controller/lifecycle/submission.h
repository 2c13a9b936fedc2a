/* SPDX-License-Identifier: Apache-2.0 */
/* submission.h - the common path of submit, retry and adopt to a new job */
#ifndef CONTROLLER_LIFECYCLE_SUBMISSION_H
#define CONTROLLER_LIFECYCLE_SUBMISSION_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct daemon;
struct err;
struct job;

struct submission {
    json_t       *spec;      /* canonical; owned, and completed by submission_place() */
    const char   *yaml;
    const json_t *secrets;   /* borrowed, or NULL */
    const json_t *environment;  /* of the submitter; borrowed, or NULL */
    const json_t *set;       /* the overrides of --set as texts, for display; borrowed, or NULL */
    const char   *code;      /* name of its recorded code in HOME/code (controller/job/job_code.h); or NULL */
    const char   *base;      /* the directory of relative paths in `yaml`; borrowed, or NULL */
    int64_t       retry_of;
    int64_t       sweep;     /* of a member: the sweep, whose environment it gets; or 0 ... */
    int           sweep_index;  /* ... its index ... */
    json_t       *point;     /* ... and its values; borrowed */
    bool          hold;
    const char   *key;       /* of the submit (controller/base/submit_key.h), or NULL; borrowed ... */
    const char   *digest;    /* ... and the digest of its spec; borrowed */
    json_t       *adopted;   /* borrowed, or NULL: {dir, host, job, step, history: []} */
};

/* Rejects a spec that this machine can never satisfy, with the agent's sentence. *plan receives
 * a new reference, NULL for other machines. */
int submission_fits(json_t **plan, const struct job *job, const json_t *spec, struct err *err);

/* Replaces checkpoint.dir: auto by a directory of the job, and adds an origin if there is none. */
int submission_place_checkpoints(json_t *spec, const struct daemon *d, int64_t id, struct err *err);

/* Parts of the events `submitted` and `edited`. Overrides: as written, without what looks like a secret; NULL: none. */
json_t *submission_overrides(const json_t *set);
json_t *submission_retry(const json_t *spec);

/* Stores the job; it is durable once the submit batch is committed. */
int submission_place(int64_t *id, struct daemon *d, const struct submission *o, struct err *err);

#endif
