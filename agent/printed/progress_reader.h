/* SPDX-License-Identifier: Apache-2.0 */
/* progress_reader.h - the progress of a run, from the output of its first rank
 *
 * Pure: no clock, no I/O.
 * Reads output as it comes, in pieces of any size, and joins the information of several lines: the step of a bar and
 * the loss of a record, the total of a banner, the epochs around a bar that restarts with each epoch. Steps only grow:
 * bars of an evaluation inside an epoch have another total and are left out.
 */
#ifndef AGENT_PRINTED_PROGRESS_READER_H
#define AGENT_PRINTED_PROGRESS_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/printed/printed_progress.h"

enum { PROGRESS_READER_LINE = 4096 };

struct progress_seen {
    int64_t step, steps;        /* of the run; -1 = not known */
    double  epoch, epochs;      /* NAN = not known, here and below */
    double  loss, lr;           /* of the newest line */
    double  step_ms, eta_s;     /* as printed */
    double  samples_per_s, tokens_per_s;
};

struct progress_reader {
    const char *pattern;        /* a user-defined pattern, or NULL: all known formats; not owned */
    struct printed_table table;
    struct progress_seen seen;
    int64_t per_epoch, in_epoch;  /* steps per epoch, and steps done in this one; -1 = not known */
    int64_t first_epoch;          /* the number of the first step: 0 or 1 */
    int64_t turns;                /* how many times a bar without an epoch has restarted */
    bool    run_total;            /* `steps` was read, not computed */
    bool    changed;
    size_t  size;                 /* length of the line so far */
    bool    skip;                 /* the line is too long: skip to its end */
    char    line[PROGRESS_READER_LINE];
};

void progress_reader_init(struct progress_reader *r, const char *pattern);
void progress_reader_feed(struct progress_reader *r, const char *bytes, size_t size);
/* Has anything changed since the last call, and is there a step or an epoch? */
bool progress_reader_take(struct progress_reader *r, struct progress_seen *out);

#endif
