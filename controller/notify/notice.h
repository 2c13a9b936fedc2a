/* SPDX-License-Identifier: Apache-2.0 */
/* notice.h - when a message about a job is sent, and which events it collects
 *
 * Pure: no clock, no I/O.
 * One message per problem, not per event. Trouble (recovering, hung, budget) waits for `settle_ms`, so that a burst of
 * restarts becomes one message with a count; after it, the job's next trouble waits for `quiet_ms`, then twice that, at
 * most a day. The end of the job is reported at once, in one message with everything that was still waiting. A job that
 * its user cancels sends no message.
 *
 * A message that cannot be sent is tried again with back-off, for NOTICE_KEEP_MS. Each target has a lane: BURST
 * messages at once, then one a minute, which bundles all that is due. So 10,000 jobs that fail together cause only a
 * few messages.
 */
#ifndef CONTROLLER_NOTIFY_NOTICE_H
#define CONTROLLER_NOTIFY_NOTICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "db/notices.h"

/* In the order of importance. */
enum notice_event { NOTICE_NONE, NOTICE_RECOVERING, NOTICE_HUNG, NOTICE_BUDGET, NOTICE_DONE, NOTICE_FAILED,
                    NOTICE_EVENTS };

enum { NOTICE_BURST = 5, NOTICE_BUNDLE = 1000, NOTICE_REFUSALS = 3 };
#define NOTICE_KEEP_MS (24 * 3600 * 1000LL)

struct notice_times {
    int64_t settle_ms, quiet_ms, backoff_ms, refill_ms;
};

extern const struct notice_times NOTICE_TIMES;      /* 30 s, 10 min, 5 s, 1 min */

const char *notice_event_name(enum notice_event e);         /* "" for NOTICE_NONE */
enum notice_event notice_event_of(const char *name);        /* NOTICE_NONE: unknown; accepts NULL */

/* Something happened to the job. */
struct notice_news {
    enum notice_event event;        /* NOTICE_NONE: it ended by a cancel */
    bool              wanted;       /* does this target want it, for this job */
    bool              ended;
    int64_t           at_ms;
    const char       *name, *reason;
};

/* What happens to the row. */
enum notice_fate { NOTICE_SAME, NOTICE_PUT, NOTICE_REMOVE };

enum notice_fate notice_add(struct notice_row *n, const struct notice_news *news, const struct notice_times *t);

/* Should it be sent now? Also true if the wall clock was set back since. */
bool notice_is_due(const struct notice_row *n, int64_t now_ms);

/* The message made from `was` has been sent; `n` may have changed since. */
enum notice_fate notice_sent(struct notice_row *n, const struct notice_row *was, int64_t now_ms,
                             const struct notice_times *t);

/* The message was not sent; refused: the other side would refuse it again. */
enum notice_fate notice_failed(struct notice_row *n, bool refused, int64_t now_ms);

/* ---- lanes ---- */

/* Zeroed: a new one. Times are those of a monotonic clock. */
struct notice_lane {
    int     used;           /* start of the burst */
    int64_t refilled_ms;    /* when a message was last added to it */
    int     fails;          /* consecutive failures */
    int64_t next_ms;        /* earliest next try */
};

/* How many of `due` rows to send now, in one message; 0: none. */
size_t notice_lane_take(struct notice_lane *lane, size_t due, int64_t now_ms, const struct notice_times *t);
void notice_lane_ended(struct notice_lane *lane, bool ok, int64_t now_ms, const struct notice_times *t);

#endif
