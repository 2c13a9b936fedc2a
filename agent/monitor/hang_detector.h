/* SPDX-License-Identifier: Apache-2.0 */
/* hang_detector.h - does a rank stand still?  Told from flight pages and a clock alone
 *
 * Pure: no clock, no I/O.
 * What the pages show at a look goes in, a verdict comes out.  A rank is quiet since
 * anything in its page last changed: step, phase, work done, a collective.  It hangs when
 * it is quiet for longer than the deadline of its phase,
 *
 *     max(floor of the phase, 4 x the 99.9th percentile of that phase in that bucket)
 *
 * learned from the ring of the pages, and from what an earlier attempt had learned.  Before
 * the first step is done the deadline is at least first_step.  Phases with work of their own
 * to count (packing, pictures) are not quiet while it grows, and outside of the computing
 * phases neither is a process that reads or writes a MiB now and then (a large checkpoint).
 *
 * A rank that waits for others is never to blame: whoever has begun the fewest collectives
 * is judged, by its own phase.  So a slow checkpoint of one rank does not make the others
 * "hang" in the barrier after it, and the one that never entered is named.
 *
 * A process that is stopped (SIGSTOP) is known to be; 5 s of that is enough in any phase.
 * While a debugger holds one, nobody is judged.
 */
#ifndef AGENT_MONITOR_HANG_DETECTOR_H
#define AGENT_MONITOR_HANG_DETECTOR_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/contract/flight.h"

struct err;
struct hang_detector;

struct hang_detector_rules {
    bool    engine;        /* jobctl-train: its pages are complete, and it must attach */
    int64_t step_ms;       /* deadline of the phases of a step; 0 = learned */
    int64_t first_step_ms; /* until the first step is done; 0 = HANG_DETECTOR_FIRST_STEP_MS */
};

enum { HANG_DETECTOR_FIRST_STEP_MS = 5 * 60 * 1000 };

/* One rank at one look. */
struct hang_detector_rank {
    bool                      alive;
    char                      state; /* of /proc/PID/stat, 0 = not known; 't': nobody can be judged */
    uint64_t                  io_mib; /* read and written so far, in MiB; 0 = not known */
    const struct flight_page *page;  /* pid 0: it has never attached */
    const char               *where; /* the name of its node, NULL or "": there is one */
};

struct hang_detector_verdict {
    int               rank;        /* -1: all of them, in the same collective */
    bool              init;        /* no step was done yet */
    enum flight_phase phase;
    uint64_t          step;
    int64_t           quiet_ms, deadline_ms;
    char              text[224];   /* "rank 1 stands still ..." */
};

/* learned: what hang_detector_learned() of an earlier attempt gave, or NULL. */
int hang_detector_create(struct hang_detector **out, int ranks,
                         const struct hang_detector_rules *rules, const json_t *learned,
                         struct err *err);
void hang_detector_destroy(struct hang_detector *h);

/* New processes: nothing is known of them, but what was learned stays. */
void hang_detector_begin(struct hang_detector *h, int64_t now_ms);

/* One look at all ranks: true and *out when somebody hangs. */
bool hang_detector_look(struct hang_detector *h, const struct hang_detector_rank *ranks,
                        int64_t now_ms,
                        struct hang_detector_verdict *out);

/* How long a rank has been quiet at the last look, and how long it may be; -1 = no deadline. */
int64_t hang_detector_quiet_ms(const struct hang_detector *h, int rank);
int64_t hang_detector_deadline_ms(const struct hang_detector *h, int rank,
                                  const struct flight_page *page, char state);

/* {"forward": ms, ..., "32x32": {"forward": ms, ...}}: the 99.9th percentiles, for the next attempt; a
 * new object, or NULL when nothing is known. */
json_t *hang_detector_learned(const struct hang_detector *h);

#endif
