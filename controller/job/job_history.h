/* SPDX-License-Identifier: Apache-2.0 */
/* job_history.h - the events of a job beside it, jobs/<id>/events.jsonl: a lost store is rebuilt from them
 *
 * The first line is {events_of, format, origin, yaml, spec}, then each stored event is a line {seq, at_ms, source,
 * kind, attempt, node, incarnation, agent_seq, body}.  The file follows the store: it is written after a commit,
 * from the store's own rows, when a job is submitted, placed, started and done and at some events between, without
 * a sync.  So it may lack the newest events, and lines torn by a crash are dropped and written again; it is never
 * ahead of the store that wrote it.  An edit of the spec writes it again.
 */
#ifndef CONTROLLER_JOB_JOB_HISTORY_H
#define CONTROLLER_JOB_JOB_HISTORY_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "controller/job/event_kind.h"

struct err;
struct store;

#define JOB_HISTORY "events.jsonl"

enum { JOB_HISTORY_ORIGIN = 33 };

/* *have of a job whose directory is another job's: nothing is ever written. */
#define JOB_HISTORY_OFF INT64_MAX

/* Must an event of this kind be in the file before its effect? */
bool job_history_matters(enum event_kind kind);

/* Appends the stored events after *have, which are in the file, and moves *have; 0 writes the file again, with the
 * directory. */
int job_history_write(int64_t *have, const char *home, struct store *s, int64_t id, struct err *err);

/* The end of the file, which is read no further than needed: the last complete event (0: there is none, or the
 * file is not whole), and the origin of the job ("": unknown). False: no file. */
struct job_history_end {
    int64_t seq;
    char    origin[JOB_HISTORY_ORIGIN];
};
bool job_history_end(struct job_history_end *end, const char *home, int64_t id);
/* Is it of the job with this canonical spec? Also true where one of the two has no origin. */
bool job_history_same(const struct job_history_end *end, const char *canonical);

/* Is the directory that of another job than the one of this origin? `spec`: spec.json of it, or NULL. Only if the
 * events do not say otherwise: a bit of one file may have flipped. */
bool job_history_of_another(const char *home, int64_t id, const json_t *spec, const char *origin);

/* The whole history, to be released with job_history_fini(), up to a torn line at its end. A damaged first line is made
 * again from spec.json and spec.yaml; an event "damaged" stands for a damaged one ("submitted" for the first).
 * ERR_NOT_FOUND: no file; ERR_DATA: nothing can be made of it. */
struct job_history {
    json_t *head;       /* its first line */
    json_t *events;     /* 1, 2, ... */
    size_t  whole;      /* so many of them are before the first damaged one; all where there is none */
    bool    damaged;
};
int job_history_read(struct job_history *h, const char *home, int64_t id, struct err *err);
/* Could it be read? */
bool job_history_readable(const char *home, int64_t id);
void job_history_fini(struct job_history *h);

#endif
