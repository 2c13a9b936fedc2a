/* SPDX-License-Identifier: Apache-2.0 */
/* follow.h - look on while a job runs: its output, its news, a live line
 *
 * On a terminal the last line is redrawn in place; elsewhere there is a plain
 * line about every ten seconds.  Ctrl-C ends the looking on and leaves the job
 * alone.  A daemon that dies meanwhile is started again by the client.
 */
#ifndef CONTROLLER_CLI_FOLLOW_H
#define CONTROLLER_CLI_FOLLOW_H

#include <jansson.h>
#include <stdbool.h>

struct call;
struct client;

struct follow_wish {
    bool      output;      /* print what the rank writes */
    int       rank;
    bool      all;         /* of all ranks, each line with its rank */
    bool      setup;       /* what the setup writes, instead of a rank */
    long long attempt;     /* 0: all there will be, from the one that runs now */
    long long tail;        /* begin with so many of its last lines; -1: from its beginning */
    bool      progress;    /* the live line */
    bool      from_now;    /* news that is older than the call is not told */
};

enum { FOLLOW_DETACHED = 130 };

/* Until the job is done. Returns its exit code class, FOLLOW_DETACHED after Ctrl-C, or -1 with
 * call->err set. *row, if asked for, is a new reference to its last state, or NULL. */
int follow_job(struct call *call, struct client *c, long long id, const struct follow_wish *wish,
               json_t **row);

#endif
