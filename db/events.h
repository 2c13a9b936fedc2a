/* SPDX-License-Identifier: Apache-2.0 */
/* events.h - the append-only event log, from which all other rows of a job are derived
 */
#ifndef DB_EVENTS_H
#define DB_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

struct err;
struct store;

struct event_row {
    int64_t     job;
    int64_t     seq;            /* 1, 2, ... within the job, set by the caller */
    int64_t     at_ms;
    const char *source;         /* "controller" or "agent" */
    const char *kind;
    int64_t     attempt;        /* 0: none */
    const char *node;           /* this field and the next three: set for an agent's event, else NULL, 0, -1 */
    int64_t     incarnation;
    int64_t     agent_seq;
    const char *body;           /* JSON */
};

typedef int (*events_each_fn)(void *ctx, const struct event_row *row);

/* ERR_CONFLICT if the job has this seq, or if the agent's event is already stored. */
int events_append(struct store *s, const struct event_row *row, struct err *err);
/* The events after `after`, oldest first; the row's pointers are valid during the call.
 * Returns the nonzero value of `each` that stopped it, else 0. */
int events_each(struct store *s, int64_t job, int64_t after, int64_t limit, events_each_fn each,
                void *ctx, struct err *err);

#endif
