/* SPDX-License-Identifier: Apache-2.0 */
/* restart_policy.c - see restart_policy.h */
#include "agent/core/restart_policy.h"

#include <stdio.h>
#include <string.h>

#include "agent/core/agent_core.h"

void restart_policy_init(struct restart_policy *p, const struct agent_budget *budget,
                         const struct agent_history *history)
{
    *p = (struct restart_policy){.restarts = budget->restarts,
                                 .backoff_min_ms = budget->backoff_min_ms,
                                 .backoff_max_ms = budget->backoff_max_ms,
                                 .no_progress = budget->no_progress,
                                 .same_line = budget->same_line,
                                 .same_line_ms = budget->same_line_ms,
                                 .early_ms = budget->early_ms,
                                 .failures = history->failures_without_progress,
                                 .same = history->same_fingerprint};
    snprintf(p->fingerprint, sizeof(p->fingerprint), "%s", history->fingerprint ? history->fingerprint : "");
}

void restart_policy_progress(struct restart_policy *p)
{
    p->failures = p->same = 0;
    p->fingerprint[0] = '\0';
}

void restart_policy_repeat(struct restart_policy *p, const char *fingerprint)
{
    p->same = strcmp(fingerprint, p->fingerprint) == 0 ? p->same + 1 : 1;
    snprintf(p->fingerprint, sizeof(p->fingerprint), "%s", fingerprint);
}

void restart_policy_failure(struct restart_policy *p, const char *fingerprint, int64_t gained)
{
    if (gained > 0)
        restart_policy_progress(p);
    else
        p->failures++;
    restart_policy_repeat(p, fingerprint);
}

void restart_policy_at_line(struct restart_policy *p, bool placed, bool stepped, int64_t after_ms)
{
    p->at_line = placed && !stepped && after_ms < p->same_line_ms;
}

void restart_policy_at_start(struct restart_policy *p, const struct restart_signs *s)
{
    p->early = s->command && s->ranks == 1 && s->after_ms < p->early_ms && p->failures == 1 && !s->gpu_held &&
               !s->step && !s->checkpoint && !s->passing;
}

int64_t restart_policy_wait_ms(const struct restart_policy *p, double jitter)
{
    if (p->failures < 2)
        return 0;
    int64_t d = p->backoff_min_ms, max = p->backoff_max_ms;
    for (int64_t i = 2; i < p->failures && d < max; i++)
        d *= 2;
    d += (int64_t)((double)d * jitter / 4);
    return d < max ? d : max;
}

int restart_policy_decide(const struct restart_policy *p, char *why, size_t size)
{
    why[0] = '\0';
    if (p->restarts == 0)
        return -1;
    if (p->same_line > 0 && p->failures > 0 && p->at_line && p->same >= p->same_line) {
        snprintf(why, size, "the same exception at the same line before the first step, %lld times in a row",
                 (long long)p->same);
        return -1;
    }
    if (p->no_progress > 0 && p->failures > 0 && p->same >= p->no_progress) {
        snprintf(why, size, "the same failure %lld times without progress", (long long)p->same);
        return -1;
    }
    if (p->failures > p->restarts) {
        snprintf(why, size, "restart limit (%lld) reached without progress", (long long)p->restarts);
        return -1;
    }
    return 0;
}

void restart_policy_fingerprint(char out[FINGERPRINT], const char *cause, const struct agent_exit *e,
                                const char *detail, const char *place, int64_t step)
{
    const bool blank = strcmp(cause, "gpu_oom") != 0;
    uint64_t h = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    for (const unsigned char *p = (const unsigned char *)detail; *p; p++) {
        unsigned char c = blank && *p >= '0' && *p <= '9' ? '#' : *p;
        h = (h ^ c) * UINT64_C(0x100000001b3);
    }
    for (const unsigned char *p = (const unsigned char *)place; *p; p++)
        h = (h ^ *p) * UINT64_C(0x100000001b3);
    snprintf(out, FINGERPRINT, "%s:%s%d:%08x@%lld", cause, e->signalled ? "signal" : "exit",
             e->signalled ? e->signo : e->exit_code, (unsigned)(h ^ h >> 32), (long long)step);
}
