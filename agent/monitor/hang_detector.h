/* SPDX-License-Identifier: Apache-2.0 */
/* hang_detector.h - detects hung ranks from flight pages and time stamps alone
 *
 * Pure: no clock, no I/O.
 * Input: pages and counters at one check; output: a verdict. agent/core/hang_rules.h has the limits. A rank is quiet
 * since its page last changed: step, phase, work done, a collective. It hangs when it is quiet for longer than the
 * deadline of its phase,
 *
 *     max(floor of the phase, 4 x the 99.9th percentile of that phase in that bucket)
 *
 * learned from the ring of the pages, and from earlier attempts. Until the first step
 * is complete the deadline is at least first_step. A phase that counts work of its own (encoding,
 * images) is not quiet while the count grows; outside the compute phases, neither is a process that
 * reads or writes a MiB now and then (a large checkpoint).
 *
 * A rank is idle since it last showed any sign of life (agent/monitor/activity.h). For a command, an automatic deadline
 * counts only if the rank is idle; and a command whose ranks are all idle for hang.silent hangs, with or without pages.
 * That limit is shorter for a job that reports steps regularly (agent/monitor/step_pace.h).
 *
 * A rank that waits for others is never the cause: the rank that has entered the fewest collectives
 * is judged, by its own phase. So a slow checkpoint of one rank does not make the others "hang" in
 * the barrier after it, and the rank that never entered a collective is named.
 *
 * A stopped process (SIGSTOP) is recognized by its state; 5 s of that count as a hang in any phase.
 * While a debugger holds a rank, no verdict is given; nor for HANG_THAW_MS after the agent itself was suspended,
 * because its ranks may have been frozen with it and resume later.
 *
 * A verdict on a rank that shows signs of life is a false alarm, unless the spec set the limit:
 * automatic deadlines then double, and from the third on the verdict is only a warning.
 */
#ifndef AGENT_MONITOR_HANG_DETECTOR_H
#define AGENT_MONITOR_HANG_DETECTOR_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/core/hang_rules.h"
#include "agent/monitor/activity.h"
#include "engine/contract/flight.h"

struct err;
struct hang_detector;

/* State of one rank at one look. */
struct hang_detector_rank {
    bool                      alive;
    char state; /* of /proc/PID/stat, 0 = not known; 't': traced, no verdict */
    struct activity_sample    use;    /* of all its processes */
    const struct flight_page *page;   /* pid 0: the rank never attached */
    const char *where;                /* name of its node; NULL or "": single node */
};

struct hang_detector_verdict {
    int rank;  /* -1: all ranks, in the same collective */
    bool init; /* no step completed yet */
    enum flight_phase phase;
    uint64_t          step;
    int64_t           quiet_ms, deadline_ms;
    bool              warning; /* the rank may be working: warn, and stop nothing */
    char text[224]; /* "rank 1 hangs in ..." */
};

/* learned: result of hang_detector_learned() in an earlier attempt, or NULL. */
int hang_detector_create(struct hang_detector **out, int ranks, const struct hang_rules *rules, const json_t *learned,
                         struct err *err);
void hang_detector_destroy(struct hang_detector *h);

/* Starts a new generation: forgets the processes, keeps what was learned. */
void hang_detector_begin(struct hang_detector *h, int64_t now_ms);

/* The first rank has reported a step: printed it, or written it into its page. */
void hang_detector_step(struct hang_detector *h);

/* Checks all ranks once: true and *out if a rank hangs. Counts false alarms. */
bool hang_detector_look(struct hang_detector *h, const struct hang_detector_rank *ranks, int64_t now_ms,
                        struct hang_detector_verdict *out);

/* {"forward": ms, ..., "32x32": {"forward": ms, ...}, "silence": {}}: the 99.9th percentiles and
 * agent/monitor/silence.h, for the next attempt; a new object, or NULL if nothing was learned. */
json_t *hang_detector_learned(const struct hang_detector *h);

#endif
