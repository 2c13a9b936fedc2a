/* SPDX-License-Identifier: Apache-2.0 */
/* events.h - append and read; never update: the truth about every job */
#ifndef DB_EVENTS_H
#define DB_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

struct err;
struct store;

struct event_row {
    int64_t     job;
    int64_t     seq;            /* 1, 2, ... within the job, given by the caller */
    int64_t     at_ms;
    const char *source;         /* "controller" or "agent" */
    const char *kind;
    int64_t     attempt;        /* 0: none */
    const char *node;           /* the rest only from an agent, else NULL, 0, -1 */
    int64_t     incarnation;
    int64_t     agent_seq;
    const char *body;           /* JSON */
};

typedef int (*events_each_fn)(void *ctx, const struct event_row *row);

/* ERR_CONFLICT when the job has this seq already, or the agent's event is there. */
int events_append(struct store *s, const struct event_row *row, struct err *err);
/* Those after `after`, oldest first; what the row points at lives during the call.
 * Returns the value by which `each` ended it early, else 0. */
int events_each(struct store *s, int64_t job, int64_t after, int64_t limit, events_each_fn each,
                void *ctx, struct err *err);
/* 1 if this event of an agent is stored, 0 if not, -1. */
int events_seen(struct store *s, int64_t job, int64_t attempt, const char *node,
                int64_t incarnation, int64_t agent_seq, struct err *err);

#endif
