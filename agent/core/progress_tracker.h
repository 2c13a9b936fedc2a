/* SPDX-License-Identifier: Apache-2.0 */
/* progress_tracker.h - progress and speed of a run, from the lines of rank 0
 *
 * Pure: no clock, no I/O.
 * Lines are untrusted input: a field of the wrong type counts as absent. Step events are limited to
 * one per second; the newest one held back is kept for the end of the generation, so the last step
 * is never missing.
 */
#ifndef AGENT_CORE_PROGRESS_TRACKER_H
#define AGENT_CORE_PROGRESS_TRACKER_H

#include <jansson.h>
#include <stdint.h>

/* The first sign of life is a step, and no earlier generation made one: all its time went into new steps. */
enum { PROGRESS_ALL_FRESH = 1 };

struct progress_tracker {
    int64_t step, steps;   /* of this generation; -1 = not known */
    int64_t told;          /* of the last step line of this generation; -1 = none */
    int64_t best;          /* highest step ever, including earlier attempts */
    int64_t best_before;   /* ... before this generation */
    int64_t checkpoint;    /* newest of this attempt, -1 = none */
    int64_t checkpoint_ms; /* time to write the last one; 0 = not known */
    double  loss, lr, samples_per_s, step_ms; /* NAN = not known */
    int64_t productive_ms;                    /* time spent on new steps */
    int64_t last_step_ms, event_ms;
    int64_t started_ms; /* when this generation began ... */
    int64_t fresh_ms;   /* ... and when its steps became new; 0 = not yet; PROGRESS_ALL_FRESH */
    int64_t disk_ms;    /* this generation: time spent in finished waits for a full disk ... */
    int64_t disk_since_ms; /* ... and the start of a wait in progress; 0 = none */
    int64_t encoded;       /* samples that this generation has encoded and kept */
    json_t *held;
};

void progress_tracker_init(struct progress_tracker *p, int64_t best);
void progress_tracker_fini(struct progress_tracker *p);
void progress_tracker_begin(struct progress_tracker *p); /* a new generation */
/* New steps of this generation, and samples encoded: what a restart does not have to do again. */
int64_t progress_tracker_gained(const struct progress_tracker *p);

void progress_tracker_started(struct progress_tracker *p, const json_t *line, int64_t now_ms);
/* The body of a step event, or NULL when this one is held back. */
json_t *progress_tracker_step(struct progress_tracker *p, int generation, const json_t *line, int64_t now_ms);
json_t *progress_tracker_held(struct progress_tracker *p); /* the one held back, or NULL */
/* -1: the line names no step. */
int progress_tracker_checkpoint(struct progress_tracker *p, const json_t *line, int64_t now_ms);
/* Training pauses because the disk is full; a line with `over` ends the pause. */
void progress_tracker_disk(struct progress_tracker *p, const json_t *line, int64_t now_ms);
/* Data is encoded before the first step. */
void progress_tracker_encoding(struct progress_tracker *p, const json_t *line);
/* The end of training; its step and loss are held back like those of a step, unless a step line had them. */
void progress_tracker_done(struct progress_tracker *p, int generation, const json_t *line, int64_t now_ms);

#endif
