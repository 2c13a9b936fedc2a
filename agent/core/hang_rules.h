/* SPDX-License-Identifier: Apache-2.0 */
/* hang_rules.h - what counts as a hang, in which phase, after how long: one table for all jobs
 *
 * Pure: no clock, no I/O.
 * The detector (agent/monitor/hang_detector.h) applies these rules, `jobctl plan` prints them, and the tables in
 * docs/RECOVERY.md are generated from them.
 *
 * A limit set by the spec is applied exactly; an automatic one is at least its floor, adapts to the job's history, and
 * doubles with each false alarm.
 */
#ifndef AGENT_CORE_HANG_RULES_H
#define AGENT_CORE_HANG_RULES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/contract/flight.h"

/* The keys of `hang:`; 0: auto. */
struct hang_rules {
    bool    engine; /* jobctl-train: pages are complete, and every rank must attach */
    int64_t step_ms, first_step_ms, silent_ms;
};

enum {
    HANG_FIRST_STEP_MS = 5 * 60 * 1000,
    HANG_STOPPED_MS = 5 * 1000, /* for a process known to be stopped */
    HANG_TIMES = 4,             /* an automatic deadline is this many times the usual duration */
    HANG_SILENT_MS = 60 * 1000, /* minimum automatic silence ... */
    HANG_SILENT_NEW_MS = 10 * 60 * 1000, /* ... while the job has been watched for less than ... */
    HANG_NEW_MS = 60 * 60 * 1000,
    HANG_RHYTHM_MS = 100 * 1000, /* minimum automatic silence of a job that reports steps regularly, ... */
    HANG_RHYTHMS = 100,          /* ... and in times between two reports */
    HANG_GAP_MS = 3 * 1000,   /* the agent itself did not run for this long: it was frozen, and ... */
    HANG_THAW_MS = 30 * 1000, /* ... its ranks may resume this much later */
    HANG_WARN_FROM = 3,       /* this false alarm and later ones only warn, ... */
    HANG_SURE_MS = 30 * 60 * 1000 /* ... unless the rank stays in the same place for this long */
};

/* From a canonical spec. */
void hang_rules_read(struct hang_rules *r, const json_t *spec, bool engine);

/* The minimum automatic deadline of a phase; -1: none. */
int64_t hang_rules_floor_ms(const struct hang_rules *r, enum flight_phase phase);
int64_t hang_rules_first_step_ms(const struct hang_rules *r);

/* Has the spec set the deadline of this phase? Then it applies regardless of signs of life. */
bool hang_rules_is_set(const struct hang_rules *r, enum flight_phase phase, bool stepped);

/* In this phase, a rank's signs of life (agent/monitor/activity.h) count as progress, outside a collective. */
bool hang_rules_life_counts(const struct hang_rules *r, enum flight_phase phase);
/* So do MiB read and written from time to time. */
bool hang_rules_files_count(enum flight_phase phase);

/* The deadline for the silence of all ranks, by how long the job was watched, its longest quiet time, the usual time
 * between two reports of steps (0: not regular), and the number of false alarms; -1: not watched. */
int64_t hang_rules_silent_ms(const struct hang_rules *r, int64_t watched_ms, int64_t longest_ms, int64_t rhythm_ms,
                             int false_alarms);
/* The deadline for main threads without work, if others show signs of life; -1: not watched, because a limit is set or
 * there is no rhythm. */
int64_t hang_rules_background_ms(const struct hang_rules *r, int64_t rhythm_ms, int false_alarms);
/* An automatic deadline after this many false alarms. */
int64_t hang_rules_doubled_ms(int64_t deadline_ms, int false_alarms);

/* How long counters are watched before they are judged: a quarter of the shortest limit, 1 s to 10 s. */
int64_t hang_rules_window_ms(const struct hang_rules *r);

/* One sentence per rule (what is watched, and the limit), as a new array: for `jobctl plan`. */
json_t *hang_rules_say(const struct hang_rules *r);

#endif
