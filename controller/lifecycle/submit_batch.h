/* SPDX-License-Identifier: Apache-2.0 */
/* submit_batch.h - stores many submits in one commit
 *
 * All submits of one server turn share a transaction, which is committed at the
 * end of the turn; only then are they answered.  So a slow disk costs one sync
 * per turn, not per job.  A batch is committed as a whole or not at all.  While
 * it is open nothing else is written: the server commits it before it handles
 * any other request.
 */
#ifndef CONTROLLER_LIFECYCLE_SUBMIT_BATCH_H
#define CONTROLLER_LIFECYCLE_SUBMIT_BATCH_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"

struct daemon;
struct job;

struct submit_batch {
    bool       open;
    int64_t    batch;           /* number of the open batch, or of the next */
    int64_t    first_id;        /* its jobs are first_id .. next_id - 1 */
    int64_t    failed;          /* the latest batch that was not committed ... */
    struct err err;             /* ... and why */
};

/* All borrowed. */
struct submit_content {
    const json_t *body;         /* of the event `submitted` */
    const char   *yaml, *canonical;
    const char   *key, *digest; /* of the request (db/submit_keys.h); key NULL: none */
};

/* Stores a new job with both texts of its spec and adds it to the active jobs. It is durable once
 * its batch is committed; a failure fails the whole batch. */
int submit_batch_submit(struct job *job, const struct submit_content *content, struct err *err);

/* Commits the open batch and wakes its requests. True if there was one. */
bool submit_batch_flush(struct daemon *d);

#endif
