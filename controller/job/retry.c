/* SPDX-License-Identifier: Apache-2.0 */
/* retry.c - see retry.h */
#include "controller/job/retry.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/err.h"

int64_t retry_backoff(const struct retry_rules *rules, int64_t failures, uint64_t random)
{
    if (failures < 2)
        return 0;
    int64_t pause = rules->backoff_min_ms;
    for (int64_t i = 2; i < failures && pause < rules->backoff_max_ms; i++)
        pause *= 2;
    if (pause > rules->backoff_max_ms)
        pause = rules->backoff_max_ms;
    /* Jitter only shortens the pause, by up to a quarter: backoff_max_ms is an upper bound. */
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

static bool is_cause(const struct retry_case *c, const char *cause)
{
    return c->cause && strcmp(c->cause, cause) == 0;
}

bool retry_counts(const char *cause)
{
    static const char *const others[] = { "disk_full", "dir_in_use", "host_unreachable", "host_unusable",
                                          "too_few_gpus" };
    for (size_t i = 0; cause && i < sizeof(others) / sizeof(others[0]); i++)
        if (strcmp(cause, others[i]) == 0)
            return false;
    return true;
}

/* True if there is another host that has not failed since one of them last answered. */
static bool has_place(const struct retry_case *c)
{
    if (is_cause(c, "host_unusable") || is_cause(c, "too_few_gpus"))
        return c->places > 0;
    return (is_cause(c, "host_unreachable") || is_cause(c, "disk_full")) && c->places > 1 && c->same % c->places != 0;
}

/* Milliseconds to wait after this failure. */
static int64_t delay_of(const struct retry_rules *rules, const struct retry_case *c)
{
    const int64_t places = c->places > 1 ? c->places : 1;
    if (has_place(c))
        return 0;
    if (is_cause(c, "disk_full")) /* without an agent it is not a failure */
        return retry_backoff(rules, c->failures > c->same ? c->failures : c->same, c->random);
    if (retry_counts(c->cause))
        return retry_backoff(rules, c->failures, c->random);
    const int64_t wait = retry_backoff(rules, c->same / places + 1, c->random);
    return wait < RETRY_WAIT_MS ? wait : RETRY_WAIT_MS;
}

/* A limit of failures without progress is reached. */
static bool is_over(struct retry_verdict *out, const struct retry_rules *rules, const struct retry_case *c)
{
    char buf[32];
    if (rules->no_progress > 0 && c->failures > 0 && c->same >= rules->no_progress) {
        out->exit_code = EXIT_NO_MORE;
        snprintf(out->text, sizeof(out->text), "%.300s; not retried: the same failure (%s) %s in a row without a new step",
                 c->text, c->cause, times(c->same, buf, sizeof(buf)));
        return true;
    }
    if (c->failures > rules->max) {
        out->exit_code = EXIT_NO_MORE;
        snprintf(out->text, sizeof(out->text), "%.320s; not retried: retry limit (%lld) reached without progress",
                 c->text, (long long)rules->max);
        return true;
    }
    return false;
}

static void decide(struct retry_verdict *out, const struct retry_rules *rules, const struct retry_case *c)
{
    *out = (struct retry_verdict){ .exit_code = 1 };
    if (rules->max == 0 && !has_place(c)) {       /* retries are off: a plain failure */
        snprintf(out->text, sizeof(out->text), "%.340s; not retried: retry.max is 0", c->text);
        return;
    }
    if (c->gave_up) {
        out->exit_code = EXIT_NO_MORE;
        snprintf(out->text, sizeof(out->text), "%.390s", c->text);
        return;
    }
    if (c->early) {
        snprintf(out->text, sizeof(out->text), "%.390s", c->text);
        return;
    }
    if (!c->helps && !has_place(c)) {
        snprintf(out->text, sizeof(out->text), "%.340s; not retried, the same failure would recur", c->text);
        return;
    }
    if (retry_counts(c->cause) && is_over(out, rules, c))
        return;
    out->again = true;
    out->exit_code = 0;
    out->delay_ms = delay_of(rules, c);
    snprintf(out->text, sizeof(out->text), "%.390s", c->text);
}

void retry_decide(struct retry_verdict *out, const struct retry_rules *rules, const struct retry_case *c)
{
    decide(out, rules, c);
    err_make_printable(out->text); /* a precision may cut a UTF-8 character */
}
