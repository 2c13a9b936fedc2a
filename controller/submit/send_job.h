/* SPDX-License-Identifier: Apache-2.0 */
/* send_job.h - submits a checked request, announces the job, and follows it or waits for it */
#ifndef CONTROLLER_SUBMIT_SEND_JOB_H
#define CONTROLLER_SUBMIT_SEND_JOB_H

#include <jansson.h>
#include <stdbool.h>

struct call;
struct client;

struct send_wish {
    bool quiet;         /* the id only */
    bool output;        /* with follow: the output of the rank, too */
    bool follow;        /* until the job is done */
    bool ask;           /* with follow: Ctrl-C asks what to do with the job */
    bool wait;          /* silently until the job is done */
    const char *key;    /* of the submit (controller/base/submit_key.h); NULL: a new one */
    bool several;       /* one of several: send_job() announces it in one line and does not follow it */
};

/* Records the code (submit_code.h), submits `request` (spec_file.h), prints the notes of both and of its
 * local_check(), and follows the job if requested. Returns the exit code, or -1 with call->err set; *row is then NULL,
 * else a new reference to the newest state of the job. Prints no JSON. */
int send_job(struct call *call, struct client *c, const json_t *request, const json_t *notes,
             const struct send_wish *wish, json_t **row);

/* The second half of send_job(), for an existing job: wish->follow or wish->wait. *row is replaced by the last
 * state. */
int send_job_look_on(struct call *call, struct client *c, json_t **row, const struct send_wish *wish);

#endif
