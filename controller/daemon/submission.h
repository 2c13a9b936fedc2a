/* SPDX-License-Identifier: Apache-2.0 */
/* submission.h - the common path of submit, retry and adopt to a new job */
#ifndef CONTROLLER_DAEMON_SUBMISSION_H
#define CONTROLLER_DAEMON_SUBMISSION_H

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
    int64_t       retry_of;
    bool          hold;
    json_t       *adopted;   /* borrowed, or NULL: {dir, host, job, step, history: []} */
};

/* Rejects a spec that this machine can never satisfy, in the agent's words. *plan receives
 * a new reference, NULL for other machines. */
int submission_fits(json_t **plan, const struct job *job, const json_t *spec, struct err *err);

/* Stores the job; it is durable once the submit batch is committed. */
int submission_place(int64_t *id, struct daemon *d, const struct submission *o, struct err *err);

#endif
