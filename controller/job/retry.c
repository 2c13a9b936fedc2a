/* SPDX-License-Identifier: Apache-2.0 */
/* retry.c - see retry.h */
#include "controller/job/retry.h"

#include <stdio.h>

#include "engine/contract/err.h"

int64_t retry_backoff(const struct retry_rules *rules, int64_t failures, uint64_t random)
{
    if (failures < 2)
        return 0;
    int64_t pause = rules->backoff_min_ms;
    for (int64_t i = 2; i < failures && pause < rules->backoff_max_ms; i++)
        pause *= 2;
    if (pause > rules->backoff_max_ms)
        pause = rules->backoff_max_ms;
    /* Up to a quarter less, never more: the maximum is a promise. */
    return pause - (int64_t)(random % (uint64_t)(pause / 4 + 1));
}

static const char *times(int64_t n, char *out, size_t size)
{
    if (n == 1)
        return "once";
    if (n == 2)
        return "twice";
    snprintf(out, size, "%lld times", (long long)n);
    return out;
}

static void decide(struct retry_verdict *out, const struct retry_rules *rules,
                   const struct retry_case *c)
{
    char buf[32];
    *out = (struct retry_verdict){ .exit_code = 1 };
    if (rules->max == 0) {       /* nobody asked for another try: it just failed */
        snprintf(out->text, sizeof(out->text), "%.300s; retry.max is 0", c->text);
        return;
    }
    if (c->gave_up) {
        out->exit_code = EXIT_NO_MORE;
        snprintf(out->text, sizeof(out->text), "%.300s; stopped for good, do not requeue", c->text);
        return;
    }
    if (!c->helps) {
        snprintf(out->text, sizeof(out->text), "%.250s; the same again would end the same way",
                 c->text);
        return;
    }
    if (rules->no_progress > 0 && c->failures > 0 && c->same >= rules->no_progress) {
        out->exit_code = EXIT_NO_MORE;
        snprintf(out->text, sizeof(out->text),
                 "failed %s in the same way without a new step (%s): %.250s; "
                 "stopped for good, do not requeue",
                 times(c->same, buf, sizeof(buf)), c->cause, c->text);
        return;
    }
    if (c->failures > rules->max) {
        out->exit_code = EXIT_NO_MORE;
        snprintf(out->text, sizeof(out->text),
                 "failed %s without a new step and retry.max is %lld; the last time: %.250s; "
                 "stopped for good, do not requeue",
                 times(c->failures, buf, sizeof(buf)), (long long)rules->max, c->text);
        return;
    }
    out->again = true;
    out->exit_code = 0;
    out->delay_ms = retry_backoff(rules, c->failures, c->random);
    snprintf(out->text, sizeof(out->text), "%.250s", c->text);
}

void retry_decide(struct retry_verdict *out, const struct retry_rules *rules,
                  const struct retry_case *c)
{
    decide(out, rules, c);
    err_make_printable(out->text); /* it may have been cut within a character */
}
