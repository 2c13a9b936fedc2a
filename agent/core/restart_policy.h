/* SPDX-License-Identifier: Apache-2.0 */
/* restart_policy.h - how often to try again, how long to wait, and when to give up
 *
 * Pure: no clock, no I/O.
 * Only failures without progress count; progress resets both counters.
 * The first failure without progress is answered at once, the n-th after
 * min * 2^(n-2), at most max, up to a quarter more by the jitter.
 */
#ifndef AGENT_CORE_RESTART_POLICY_H
#define AGENT_CORE_RESTART_POLICY_H

#include <stddef.h>
#include <stdint.h>

struct agent_exit;

enum { FINGERPRINT = 128 };

struct restart_policy {
    int64_t restarts;                /* allowed without progress; 0 = never restart */
    int64_t backoff_min_ms, backoff_max_ms;
    int64_t no_progress;             /* the same failure so often is enough; 0 = never */
    int64_t failures;                /* without progress, in a row */
    int64_t same;                    /* of these, with the same fingerprint, in a row */
    char    fingerprint[FINGERPRINT]; /* of the last failure, "" = none */
};

struct agent_budget;
struct agent_history;

void restart_policy_init(struct restart_policy *p, const struct agent_budget *budget,
                         const struct agent_history *history);
void restart_policy_progress(struct restart_policy *p);

/* A failure; gained: the steps that were new. */
void restart_policy_failure(struct restart_policy *p, const char *fingerprint, int64_t gained);

int64_t restart_policy_wait_ms(const struct restart_policy *p, double jitter);

/* 0: try again; -1: enough, and `why` says so in a few words that end in ": " or are "". */
int restart_policy_decide(const struct restart_policy *p, char *why, size_t size);

/* Cause, code, sentence with its numbers blanked, and the step. The numbers of gpu_oom stay: the
 * next start takes a smaller micro-batch, and that is another failure. */
void restart_policy_fingerprint(char out[FINGERPRINT], const char *cause,
                                const struct agent_exit *e,
                                const char *detail, int64_t step);

#endif
