/* SPDX-License-Identifier: Apache-2.0 */
/* retry.h - after a failed attempt: whether to retry, when, and a sentence about it
 *
 * Pure: no clock, no I/O.
 * Only failures without progress count: the first step beyond the best so far
 * resets the count.  Back-off starts at the second such failure, doubles, and
 * has jitter, so that jobs that failed together do not restart together.
 * A full disk is not the job's fault: the job is retried until there is space. The same holds for a checkpoint.dir into
 * which another job writes, and for a host that cannot be reached. The wait grows with such attempts only, which do not
 * count as failures. Of several hosts the next one is tried at once; the wait begins when each of them has failed.
 */
#ifndef CONTROLLER_JOB_RETRY_H
#define CONTROLLER_JOB_RETRY_H

#include <stdbool.h>
#include <stdint.h>

enum { RETRY_TEXT = 400, EXIT_NO_MORE = 93, RETRY_WAIT_MS = 60000 /* the longest wait for a directory or a host */ };

struct retry_rules {
    int64_t max;            /* restarts without progress allowed */
    int64_t no_progress;    /* limit of equal failures in a row; 0: no limit */
    /* the agent's (agent/core/restart_policy.h) */
    int32_t same_line;      /* limit of those at one line of a script, before its first step; 0: as no_progress ... */
    int32_t early_ms;       /* a command that fails so soon is not restarted; 0: it is */
    int64_t same_line_ms;   /* ... and how soon after its start that is */
    int64_t backoff_min_ms;
    int64_t backoff_max_ms;
};

struct retry_case {
    const char *cause;          /* a name from agent/core/cause.h */
    const char *text;           /* how the attempt ended, one sentence */
    bool        helps;          /* false: a retry would fail the same way */
    bool        gave_up;        /* the agent used up its restarts; `text` says so */
    bool        early;          /* the agent has not restarted it; `text` says why */
    int64_t     failures;       /* without progress, this one included */
    int64_t     same;           /* consecutive ones with this fingerprint */
    int64_t     places;         /* hosts of the job that may be tried now or later; 0: none, or it has no list of them */
    int64_t     step;
    uint64_t    random;         /* for the jitter */
};

struct retry_verdict {
    bool    again;
    int64_t delay_ms;           /* before the next attempt */
    int     exit_code;          /* if not retried: 1, or 93 "do not requeue" */
    char    text[RETRY_TEXT];
};

void retry_decide(struct retry_verdict *out, const struct retry_rules *rules, const struct retry_case *c);

/* True if it counts as the job's failure. A full disk, a directory in use, and a host that is unreachable, unusable or
 * without enough GPUs do not: then the job is retried without limit. */
bool retry_counts(const char *cause);

/* Milliseconds to wait before restart number `failures` without progress. */
int64_t retry_backoff(const struct retry_rules *rules, int64_t failures, uint64_t random);

#endif
