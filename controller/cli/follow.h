/* SPDX-License-Identifier: Apache-2.0 */
/* follow.h - follows a job until it is done: output, events, a live progress line
 *
 * On a terminal the progress line is redrawn in place; otherwise a plain line
 * is printed about every ten seconds. Ctrl-C stops following, not the job. If Ctrl-C asks, the user may cancel the job,
 * which is then followed to its end. If the daemon dies meanwhile, the client restarts it.
 */
#ifndef CONTROLLER_CLI_FOLLOW_H
#define CONTROLLER_CLI_FOLLOW_H

#include <jansson.h>
#include <stdbool.h>

struct call;
struct client;

struct follow_wish {
    bool      output;      /* print the output of the rank */
    int       rank;
    bool      all;         /* output of all ranks, each line with its rank */
    bool      setup;       /* output of the setup, not of a rank */
    long long attempt;     /* 0: the current one and all later ones */
    long long tail;        /* start with this many last lines; -1: all */
    bool      progress;    /* show the live progress line */
    bool      quiet;       /* print the output only */
    bool      from_now;    /* skip events older than the call */
    bool      ask;         /* Ctrl-C on a terminal asks what to do with the job */
};

enum { FOLLOW_DETACHED = 130 };

/* Returns the job's exit code class once it is done, FOLLOW_DETACHED after Ctrl-C, or -1 with
 * call->err set. *row, if not NULL, receives a new reference to its last state, or NULL. */
int follow_job(struct call *call, struct client *c, long long id, const struct follow_wish *wish, json_t **row);

#endif
