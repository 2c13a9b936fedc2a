/* SPDX-License-Identifier: Apache-2.0 */
/* retry.h - an attempt ended badly: again, when, or no more, and the sentence for it
 *
 * Pure: no clock, no I/O.
 * Failures count only while nothing is gained: the first step beyond
 * the best one so far sets the count back.  Back-off starts at the second such
 * failure, doubles, and carries jitter so that many jobs that fell together do
 * not come back together.
 */
#ifndef CONTROLLER_JOB_RETRY_H
#define CONTROLLER_JOB_RETRY_H

#include <stdbool.h>
#include <stdint.h>

enum { RETRY_TEXT = 400, EXIT_NO_MORE = 93 };

struct retry_rules {
    int64_t max;            /* restarts without progress */
    int64_t no_progress;    /* the same failure so often; 0: no such rule */
    int64_t backoff_min_ms;
    int64_t backoff_max_ms;
};

struct retry_case {
    const char *cause;          /* word of agent/core/cause.h */
    const char *text;           /* how it ended, one sentence */
    bool        helps;          /* false: the same again would end the same */
    bool        gave_up;        /* the agent's budget is spent: `text` says so */
    int64_t     failures;       /* without progress, this one included */
    int64_t     same;           /* of those in a row with this fingerprint */
    int64_t     step;
    uint64_t    random;         /* for the jitter */
};

struct retry_verdict {
    bool    again;
    int64_t delay_ms;           /* before the next attempt */
    int     exit_code;          /* when not again: 1, or 93 "do not requeue" */
    char    text[RETRY_TEXT];
};

void retry_decide(struct retry_verdict *out, const struct retry_rules *rules,
                  const struct retry_case *c);

/* The pause before restart number `failures` without progress. */
int64_t retry_backoff(const struct retry_rules *rules, int64_t failures, uint64_t random);

#endif
