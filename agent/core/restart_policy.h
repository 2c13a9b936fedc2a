/* SPDX-License-Identifier: Apache-2.0 */
/* restart_policy.h - restart limit, back-off, and when to give up
 *
 * Pure: no clock, no I/O.
 * Only failures without progress count; progress resets both counters.
 * The first failure without progress restarts at once; the n-th waits min * 2^(n-2), at most max,
 * plus up to a quarter of jitter.
 */
#ifndef AGENT_CORE_RESTART_POLICY_H
#define AGENT_CORE_RESTART_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct agent_exit;

enum { FINGERPRINT = 128 };

/* What a failure showed. */
struct restart_signs {
    bool    command;         /* a `run:` command failed, by its own exit code */
    int     ranks;
    int64_t after_ms;        /* time since its start */
    bool    gpu_held, step, checkpoint; /* it has trained, or started to */
    bool    passing;         /* its output mentions a network, a hub, a port, a file system or a device */
};

struct restart_policy {
    int64_t restarts; /* limit without progress; 0 = never restart */
    int64_t backoff_min_ms, backoff_max_ms;
    int64_t no_progress;             /* limit of identical failures; 0 = unlimited */
    int64_t same_line;               /* ... at the same line of a script before its first step; 0 = as no_progress */
    int64_t same_line_ms;            /* ... this soon after its start */
    bool    at_line;                 /* the last failure was such a one */
    int64_t early_ms;                /* a command that fails this soon is not restarted; 0 = it is */
    bool    early;                   /* the last failure was one of those */
    int64_t failures;                /* without progress, in a row */
    int64_t same;                    /* of these, consecutive ones with the same fingerprint */
    char    fingerprint[FINGERPRINT]; /* of the last failure, "" = none */
};

struct agent_budget;
struct agent_history;

void restart_policy_init(struct restart_policy *p, const struct agent_budget *budget,
                         const struct agent_history *history);
void restart_policy_progress(struct restart_policy *p);

/* Records a failure; gained: number of new steps. */
void restart_policy_failure(struct restart_policy *p, const char *fingerprint, int64_t gained);

/* Call after that: records an exception at a line of the user's script (verdict.place), `after_ms` after its start.
 * Before the first step and soon after the start, another try usually fails in the same way, so only one more try is
 * made. */
void restart_policy_at_line(struct restart_policy *p, bool placed, bool stepped, int64_t after_ms);

/* Call after that, too: a first failure soon after the start, in a single process without any sign of training,
 * comes from a command that another try does not fix. */
void restart_policy_at_start(struct restart_policy *p, const struct restart_signs *signs);

/* Only counts consecutive failures: the job waits for others, and has not failed. */
void restart_policy_repeat(struct restart_policy *p, const char *fingerprint);

int64_t restart_policy_wait_ms(const struct restart_policy *p, double jitter);

/* 0: restart; -1: give up, and `why` is the reason, or "". */
int restart_policy_decide(const struct restart_policy *p, char *why, size_t size);

/* Fingerprint: cause, exit code, sentence with its numbers blanked, and step. Numbers of gpu_oom
 * are kept: the next start uses a smaller micro-batch, so its failure is a different one; so are those of `place`, the
 * line of the script ("" = none). */
void restart_policy_fingerprint(char out[FINGERPRINT], const char *cause, const struct agent_exit *e,
                                const char *detail, const char *place, int64_t step);

#endif
