/* SPDX-License-Identifier: Apache-2.0 */
/* submit_batch.h - many submits, one commit
 *
 * What is submitted in one turn of the server goes into one transaction; it is
 * committed at the end of the turn and only then answered.  So a disk that
 * takes its time costs each turn once, not each job.  All of a batch is
 * committed or none.  Nothing else is written while a batch is open: the
 * server flushes it before any other request is handled.
 */
#ifndef CONTROLLER_DAEMON_SUBMIT_BATCH_H
#define CONTROLLER_DAEMON_SUBMIT_BATCH_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/contract/err.h"

struct daemon;
struct job;

struct submit_batch {
    bool       open;
    int64_t    batch;           /* the number of the present one, or of the next */
    int64_t    first_id;        /* its jobs are first_id .. next_id - 1 */
    int64_t    failed;          /* the latest batch that was not committed ... */
    struct err err;             /* ... and why */
};

/* Records a new job with both texts of its spec and puts it into the roster. It is there to stay
 * when its batch is committed; failing takes the batch along. */
int submit_batch_submit(struct job *job, const json_t *body, const char *yaml,
                        const char *canonical,
                        struct err *err);

/* Commit what is open, wake those who wait for it. True when there was something. */
bool submit_batch_flush(struct daemon *d);

#endif
